"""Rolling windows in the estimator: exact counts by slice, what ages out when, forecast and price without a reset."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.rolling import CELLS, Ageing, Rolling
from tidegate.estimator.state import Row, State
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.money import Tokens
from tidegate.events.quota import SLICES, slice_ns
from tidegate.events.registry import type_of
from tidegate.events.signals import DemandSeen, SettlementCorrected, UsageSettled
from tidegate.events.snapshots import PoolBelief, WindowBelief
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, SourceId, TargetId, WindowId

S = 10**9
HOUR_NS = 3_600 * S
WIDTH_NS = slice_ns(HOUR_NS)
START_NS = 450_000 * HOUR_NS
POOL, W = PoolId("p"), WindowId("1h")
_seqs = itertools.count(1)


def use(at_ns: int, units: int) -> WindowUse:
    return WindowUse(W, at_ns - at_ns % WIDTH_NS, units, HOUR_NS, rolling=True)


def signal(data: object, at_ns: int) -> Signal:
    kind, version = type_of(data)
    seq = next(_seqs)
    envelope = Envelope(
        id=EventId(f"e{seq}"), type=kind, v=version, ts=at_ns, source=SourceId("gw@1"), seq=seq,
        data=msgspec.Raw(b"{}"),
    )  # fmt: skip
    return Signal(0, envelope, data)


def settled(at_ns: int, units: int, begun_ns: int | None = None) -> Signal:
    uses = (use(at_ns if begun_ns is None else begun_ns, units),)
    return signal(
        UsageSettled(
            attempt=AttemptId("a"), target=TargetId("t"), pool=POOL, route="r", basis="reported",
            outcome="completed", windows=uses, evidence=False,
        ),
        at_ns,
    )  # fmt: skip


def demanded(at_ns: int, units: int, alternative_nanousd: int) -> Signal:
    return signal(
        DemandSeen(
            decision=DecisionId("d"), pool=POOL, windows=(use(at_ns, units),),
            alternative_nanousd=alternative_nanousd,
        ),
        at_ns,
    )  # fmt: skip


def believed(state: State, at_ns: int, limit: int = 1_000, kind: str = "rolling") -> WindowBelief:
    window = Window(id=W, unit="tokens", limit=limit, duration_s=3_600, kind=kind)  # type: ignore[arg-type]
    routing = Routing(pools=(Pool(id=POOL, billing="flat", windows=(window,)),))
    if POOL not in state.pools:
        state.window_of(state.pool(POOL, 0), W, HOUR_NS, first_request=False)
    return publish(state, at_ns, routing, [], [POOL]).pools[POOL].windows[0]


def folded(signals: Sequence[Signal]) -> State:
    state = State()
    fold(state, signals)
    return state


def test_a_use_counts_until_all_of_its_slice_is_a_window_ago_and_never_shorter_than_at_the_provider() -> None:
    state = folded([settled(START_NS + 7 * S, 300), settled(START_NS + 600 * S, 200)])
    belief = believed(state, START_NS + 700 * S)
    assert (belief.used, belief.period_start_ns, belief.resets_at_ns) == (500, None, None)
    assert belief.rolls_ns == HOUR_NS
    assert belief.ages_out == (
        (START_NS + WIDTH_NS + HOUR_NS, 300), (START_NS + 600 * S + WIDTH_NS + HOUR_NS, 200),
    )  # fmt: skip
    assert believed(state, START_NS + HOUR_NS + WIDTH_NS - 1).used == 500
    assert believed(state, START_NS + HOUR_NS + WIDTH_NS).used == 200
    assert believed(state, START_NS + 2 * HOUR_NS).used == 0


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 50)), max_size=80), st.integers(0, 120))
def test_the_ledger_counts_what_a_plain_list_of_uses_counts(steps: list[tuple[int, int]], late: int) -> None:
    rolling, at_ns = Rolling(), START_NS
    place = rolling.place(0, HOUR_NS)
    uses: list[tuple[int, int]] = []
    for wait_s, units in steps:
        at_ns += wait_s * S
        uses.append((max(at_ns - late * S, START_NS), units))
    places = np.full(len(uses), place, dtype=np.int64)
    columns = np.array(uses, dtype=np.int64).reshape(-1, 2).T
    rolling.use(places, columns[0], columns[1])
    for now_ns in (at_ns, at_ns + HOUR_NS // 3, at_ns + 2 * HOUR_NS):
        number = now_ns // WIDTH_NS
        expected = sum(units for start_ns, units in uses if start_ns // WIDTH_NS >= number - SLICES)
        assert rolling.at(np.array([place]), now_ns).used[0] == expected


def test_how_records_are_cut_into_batches_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    at = np.cumsum(rng.integers(1, 400, size=300))
    signals = [
        settled(START_NS + int(s) * S, int(rng.integers(1, 90)), START_NS + int(s - s % 97) * S) for s in at
    ]
    whole, cut = folded(signals), State()
    for k in range(0, 300, 7):
        fold(cut, signals[k : k + 7])
    assert whole.pool_row(POOL) == cut.pool_row(POOL)


def test_the_state_survives_a_restart_and_a_window_that_never_rolled_stores_nothing_of_it() -> None:
    signals = [settled(START_NS + k * 50 * S, k + 1) for k in range(90)]
    before = folded(signals[:60])
    again = State()
    again.load(msgspec.json.decode(msgspec.json.encode(before.pool_row(POOL)), type=Row), 0)
    fold(again, signals[60:])
    assert again.pool_row(POOL) == folded(signals).pool_row(POOL)
    fixed = State()
    fixed.window_of(fixed.pool(POOL, 0), W, HOUR_NS, first_request=False)
    assert b"rolling" not in msgspec.json.encode(fixed.pool_row(POOL))


def test_a_use_counts_from_when_it_was_settled_and_a_correction_where_it_stood() -> None:
    state = folded([settled(START_NS + 590 * S, 300, begun_ns=START_NS)])
    assert believed(state, START_NS + HOUR_NS + 500 * S).used == 300
    correction = SettlementCorrected(
        attempt=AttemptId("a"), target=TargetId("t"), pool=POOL, delta_nanousd=0, tokens=Tokens(), evidence="bill",
        windows=(use(START_NS + 590 * S, -100),),
    )  # fmt: skip
    fold(state, [signal(correction, START_NS + 1_200 * S)])
    assert believed(state, START_NS + HOUR_NS + 500 * S).used == 200


def test_uses_of_one_window_may_change_their_kind_with_its_config() -> None:
    fixed = WindowUse(W, START_NS, 70, HOUR_NS)
    state = folded([settled(START_NS + S, 30)])
    fold(state, [settled(START_NS + 2 * S, 0)._replace(data=msgspec.structs.replace(
        settled(0, 0).data, windows=(fixed,)))])  # fmt: skip
    assert believed(state, START_NS + 3 * S).used == 30
    assert believed(state, START_NS + 3 * S, kind="fixed").used == 70


def steady(units: int, every_s: int = 60, hours: int = 8) -> State:
    """Even use for some hours, up to START_NS + hours."""
    return folded([settled(START_NS + k * every_s * S, units) for k in range(hours * 3_600 // every_s)])


def grown_signals() -> list[Signal]:
    """Even use that has been twice as much for the last twenty minutes."""
    return [settled(START_NS + k * 60 * S, 10 if k < 460 else 20) for k in range(480)]


def grown() -> State:
    return folded(grown_signals())


def test_use_that_grew_runs_dry_where_even_use_does_not() -> None:
    now_ns = START_NS + 8 * HOUR_NS
    calm, tight, wide = (
        believed(state, now_ns, limit=limit)
        for state, limit in ((steady(10), 900), (grown(), 900), (grown(), 1_900))
    )
    assert calm.p_exhaust is not None
    assert tight.p_exhaust is not None
    assert wide.p_exhaust is not None
    assert max(calm.p_exhaust, wide.p_exhaust) < 0.1
    assert tight.p_exhaust > 0.7
    assert calm.remaining_demand is not None
    assert calm.remaining_demand.mean == pytest.approx(600, rel=0.1)


def test_use_that_ages_out_makes_room_that_a_fixed_window_would_not_have() -> None:
    """Half of the quota was used an hour ago: it comes back just before it is needed."""
    signals = [settled(START_NS + k * 60 * S, 10) for k in range(420)]
    state, now_ns = folded(signals), START_NS + 7 * HOUR_NS
    limit = 900
    rolling = believed(state, now_ns, limit=limit)
    series = np.array([0])
    fixed = forecast(state.use, series, now_ns, np.array([now_ns + HOUR_NS]), np.array([float(limit - 610)]))
    assert rolling.p_exhaust is not None
    assert rolling.p_exhaust < 0.2
    assert fixed.p_exhaust[0] > 0.9


def test_a_window_that_gives_nothing_back_is_forecast_as_one_without_ageing_bit_for_bit() -> None:
    state, now_ns = steady(10), START_NS + 8 * HOUR_NS
    series, resets = np.array([0]), np.array([now_ns + HOUR_NS // 2])
    nothing = Ageing(np.zeros((CELLS, 1)), np.zeros((CELLS, 1)))
    for remaining in (0.0, 100.0, 300.0, 5_000.0):
        plain = forecast(state.use, series, now_ns, resets, np.array([remaining]))
        aged = forecast(state.use, series, now_ns, resets, np.array([remaining]), ageing=nothing)
        for one, other in zip(plain, aged, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_expected_time_lies_within_the_next_window_and_exhausted_is_exhausted() -> None:
    now_ns = START_NS + 8 * HOUR_NS
    soon = believed(grown(), now_ns, limit=900)
    assert soon.exhausts_at_ns is not None
    assert now_ns < soon.exhausts_at_ns <= now_ns + HOUR_NS // 3
    assert soon.exhausts_p50_ns is not None
    dry = believed(steady(10), now_ns, limit=600)
    assert (dry.p_exhaust, dry.status) == (1.0, "exhausted")


def test_the_index_is_the_pace_of_the_newer_half() -> None:
    even = believed(steady(10), START_NS + 8 * HOUR_NS, limit=1_220)
    assert even.uvi == pytest.approx((0.25 + 0.15) / 0.65, abs=0.02)
    later = folded([settled(START_NS + k * 60 * S, 30) for k in range(30)])
    assert believed(later, START_NS + HOUR_NS // 2, limit=1_000).status == "stressed"
    assert believed(later, START_NS + HOUR_NS + 120 * S, limit=1_000).status == "ok"


def test_the_shadow_price_rises_with_demand_against_what_there_is_and_what_comes_back() -> None:
    signals: list[Signal] = []
    for k in range(8 * 60):
        at_ns = START_NS + k * 60 * S
        signals += [demanded(at_ns, 10, 30_000 if k % 2 else 300_000), settled(at_ns, 10 if k < 450 else 2)]
    state, now_ns = folded(signals), START_NS + 8 * HOUR_NS
    prices = [believed(state, now_ns, limit=limit).shadow_nanousd for limit in (363, 450, 600, 1_200)]
    assert prices == sorted(prices, reverse=True)
    assert prices[0] == pytest.approx(3_000), "half of the demand is worth ten times as much, and fits"
    assert prices[2] < prices[0]
    assert prices[-1] < 100
    assert all(price > 0 for price in prices)


def test_a_window_without_any_use_has_all_of_its_quota_and_its_prior_price() -> None:
    belief = believed(State(), START_NS)
    assert (belief.used, belief.ages_out, belief.p_exhaust, belief.rolls_ns) == (0, (), None, HOUR_NS)
    assert belief.shadow_nanousd > 0


def test_windows_of_every_kind_of_one_pool_are_believed_side_by_side() -> None:
    day = Window(id=WindowId("day"), unit="tokens", limit=5_000, duration_s=86_400)
    hour = Window(id=W, unit="tokens", limit=900, duration_s=3_600, kind="rolling")
    state, now_ns = State(), START_NS + 8 * HOUR_NS
    day_ns = START_NS - START_NS % (24 * HOUR_NS)
    both: list[Signal] = []
    for each in grown_signals():
        uses = (*each.data.windows, WindowUse(day.id, day_ns, each.data.windows[0].units, 24 * HOUR_NS))
        both.append(each._replace(data=msgspec.structs.replace(each.data, windows=uses)))
    fold(state, both)

    def pool(*windows: Window) -> PoolBelief:
        routing = Routing(pools=(Pool(id=POOL, billing="flat", windows=windows),))
        return publish(state, now_ns, routing, [], [POOL]).pools[POOL]

    together = pool(day, hour)
    assert [belief.window for belief in together.windows] == ["day", "1h"]
    alone = (*pool(day).windows, *pool(hour).windows)
    unpriced = [
        [msgspec.structs.replace(belief, shadow_nanousd=0.0) for belief in windows]
        for windows in (together.windows, alone)
    ]
    assert unpriced[0] == unpriced[1], "neither changes the other"
    prices, dearest = [[belief.shadow_nanousd for belief in windows] for windows in (together.windows, alone)]
    assert sum(prices) == pytest.approx(max(dearest), rel=0.01), "what one asks the other does not ask again"
    assert together.p_exhaust is not None
    assert together.p_exhaust >= max(belief.p_exhaust or 0.0 for belief in together.windows)
