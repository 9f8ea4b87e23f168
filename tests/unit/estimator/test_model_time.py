"""A source whose clock is wrong changes what its own events say, and nothing that others rely on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.journals import make_ids
from tidegate.estimator.engine import Engine, Shard
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.model_time import AHEAD_NS, in_log_time
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.config import DatedPrice, Pool, Routing, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Draft
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.money import Tokens
from tidegate.events.quota import duration_ns, period_start_ns
from tidegate.events.registry import type_of
from tidegate.events.signals import AttemptFailed, DemandSeen, FirstTokenSeen, UsageSettled
from tidegate.events.snapshots import PoolBelief, TargetBelief
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, TargetId, WindowId

NOW_NS = 1_796_039_000_000_000_000
S = 10**9
HOUR_NS = 3_600 * S
POOL, TARGET = PoolId("p"), TargetId("t")
USES = 40


def window(kind: str) -> Window:
    return msgspec.convert(
        {"id": "1h", "unit": "requests", "limit": 100, "duration_s": 3600.0, "kind": kind}, Window
    )


def routing(kind: str = "fixed") -> Routing:
    priced = DatedPrice(input_uncached=1, output=1)
    return Routing(
        pools=(Pool(id=POOL, billing="flat", windows=(window(kind),)),),
        targets=(
            Target(id=TARGET, dialect="openai", base_url="https://x", model="m", pool=POOL, prices=(priced,)),
        ),
    )


class Alarms:
    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


class Folded:
    """An engine that is handed records as a log would hand them, and what it believes."""

    def __init__(self, kind: str = "fixed") -> None:
        self.routing = routing(kind)
        clock = ManualClock(NOW_NS)
        self.engine = Engine(MemoryEventLog(clock), clock, make_ids(clock), self.routing, Alarms(), 0.25)
        self.engine.shards[0] = Shard(0, None)  # type: ignore[arg-type] - nothing is committed here
        self._seq = 0

    def take(self, data: Any, *, append_ns: int, skew_ns: int = 0) -> None:
        self._seq += 1
        kind, version = type_of(data)
        draft = Draft(
            EventId("e"),
            kind,
            version,
            append_ns + skew_ns,
            "gw-0@1",
            self._seq,
            data,
            "acme",
            "r",
            "s",
            None,
        )
        record = Record(SIGNALS.name, 0, self._seq, b"k", codec.encode(draft), append_ns)
        assert self.engine.take([record]) == 1

    def pool(self, now_ns: int) -> PoolBelief:
        return publish(self.engine.state, now_ns, self.routing, [TARGET], [POOL]).pools[POOL]

    def target(self, now_ns: int) -> TargetBelief:
        return publish(self.engine.state, now_ns, self.routing, [TARGET], [POOL]).targets[TARGET]

    def rows(self) -> list[bytes]:
        state = self.engine.state
        return [msgspec.json.encode(row) for row in (state.target_row(TARGET), state.pool_row(POOL))]


def use(clock_ns: int, kind: str = "fixed", opened_ns: int | None = None) -> UsageSettled:
    """A settlement as a gateway writes it whose clock says `clock_ns`."""
    one = window(kind)
    period = WindowUse(
        one.id, period_start_ns(one, clock_ns, opened_ns), 1, duration_ns(one), kind == "first_request"
    )
    return UsageSettled(
        attempt=AttemptId("a"), target=TARGET, pool=POOL, route="r", basis="reported", outcome="completed",
        tokens=Tokens(input_uncached=10, output=20), cost_nanousd=0, windows=(period,),
        duration_ns=S, ttft_ns=S // 10, input_estimate=10,
    )  # fmt: skip


def uses_with_one_wrong_clock(skew_ns: int, kind: str = "fixed") -> Folded:
    """USES uses, a second apart, and one more in their midst from a gateway whose clock is off."""
    folded = Folded(kind)
    for index in range(USES):
        at_ns = NOW_NS + index * S
        folded.take(use(at_ns, kind, NOW_NS), append_ns=at_ns)
        if index == USES // 2:
            # It has no period open by its own clock.
            folded.take(use(at_ns + skew_ns, kind), append_ns=at_ns, skew_ns=skew_ns)
    return folded


SEARCH = (Phase.explicit, Phase.generate)
"""An example is a whole run of an engine: a smaller one would tell no more."""
SKEWS = st.integers(-90 * 24 * HOUR_NS, 90 * 24 * HOUR_NS)


@pytest.mark.unmeasured
@given(skew_ns=SKEWS)
@settings(max_examples=25, deadline=None, phases=SEARCH)
def test_one_wrong_clock_moves_no_window_and_counts_at_most_itself(skew_ns: int) -> None:
    after_ns = NOW_NS + (USES + 1) * S
    (honest,) = uses_with_one_wrong_clock(0).pool(after_ns).windows
    (found,) = uses_with_one_wrong_clock(skew_ns).pool(after_ns).windows
    assert (found.period_start_ns, found.resets_at_ns) == (honest.period_start_ns, honest.resets_at_ns)
    assert honest.used == USES + 1
    # A clock that is behind names an earlier period, as a late record rightly does.
    assert found.used == USES + 1 if skew_ns >= 0 else found.used in {USES, USES + 1}


@pytest.mark.parametrize("skew_ns", [10 * S, 2 * HOUR_NS, 400 * 24 * HOUR_NS])
def test_a_clock_that_is_ahead_joins_the_period_that_its_first_request_opened(skew_ns: int) -> None:
    (found,) = uses_with_one_wrong_clock(skew_ns, "first_request").pool(NOW_NS + 60 * S).windows
    assert (found.period_start_ns, found.used) == (NOW_NS, USES + 1)


@pytest.mark.unmeasured
@given(skew_ns=st.integers(AHEAD_NS, 90 * 24 * HOUR_NS))
@settings(max_examples=10, deadline=None, phases=SEARCH)
def test_however_far_a_clock_is_ahead_the_beliefs_are_those_of_five_seconds(skew_ns: int) -> None:
    assert uses_with_one_wrong_clock(skew_ns).rows() == uses_with_one_wrong_clock(AHEAD_NS).rows()


def test_latency_is_learned_again_at_once_after_an_event_from_the_future() -> None:
    def believed(skew_ns: int) -> float:
        folded = Folded()
        for index in range(60):
            at_ns = NOW_NS + index * 60 * S
            seen = FirstTokenSeen(
                attempt=AttemptId("a"), target=TARGET, pool=POOL, ttft_ns=S if index < 30 else 4 * S,
                input_tokens=100,
            )  # fmt: skip
            folded.take(seen, append_ns=at_ns, skew_ns=skew_ns if index == 29 else 0)
        ttft = folded.target(NOW_NS + 3_600 * S).ttft_ms
        assert ttft is not None
        return ttft.mean

    assert believed(30 * 24 * HOUR_NS) == pytest.approx(believed(0), rel=0.01)


def failed(**fields: Any) -> AttemptFailed:
    return AttemptFailed(attempt=AttemptId("a"), target=TARGET, pool=POOL, phase="body", rule="r", **fields)


@pytest.mark.parametrize("skew_ns", [0, 2 * HOUR_NS])
def test_a_wrong_clock_closes_nothing_for_longer_than_it_meant(skew_ns: int) -> None:
    folded = Folded()
    for n in range(5):
        folded.take(failed(cause="unavailable", status=503), append_ns=NOW_NS + n * S, skew_ns=skew_ns)
    until_ns = folded.target(NOW_NS + 5 * S).circuit_until_ns
    assert until_ns is not None
    assert 0 <= until_ns - NOW_NS - 34 * S <= AHEAD_NS
    reset_at_ns = NOW_NS + skew_ns + 600 * S  # ten minutes, by its own clock
    exhausted = failed(cause="quota_exhausted", status=429, reset_at_ns=reset_at_ns)
    folded.take(exhausted, append_ns=NOW_NS, skew_ns=skew_ns)
    until_ns = folded.pool(NOW_NS + S).cooldown_until_ns
    assert until_ns is not None
    assert 0 <= until_ns - NOW_NS - 600 * S <= AHEAD_NS


def test_times_a_source_named_move_with_its_clock() -> None:
    demand = DemandSeen(
        decision=DecisionId("d"), pool=POOL, windows=(), refused_until_ns=NOW_NS + HOUR_NS + 60 * S
    )
    moved, ts = in_log_time(demand, NOW_NS + HOUR_NS, NOW_NS)
    assert (moved.refused_until_ns - ts, ts) == (60 * S, NOW_NS + AHEAD_NS)
    for data in (failed(cause="unavailable"), msgspec.structs.replace(demand, refused_until_ns=None)):
        assert in_log_time(data, NOW_NS + HOUR_NS, NOW_NS) == (data, NOW_NS + AHEAD_NS)


def test_an_event_that_comes_late_stays_where_it_is() -> None:
    data = use(NOW_NS)
    for late_ns in (0, AHEAD_NS, 90 * 24 * HOUR_NS):
        assert in_log_time(data, NOW_NS, NOW_NS + late_ns) == (data, NOW_NS)
    assert in_log_time(data, NOW_NS + AHEAD_NS, NOW_NS) == (data, NOW_NS + AHEAD_NS)


@pytest.mark.parametrize("kind", ["fixed", "first_request"])
def test_a_clock_set_back_before_the_settlement_moves_no_window(kind: str) -> None:
    """The attempt took its period from a clock two hours ahead; its settlement is in time again."""
    state, clock_ns = State(), NOW_NS + 2 * HOUR_NS
    wrong = msgspec.structs.replace(use(NOW_NS), windows=use(clock_ns, kind).windows)
    for seq, data in enumerate([use(NOW_NS, kind), wrong, use(NOW_NS, kind)]):
        envelope = codec.decode_envelope(
            codec.encode(
                Draft(EventId("e"), "UsageSettled", 1, NOW_NS, "s", seq, data, None, None, None, None)
            )
        )
        fold(state, [Signal(0, envelope, data)])
    (found,) = publish(state, NOW_NS + S, routing(kind), [TARGET], [POOL]).pools[POOL].windows
    assert found.window == WindowId("1h")
    assert (found.used, found.period_start_ns) == (3, period_start_ns(window(kind), NOW_NS))
