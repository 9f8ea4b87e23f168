"""What providers tell of windows, as the fold takes it: in any cuts, over restarts, by period, and what is believed then."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.state import FOLD_VERSION, Row, State, upcast_row
from tidegate.events.config import Pool, Routing, UviLimits, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.signals import QuotaObserved, UsageSettled
from tidegate.events.snapshots import WindowBelief
from tidegate.events.types import AttemptId, EventId, PoolId, TargetId, WindowId

GOLDEN_7 = Path(__file__).parent / "golden" / "state.v7.jsonl"
NS = 10**9
W, P = WindowId("5h"), PoolId("plan")
WINDOW_NS = 5 * 3600 * NS
START_NS = 100_000 * WINDOW_NS
CAPACITY, GUESS = 1_000_000, 50_000
PLAN = Pool(
    id=P,
    billing="flat",
    windows=(
        Window(id=W, unit="tokens", limit=GUESS, duration_s=18_000, scope="unified-5h", percent_only=True),
        Window(id=WindowId("week"), unit="tokens", limit=10**8, duration_s=604_800),
    ),
)
COUNTED = Pool(
    id=P,
    billing="flat",
    windows=(Window(id=W, unit="tokens", limit=CAPACITY, duration_s=18_000, scope="tokens"),),
)


def signal(at_ns: int, data: object) -> Signal:
    return Signal(
        0, Envelope(id=EventId("e"), type="t", v=1, ts=at_ns, source="s", seq=1, data=msgspec.Raw(b"0")), data
    )


def used(at_ns: int, units: int, start_ns: int | None = None, *, first: bool = False) -> Signal:
    start_ns = at_ns - at_ns % WINDOW_NS if start_ns is None else start_ns
    uses = (
        WindowUse(W, start_ns, units, WINDOW_NS, first),
        WindowUse(WindowId("week"), 0, units, 1 << 62),
    )
    return signal(
        at_ns,
        UsageSettled(
            attempt=AttemptId("a"), target=TargetId("t"), pool=P, route="r", basis="reported",
            outcome="completed", windows=uses, evidence=False,
        ),
    )  # fmt: skip


def told(
    at_ns: int,
    remaining: int,
    limit: int = 10_000,
    guess: int | None = GUESS,
    start_ns: int | None = None,
    *,
    first: bool = False,
) -> Signal:
    start_ns = at_ns - at_ns % WINDOW_NS if start_ns is None else start_ns
    return signal(
        at_ns,
        QuotaObserved(
            target=TargetId("t"), pool=P, scope="unified-5h", limit=limit, remaining=remaining,
            window=WindowUse(W, start_ns, 0, WINDOW_NS, first), guess=guess,
        ),
    )  # fmt: skip


def day(periods: int = 3, outside: float = 0.2, seed: int = 1) -> Iterator[Signal]:
    """Uneven use of ours and even use of others; after each the provider tells a whole percent."""
    rng = random.Random(seed)
    for period in range(periods):
        own, start_ns = 0, START_NS + period * WINDOW_NS
        for k in range(1, 120):
            at_ns = start_ns + k * WINDOW_NS // 120
            if rng.random() < 0.5:
                units = int(rng.lognormvariate(9.0, 0.7))
                own += units
                yield used(at_ns, units)
            everybody = own + outside * CAPACITY * k / 120
            yield told(at_ns + NS, 10_000 - 100 * min(100, round(100 * everybody / CAPACITY)))


DAY = list(day())


def rows(state: State) -> bytes:
    return msgspec.json.encode([state.pool_row(P), state.target_row(TargetId("t"))])


def folded(cuts: Iterable[int], signals: list[Signal] = DAY) -> State:
    state, at = State(), 0
    for cut in [*cuts, len(signals)]:
        fold(state, signals[at:cut])
        at = cut
    return state


def believed(state: State, at_ns: int, pool: Pool = PLAN) -> WindowBelief:
    windows = publish(state, at_ns, Routing(pools=(pool,)), [], [P]).pools[P].windows
    return next(window for window in windows if window.window == W)


def test_reports_among_uses_give_the_same_bits_in_any_cuts() -> None:
    whole = rows(folded([]))
    assert rows(folded(range(len(DAY)))) == whole
    rng = random.Random(5)
    for _ in range(3):
        assert rows(folded(sorted(rng.sample(range(len(DAY)), 20)))) == whole


def test_a_restart_in_the_middle_changes_no_bit() -> None:
    half, restored = folded([], DAY[:300]), State()
    for row in (half.pool_row(P), half.target_row(TargetId("t"))):
        restored.load(msgspec.json.decode(msgspec.json.encode(row), type=Row), 0)
    fold(restored, DAY[300:])
    assert rows(restored) == rows(folded([]))


def test_capacity_and_use_of_others_are_published_with_bars_that_hold_the_truth() -> None:
    at_ns = START_NS + 3 * WINDOW_NS - WINDOW_NS // 120
    state = folded([])
    belief = believed(state, at_ns)
    assert belief.capacity is not None
    assert belief.outside is not None
    assert not belief.capacity.prior
    assert abs(belief.capacity.mean / CAPACITY - 1.0) < 0.05
    assert abs(belief.capacity.mean - CAPACITY) < 3.0 * np.sqrt(belief.capacity.var)
    assert abs(belief.outside.mean - 0.2 * CAPACITY) < 3.0 * np.sqrt(belief.outside.var)
    assert belief.limit == round(belief.capacity.mean)
    own = int(state.ledger.data[1, state.windows[state.pools[P], W]])
    assert own < belief.used <= belief.limit
    assert belief.outside_demand is not None
    assert belief.p_exhaust is not None


def test_others_are_expected_to_go_on_and_make_exhaustion_likelier() -> None:
    at_ns = START_NS + 5 * WINDOW_NS // 2
    alone, shared = (folded([], list(day(outside=share))[:600]) for share in (0.0, 0.4))
    few, many = believed(alone, at_ns), believed(shared, at_ns)
    assert (few.outside_demand or 0.0) < 0.03 * CAPACITY
    assert 0.08 * CAPACITY < (many.outside_demand or 0.0) < 0.35 * CAPACITY
    assert (few.p_exhaust or 0.0) < (many.p_exhaust or 0.0)
    assert few.shadow_nanousd <= many.shadow_nanousd


def test_a_window_nobody_tells_of_is_published_as_it_was() -> None:
    state, at_ns = folded([]), START_NS + 3 * WINDOW_NS - NS
    apart = State()
    fold(apart, [one for one in DAY if isinstance(one.data, UsageSettled)])

    def week(one: State) -> WindowBelief:
        windows = publish(one, at_ns, Routing(pools=(PLAN,)), [], [P]).pools[P].windows
        return next(window for window in windows if window.window == "week")

    assert week(state) == week(apart)
    assert week(state).capacity is None
    assert week(state).outside is None


def test_before_any_use_of_ours_the_share_holds_of_the_guess() -> None:
    at_ns = START_NS + WINDOW_NS // 2
    belief = believed(folded([], [told(at_ns, 6_000)]), at_ns)
    assert belief.limit == GUESS
    assert belief.used == pytest.approx(20_000, abs=1)
    assert belief.capacity is not None
    assert belief.capacity.prior
    assert belief.outside is None


def test_all_used_is_nothing_left_until_the_reset() -> None:
    at_ns = START_NS + WINDOW_NS // 2
    state = folded([], [*DAY[:60], told(at_ns, 0)])
    belief = believed(state, at_ns + 600 * NS)
    assert belief.used == belief.limit
    assert belief.p_exhaust == 1.0
    after = believed(state, START_NS + WINDOW_NS)
    assert after.used == 0
    assert (after.p_exhaust or 0.0) < 1.0


def test_counts_are_measurements_and_the_difference_to_ours_is_use_of_others() -> None:
    at_ns = START_NS + 3_600 * NS
    signals = [used(at_ns, 1_000), told(at_ns + NS, CAPACITY - 51_000, CAPACITY, None)]
    state = folded([], signals)
    belief = believed(state, at_ns + 2 * NS, COUNTED)
    assert (belief.used, belief.limit, belief.capacity) == (51_000, CAPACITY, None)
    assert belief.outside is not None
    assert (belief.outside.mean, belief.outside.var) == (50_000.0, 0.0)
    fold(state, [used(at_ns + 3 * NS, 500)])
    assert believed(state, at_ns + 4 * NS, COUNTED).used == 51_500
    assert believed(state, START_NS + WINDOW_NS, COUNTED).used == 0


def test_what_a_provider_counts_already_of_a_request_that_is_not_settled_is_ours() -> None:
    at_ns = START_NS + 3_600 * NS
    report = told(at_ns, 95, 100, None)
    counted = msgspec.structs.replace(
        report.data, window=msgspec.structs.replace(report.data.window, units=1)
    )
    state = folded([], [used(at_ns - NS, 4), report._replace(data=counted)])
    assert state.told.outside.row(0)[1] == 0
    assert believed(state, at_ns, COUNTED).used == 4


def test_a_report_that_says_nothing_new_is_left_until_a_120th_of_the_window_has_passed() -> None:
    at_ns = START_NS + 3_600 * NS
    state = folded([], [told(at_ns, 9_000)])
    before = state.told.last.row(0)
    fold(state, [told(at_ns + NS, 8_960), told(at_ns + 2 * NS, 9_000)])
    assert state.told.last.row(0) == [*before[:4], at_ns + 2 * NS]
    fold(state, [told(at_ns + 3 * NS, 8_950)])
    assert state.told.last.row(0)[:2] == [at_ns + 3 * NS, 1_050]
    fold(state, [told(at_ns + 3 * NS + WINDOW_NS // 120, 8_950)])
    assert state.told.last.row(0)[0] == at_ns + 3 * NS + WINDOW_NS // 120


def test_a_report_of_a_past_period_or_without_numbers_changes_nothing() -> None:
    state = folded([], DAY[:400])
    before = rows(state)
    at_ns = DAY[400].envelope.ts
    empty = QuotaObserved(target=TargetId("t"), pool=P, scope="unified-5h", resets_at_ns=at_ns)
    touched = fold(state, [signal(at_ns, empty), told(at_ns, 0, start_ns=START_NS - WINDOW_NS)])
    assert rows(state) == before
    assert not touched.targets


@pytest.mark.parametrize("named_s", [-600, 0, 600])
def test_the_provider_says_when_a_period_opened_by_a_first_request_began(named_s: int) -> None:
    """Others opened it earlier, or the provider began a new one before we thought the old one ended."""
    at_ns = START_NS + 3_600 * NS
    signals = [used(at_ns, 700, at_ns, first=True)]
    began_ns = at_ns + named_s * NS
    later_ns = at_ns + 900 * NS
    signals.append(told(later_ns, 8_000, start_ns=began_ns, first=True))
    signals.append(used(later_ns + NS, 50, at_ns, first=True))
    state = folded([], signals)
    series = state.windows[state.pools[P], W]
    start_ns, own, *_ = state.ledger.row(series)
    assert start_ns == began_ns
    assert own == (50 if named_s > 0 else 750)


MAX_AGE_NS = 900 * NS
HALF = CAPACITY // 2


def hot(at_ns: int) -> State:
    """Half of the quota is gone in a fifth of the period, as told; the second report says nothing new."""
    return folded([], [told(at_ns - 60 * NS, HALF, CAPACITY, None), told(at_ns, HALF, CAPACITY, None)])


def test_of_a_long_window_too_what_is_told_counts_no_longer_than_configured() -> None:
    """A report that says nothing new is passed over for 84 minutes of a week, and is heard all the same."""
    week_ns, at_ns = 604_800 * NS, 1_000 * 604_800 * NS + 200_000 * NS
    pool = Pool(
        id=P,
        billing="flat",
        windows=(Window(id=W, unit="tokens", limit=CAPACITY, duration_s=604_800, scope="tokens"),),
    )
    report = told(at_ns, HALF, CAPACITY, None)
    window = WindowUse(W, at_ns - at_ns % week_ns, 0, week_ns)
    state = folded([], [report._replace(data=msgspec.structs.replace(report.data, window=window))])
    assert believed(state, at_ns + MAX_AGE_NS, pool).status == "ok"
    assert believed(state, at_ns + MAX_AGE_NS + 1, pool).status == "unknown"


def test_a_window_that_no_scope_measures_any_more_is_counted_by_us_and_never_stale() -> None:
    at_ns = START_NS + WINDOW_NS // 5
    alone = msgspec.structs.replace(COUNTED.windows[0], scope=None)
    belief = believed(hot(at_ns), at_ns + 2 * MAX_AGE_NS, msgspec.structs.replace(COUNTED, windows=(alone,)))
    assert (belief.status, belief.told_at_ns) == ("ok", None)


def test_a_report_that_says_nothing_new_keeps_the_index_fresh_and_a_late_one_does_not_age_it() -> None:
    at_ns = START_NS + WINDOW_NS // 5
    state = hot(at_ns)
    fold(state, [told(at_ns + 100 * NS, HALF, CAPACITY, None), told(at_ns + 50 * NS, HALF, CAPACITY, None)])
    assert believed(state, at_ns + 100 * NS + MAX_AGE_NS, COUNTED).told_at_ns == at_ns + 100 * NS
    assert believed(state, at_ns + 100 * NS + MAX_AGE_NS, COUNTED).status != "unknown"


def test_of_a_state_that_does_not_know_when_it_was_told_the_last_report_taken_counts() -> None:
    at_ns = START_NS + WINDOW_NS // 5
    row, state = hot(at_ns).pool_row(P), State()
    held = next(window.told for window in row.windows if window.told is not None)
    del held.last[4:]
    state.load(row, 0)
    assert believed(state, at_ns, COUNTED).told_at_ns == at_ns - 60 * NS


def test_a_state_without_reports_loads_and_is_folded_on() -> None:
    row = folded([], [one for one in DAY if isinstance(one.data, UsageSettled)]).pool_row(P)
    row.fold = 2
    assert b"told" not in msgspec.json.encode(row)
    assert upcast_row(row).fold == FOLD_VERSION
    state = State()
    state.load(row, 0)
    at_ns = START_NS + 3 * WINDOW_NS - NS
    fold(state, [told(at_ns, 5_000)])
    assert believed(state, at_ns).capacity is not None


def test_a_state_of_version_7_goes_on_believing_what_it_did() -> None:
    """Stored after two periods of `day` by the bank of four filters: 988,402, give or take 23,659."""
    line = json.loads(GOLDEN_7.read_text())
    row, state = msgspec.convert(line["row"], Row), State()
    assert row.fold == 7
    state.load(row, line["partition"])
    at_ns = START_NS + 2 * WINDOW_NS - NS
    belief = believed(state, at_ns).capacity
    assert belief is not None
    assert belief.mean == pytest.approx(988_402, rel=1e-3)
    assert belief.var == pytest.approx(23_659.0**2, rel=0.5)
    assert not belief.prior
    assert state.pool_row(P).fold == FOLD_VERSION
    fold(state, [one for one in DAY if one.envelope.ts >= START_NS + 2 * WINDOW_NS])
    after = believed(state, START_NS + 3 * WINDOW_NS - WINDOW_NS // 120).capacity
    assert after is not None
    assert abs(after.mean / CAPACITY - 1.0) < 0.05
    assert abs(after.mean - CAPACITY) < 3.0 * np.sqrt(after.var)


def test_a_config_that_states_the_limit_or_names_no_scope_any_more_is_believed() -> None:
    state, at_ns = folded([]), START_NS + 3 * WINDOW_NS - NS
    own = int(state.ledger.data[1, state.windows[state.pools[P], W]])
    for changed in ({"percent_only": False}, {"percent_only": False, "scope": None}):
        window = msgspec.structs.replace(PLAN.windows[0], limit=777_777, **changed)
        belief = believed(state, at_ns, msgspec.structs.replace(PLAN, windows=(window,)))
        assert (belief.limit, belief.used, belief.capacity, belief.outside) == (777_777, own, None, None)


@pytest.mark.parametrize(
    ("remaining", "max_age_s", "silent_s", "status"),
    [
        (500_000, 900.0, 900, "stressed"),
        (500_000, 900.0, 901, "unknown"),
        (500_000, 3_600.0, 1_060, "stressed"),
        (0, 900.0, 7_200, "exhausted"),
    ],
)
def test_what_a_provider_told_long_ago_says_nothing_of_its_window_but_that_it_is_used_up(
    remaining: int, max_age_s: float, silent_s: int, status: str
) -> None:
    pool = msgspec.structs.replace(COUNTED, uvi=UviLimits(max_age_s=max_age_s, stressed=1.1, critical=9.0))
    at_ns = START_NS + 4_000 * NS
    state = folded([], [used(at_ns - NS, 10), told(at_ns, remaining, CAPACITY, guess=None)])
    found = believed(state, at_ns + silent_s * NS, pool)
    assert found.status == status
    assert (found.uvi is None) == (status == "unknown")


def test_our_own_count_of_a_window_that_nobody_tells_of_is_never_stale() -> None:
    at_ns = START_NS + 4_000 * NS
    state = folded([], [used(at_ns, CAPACITY // 2)])
    assert believed(state, at_ns + 7_200 * NS, COUNTED).status == "ok"
