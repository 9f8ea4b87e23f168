"""Peak hours in the estimator: the ledger counts what the provider counts, rates are of plain use, forecasts know the hour."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import Peak, Pool, Routing, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.money import Tokens
from tidegate.events.peak import peak_at
from tidegate.events.registry import type_of
from tidegate.events.signals import DemandSeen, SettlementCorrected, UsageSettled
from tidegate.events.snapshots import WindowBelief
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, SourceId, TargetId, WindowId

S = 10**9
HOUR_NS = 3_600 * S
DAY_NS = 24 * HOUR_NS
START_NS = 20_000 * DAY_NS
POOL, W = PoolId("p"), WindowId("day")
PEAKS = (Peak(weight=3.0, begin="14:00", end="18:00"),)
_seqs = itertools.count(1)


def signal(data: object, at_ns: int) -> Signal:
    kind, version = type_of(data)
    seq = next(_seqs)
    envelope = Envelope(
        id=EventId(f"e{seq}"), type=kind, v=version, ts=at_ns, source=SourceId("gw@1"), seq=seq,
        data=msgspec.Raw(b"{}"),
    )  # fmt: skip
    return Signal(0, envelope, data)


def use(at_ns: int, plain: int, peaks: tuple[Peak, ...] = PEAKS) -> WindowUse:
    peak = peak_at(peaks, at_ns)
    return WindowUse(W, at_ns - at_ns % DAY_NS, int(plain * peak), DAY_NS, peak=peak)


def settled(at_ns: int, plain: int, peaks: tuple[Peak, ...] = PEAKS) -> Signal:
    return signal(
        UsageSettled(
            attempt=AttemptId("a"), target=TargetId("t"), pool=POOL, route="r", basis="reported",
            outcome="completed", windows=(use(at_ns, plain, peaks),), evidence=False,
        ),
        at_ns,
    )  # fmt: skip


def even(days: float, peaks: tuple[Peak, ...] = PEAKS, plain: int = 10) -> State:
    """The same plain use every ten minutes."""
    state = State()
    fold(state, [settled(START_NS + k * 600 * S, plain, peaks) for k in range(int(days * 144))])
    return state


def believed(
    state: State, at_ns: int, limit: int, peaks: tuple[Peak, ...] = PEAKS, kind: str = "fixed"
) -> WindowBelief:
    window = Window(
        id=W, unit="requests", limit=limit, duration_s=86_400, peaks=peaks, kind=kind,  # type: ignore[arg-type]
    )  # fmt: skip
    return (
        publish(state, at_ns, Routing(pools=(Pool(id=POOL, windows=(window,)),)), [], [POOL])
        .pools[POOL]
        .windows[0]
    )


def test_the_ledger_counts_peak_hours_as_the_provider_does_and_the_rate_does_not() -> None:
    weighed, plain = even(3), even(3, ())
    at_ns = START_NS + 2 * DAY_NS + 23 * HOUR_NS
    assert believed(weighed, at_ns, 9_999).used == 10 * (144 + 2 * 24)
    assert believed(plain, at_ns, 9_999, ()).used == 10 * 144
    assert weighed.use.row(0) == plain.use.row(0), "plain use is the same"


def test_a_correction_in_peak_hours_mends_the_ledger_alone() -> None:
    state = even(1)
    before = state.use.row(0)
    at_ns = START_NS + 15 * HOUR_NS
    lower = WindowUse(W, START_NS, -6, DAY_NS, peak=3.0)
    corrected = SettlementCorrected(
        attempt=AttemptId("a"), target=TargetId("t"), pool=POOL, delta_nanousd=0, tokens=Tokens(), evidence="bill",
        windows=(lower,),
    )  # fmt: skip
    fold(state, [signal(corrected, at_ns)])
    assert state.use.row(0) == before
    assert believed(state, START_NS + 20 * HOUR_NS, 9_999).used == 10 * (144 + 2 * 24) - 6


def test_demand_is_forecast_as_plain_demand_and_valued_by_the_units_it_takes() -> None:
    states: list[State] = []
    for peaks in (PEAKS, ()):
        state = State()
        uses = [use(START_NS + k * 600 * S, 10, peaks) for k in range(288)]
        fold(
            state,
            [
                signal(
                    DemandSeen(
                        decision=DecisionId("d"), pool=POOL, windows=(each,), alternative_nanousd=3_000
                    ),
                    START_NS + k * 600 * S,
                )
                for k, each in enumerate(uses)
            ],
        )
        states.append(state)
    weighed, plain = states
    assert weighed.demand.row(0) == plain.demand.row(0)
    assert weighed.sketch.row(0) != plain.sketch.row(0)


@pytest.mark.parametrize("hour", [2, 10, 16, 20])
def test_a_forecast_weighs_the_hours_to_come(hour: int) -> None:
    state, at_ns = State(), START_NS + 5 * DAY_NS + hour * HOUR_NS
    fold(state, [settled(START_NS + k * 600 * S, 10) for k in range(5 * 144 + hour * 6)])
    rest = sum(10 * peak_at(PEAKS, START_NS + k * 600 * S) for k in range(5 * 144 + hour * 6, 6 * 144))
    found = believed(state, at_ns, 99_999).remaining_demand
    assert found is not None
    assert found.mean == pytest.approx(rest, rel=0.06)


def test_a_quota_that_lasts_at_even_weights_runs_dry_in_the_peak() -> None:
    """At noon, 720 of 1,500 plain units are used: half of the day is left, but four hours of it count three times."""
    state = State()
    fold(state, [settled(START_NS + k * 600 * S, 10) for k in range(5 * 144 + 72)])
    at_ns = START_NS + 5 * DAY_NS + 12 * HOUR_NS
    weighed, unweighed = believed(state, at_ns, 1_500), believed(state, at_ns, 1_500, ())
    assert weighed.p_exhaust is not None
    assert unweighed.p_exhaust is not None
    assert unweighed.p_exhaust < 0.25
    assert weighed.p_exhaust > 0.9
    assert weighed.exhausts_p50_ns is not None
    # 720 + 120 until two, then 30 every ten minutes
    due_ns = START_NS + 5 * DAY_NS + 14 * HOUR_NS + (1_500 - 840) // 30 * 600 * S
    assert abs(weighed.exhausts_p50_ns - due_ns) < HOUR_NS


@pytest.mark.parametrize("hour", [6, 13, 16, 19, 23])
def test_even_plain_use_is_on_schedule_at_every_hour(hour: int) -> None:
    state = State()
    fold(state, [settled(START_NS + k * 600 * S, 10) for k in range(144 + hour * 6)])
    belief = believed(state, START_NS + DAY_NS + hour * HOUR_NS, 10 * (144 + 2 * 24))
    assert belief.uvi == pytest.approx(1.0, abs=0.02)
    assert belief.status == "ok"


def test_peak_hours_of_a_rolling_window_are_weighed_too() -> None:
    state = State()
    for k in range(5 * 144 + 72):
        at_ns = START_NS + k * 600 * S
        each = msgspec.structs.replace(use(at_ns, 10), rolling=True)
        data = msgspec.structs.replace(settled(at_ns, 10).data, windows=(each,))
        fold(state, [signal(data, at_ns)])
    at_ns = START_NS + 5 * DAY_NS + 12 * HOUR_NS
    belief = believed(state, at_ns, 99_999, kind="rolling")
    assert belief.used == pytest.approx(10 * (144 + 2 * 24), abs=90)
    assert belief.remaining_demand is not None
    assert belief.remaining_demand.mean == pytest.approx(10 * (144 + 2 * 24), rel=0.06)


def unpriced(belief: WindowBelief) -> WindowBelief:
    """All but the shadow price, which is what other windows of the pool leave of it."""
    return msgspec.structs.replace(belief, shadow_nanousd=0.0)


def test_windows_without_peak_hours_are_believed_as_ever_beside_one_that_has_some() -> None:
    state = even(4)
    other = WindowId("other")
    data = msgspec.structs.replace(
        settled(START_NS, 1).data, windows=(WindowUse(other, START_NS, 5, DAY_NS),)
    )
    fold(state, [signal(data, START_NS + 4 * DAY_NS - S)])
    at_ns = START_NS + 3 * DAY_NS + 23 * HOUR_NS
    plain = Window(id=other, unit="requests", limit=10, duration_s=86_400)
    peaked = Window(id=W, unit="requests", limit=9_999, duration_s=86_400, peaks=PEAKS)

    def of(*windows: Window) -> tuple[WindowBelief, ...]:
        pool = Pool(id=POOL, windows=windows)
        return publish(state, at_ns, Routing(pools=(pool,)), [], [POOL]).pools[POOL].windows

    together, alone = of(plain, peaked), (*of(plain), *of(peaked))
    assert [unpriced(each) for each in together] == [unpriced(each) for each in alone]
    assert np.isfinite(of(plain)[0].p_exhaust or 0.0)


def test_a_moment_without_a_future_has_nothing_to_weigh() -> None:
    state, end_ns = even(1), START_NS + DAY_NS
    series, none = np.array([0]), np.array([100.0])
    found = forecast(state.use, series, end_ns, np.array([end_ns]), none, peaks=[PEAKS])
    assert (found.p_exhaust[0], found.demand_mean[0]) == (0.0, 0.0)
