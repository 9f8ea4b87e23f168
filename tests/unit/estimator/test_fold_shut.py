"""What a window without quota hides is missing from its consumption, not idle; states of version 1 load."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.signals import records
from tidegate.estimator import activity
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.price_filter import PriceFilter
from tidegate.estimator.series_fields import CHAIN
from tidegate.estimator.series_upcast import upcast
from tidegate.estimator.state import CLASSES, FOLD_VERSION, Row, State, StateVersionUnknown, upcast_row
from tidegate.events import codec
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.registry import type_of
from tidegate.events.signals import AttemptFailed, DemandSeen, UsageSettled
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, SourceId, TargetId, WindowId

GOLDEN = Path(__file__).parent / "golden" / "state.v1.jsonl"
S = 10**9
HOUR_NS = 3_600 * S
FIVE_HOURS_NS = 5 * HOUR_NS
START_NS = 360_000 * FIVE_HOURS_NS // 5 * 5
BIN_NS = FIVE_HOURS_NS // 30
_seqs = itertools.count(1)


def uses(at_ns: int, units: int = 1) -> tuple[WindowUse, ...]:
    week = 168 * HOUR_NS
    return (
        WindowUse(WindowId("5h"), at_ns - at_ns % FIVE_HOURS_NS, units, FIVE_HOURS_NS),
        WindowUse(WindowId("week"), at_ns - at_ns % week, units, week),
    )


def signal(data: Any, at_ns: int) -> Signal:
    kind, version = type_of(data)
    seq = next(_seqs)
    return Signal(
        0,
        Envelope(
            id=EventId(f"e{seq}"),
            type=kind,
            v=version,
            ts=at_ns,
            source=SourceId("gw@1"),
            seq=seq,
            data=msgspec.Raw(b"{}"),
        ),
        data,
    )


def used(at_ns: int) -> Signal:
    data = UsageSettled(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        route="r",
        basis="reported",
        outcome="completed",
        windows=uses(at_ns),
        evidence=False,
    )
    return signal(data, at_ns)


def demanded(at_ns: int, refused_until_ns: int | None = None) -> Signal:
    data = DemandSeen(
        decision=DecisionId("d"),
        pool=PoolId("p"),
        windows=uses(at_ns),
        alternative_nanousd=1_000,
        refused_until_ns=refused_until_ns,
    )
    return signal(data, at_ns)


def exhausted(at_ns: int, reset_at_ns: int) -> Signal:
    data = AttemptFailed(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        cause="quota_exhausted",
        phase="body",
        rule="r",
        reset_at_ns=reset_at_ns,
    )
    return signal(data, at_ns)


def bins(*numbers: int) -> list[int]:
    """Times in the middle of these ten-minute bins."""
    return [START_NS + n * BIN_NS + BIN_NS // 2 for n in numbers]


def folded(signals: Sequence[Signal], cuts: Sequence[int] = ()) -> State:
    state, at = State(), 0
    for cut in [*cuts, len(signals)]:
        fold(state, signals[at:cut])
        at = cut
    return state


def chain(state: State, table: str = "use") -> dict[str, float]:
    """Counts of the activity chain of the 5 h window."""
    numbers = getattr(state, table).row(state.windows[0, WindowId("5h")])[CHAIN]
    return dict(zip(activity.FIELDS, numbers, strict=True))


RESET_NS = START_NS + FIVE_HOURS_NS
BUSY = [used(at) for at in bins(*range(10))]


def test_hours_without_quota_are_not_learned_as_idle() -> None:
    after = [used(at) for at in bins(30, 31)]
    shut = folded([*BUSY, demanded(bins(9)[0], RESET_NS), *after])
    open_ = folded([*BUSY, *after])
    assert chain(shut)["stop"] < chain(open_)["stop"]
    for age in (1, 2, 4, 8):
        assert chain(shut)[f"stay_idle_{age}"] <= activity.PRIOR_STAY_IDLE
        assert chain(open_)[f"stay_idle_{age}"] > activity.PRIOR_STAY_IDLE
    assert state_bins(shut) == state_bins(open_) - 20


def state_bins(state: State) -> float:
    return chain(state)["closed_bins"]


def test_a_provider_that_says_its_quota_is_gone_is_believed() -> None:
    after = [used(at) for at in bins(30, 31)]
    told = folded([*BUSY, exhausted(bins(9)[0], RESET_NS), *after])
    assert state_bins(told) == state_bins(folded([*BUSY, *after])) - 20


def test_after_the_reset_idle_hours_are_idle_again() -> None:
    late = [used(at) for at in bins(50)]
    shut = folded([*BUSY, demanded(bins(9)[0], RESET_NS), *late])
    assert state_bins(shut) == state_bins(folded([*BUSY, *late])) - 20
    assert shut.pool_shut == [None]


def test_demand_that_was_refused_still_counts_as_demand() -> None:
    refused = [demanded(at, RESET_NS) for at in bins(*range(10, 30))]
    state = folded([*BUSY, *[demanded(at) for at in bins(*range(10))], *refused])
    assert chain(state, "demand")["active"] == 1.0
    assert state_bins(state) < chain(state, "demand")["closed_bins"]
    assert chain(state, "demand")["stop"] <= activity.PRIOR_STOP


def test_admitted_demand_opens_the_pool_again_before_the_reset() -> None:
    signals = [*BUSY, demanded(bins(9)[0], RESET_NS), demanded(bins(20)[0]), used(bins(29)[0])]
    state = folded(signals)
    assert state.pool_shut == [None]
    assert state_bins(state) == state_bins(folded([*BUSY, used(bins(29)[0])])) - 10


def test_less_than_a_bin_without_quota_is_no_gap() -> None:
    at = bins(9)[0]
    flicker = [demanded(at + 1, RESET_NS), demanded(at + 2), demanded(at + 3, RESET_NS), demanded(at + 4)]
    state = folded([*BUSY, *flicker, used(bins(12)[0])])
    assert chain(state) == chain(folded([*BUSY, used(bins(12)[0])]))


def test_uses_that_settle_while_the_pool_is_shut_count_and_leave_it_shut() -> None:
    state = folded([*BUSY, demanded(bins(9)[0], RESET_NS), used(bins(15)[0])])
    assert state.pool_shut[0] is not None
    assert state.pool_shut[0][1] == RESET_NS
    assert state.ledger.row(0)[1] == 11
    assert chain(state)["stop"] <= activity.PRIOR_STOP


def test_a_refusal_that_is_over_when_it_is_seen_shuts_nothing() -> None:
    assert folded([*BUSY, demanded(bins(9)[0], START_NS)]).pool_shut == [None]


def test_a_pool_whose_windows_are_not_known_yet_is_shut_without_harm() -> None:
    state = folded([exhausted(bins(1)[0], RESET_NS), signal(used(RESET_NS).data, RESET_NS)])
    assert state.pool_shut == [None]


MIXED = [
    *BUSY,
    demanded(bins(9)[0] + 7, RESET_NS),
    used(bins(13)[0]),
    demanded(bins(14)[0], RESET_NS),
    demanded(bins(17)[0]),
    used(bins(17)[0] + 1),
    used(bins(19)[0]),
    exhausted(bins(19)[0] + 2, RESET_NS + HOUR_NS),
    used(bins(33)[0]),
    used(bins(44)[0]),
    used(bins(45)[0]),
]


@pytest.mark.parametrize("cuts", [list(range(1, len(MIXED))), [10, 12], [11], [13, 15, 16]])
def test_cuts_change_no_bit_around_a_shut_window(cuts: list[int]) -> None:
    assert msgspec.json.encode(folded(MIXED, cuts).pool_row(PoolId("p"))) == msgspec.json.encode(
        folded(MIXED).pool_row(PoolId("p"))
    )


@pytest.mark.parametrize("at", range(1, len(MIXED)))
def test_a_restart_while_shut_changes_no_bit(at: int) -> None:
    before, restored = folded(MIXED[:at]), State()
    for row in [before.pool_row(PoolId("p")), *map(before.target_row, before.targets)]:
        restored.load(msgspec.json.decode(msgspec.json.encode(row), type=Row), 0)
    fold(restored, MIXED[at:])
    assert restored.pool_row(PoolId("p")) == folded(MIXED).pool_row(PoolId("p"))


def stored_v1() -> list[tuple[int, Row]]:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    return [(line["partition"], msgspec.convert(line["row"], Row)) for line in lines]


def test_states_of_version_1_load_and_are_folded_on() -> None:
    state = State()
    for partition, row in stored_v1():
        assert row.fold == 1
        state.load(row, partition)
    shut = {pool: state.pool_shut[i] for pool, i in state.pools.items()}
    assert shut == {PoolId("pool-1"): None, PoolId("pool-3"): (0, 1800003602380683341)}
    for _, row in stored_v1():
        kind, _, name = row.subject.partition(":")
        again = state.target_row(TargetId(name)) if kind == "target" else state.pool_row(PoolId(name))
        assert again.fold == FOLD_VERSION
        for field in ("cooldown", "health", "ttft", "speed", "length"):
            assert getattr(again, field) == getattr(row, field)
        for window, stored in zip(again.windows, row.windows, strict=True):
            stored.use, stored.demand = upcast(stored.use), upcast(stored.demand)
            assert window == stored
    more = [
        Signal(record.partition, envelope, codec.decode_data(envelope))
        for record in records(200, pools=4, seed=3)
        for envelope in [codec.decode_envelope(record.value or b"")]
    ]
    touched = fold(state, more)
    assert len(touched.targets) == 4


def test_states_of_version_8_keep_their_list_prices_and_learn_anew_what_is_billed() -> None:
    lines = [json.loads(line) for line in (GOLDEN.parent / "state.v8.jsonl").read_text().splitlines()]
    state = State()
    for line in lines:
        row = msgspec.convert(line["row"], Row)
        assert row.fold == 8
        assert any(numbers[9] > 0 for numbers in row.prices), "settlements counted as bills"
        state.load(row, line["partition"])
        again = state.target_row(TargetId(row.subject.partition(":")[2]))
        for field in ("version", "cooldown", "health", "ttft", "speed", "length", "lengths", "cache"):
            assert getattr(again, field) == getattr(row, field)
        assert again.listed is not None
        assert again.prices == [list(PriceFilter.PRIOR)] * len(CLASSES)
        assert (again.listed.input_uncached, again.listed.output) == tuple(
            int(msgspec.convert(line["row"], Row).prices[place][6]) for place in (0, 4)
        )


def test_a_version_nobody_folded_yet_is_refused() -> None:
    row = stored_v1()[0][1]
    row.fold = FOLD_VERSION + 1
    with pytest.raises(StateVersionUnknown, match="rebuild"):
        upcast_row(row)
