"""Fifty seeded pools, as the estimator publishes them: the fan before exhaustion holds the time that comes."""

from typing import NamedTuple

import numpy as np
import pytest

from tidegate.estimator.columns import FloatArray
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import AlarmCosts, Pool, Routing, Window
from tidegate.events.snapshots import WindowBelief
from tidegate.events.types import PoolId, WindowId

NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30
START_NS = 360_000 * WINDOW_NS
POOLS = 50
TAUGHT, ASKED = 16, 6
ASK_AT = 8
LIMIT = 17_000


class Run(NamedTuple):
    """What was published in each asked window of each pool, when its quota was really gone (0: it was not), and what
    was still used of it."""

    beliefs: list[WindowBelief]
    gone_ns: list[int]
    rest: list[float]


def _use(seed: int) -> FloatArray:
    """Tokens per bin: a user who comes and goes, whose hours differ in pace."""
    rng = np.random.default_rng(seed)
    bins, active, units = (TAUGHT + ASKED) * 30, True, list[float]()
    pace = 0.0
    for _ in range(bins):
        active = bool(rng.random() < (0.92 if active else 0.4))
        pace = 0.95 * pace + 0.15 * rng.standard_normal()
        units.append(np.ceil(700.0 * np.exp(pace + 0.4 * rng.standard_normal())) if active else 0.0)
    return np.array(units)


def _run() -> Run:
    names = [PoolId(f"p{k}") for k in range(POOLS)]
    window = Window(id=WindowId("5h"), unit="tokens", limit=LIMIT, duration_s=18_000)
    routing = Routing(pools=tuple(Pool(id=name, billing="flat", windows=(window,)) for name in names))
    state = State()
    series = np.array(
        [state.window_of(state.pool(n, 0), WindowId("5h"), WINDOW_NS, first_request=False) for n in names]
    )
    use = np.stack([_use(seed) for seed in range(POOLS)])
    found = Run([], [], [])
    for bin_ in range(use.shape[1]):
        at_ns, begin = START_NS + bin_ * BIN_NS, bin_ - bin_ % 30
        if bin_ - begin == ASK_AT and bin_ >= TAUGHT * 30:
            beliefs = publish(state, at_ns, routing, [], names).pools
            for k, name in enumerate(names):
                found.beliefs.append(beliefs[name].windows[0])
                over = np.flatnonzero(use[k, begin : begin + 30].cumsum() >= LIMIT)
                found.rest.append(float(use[k, bin_ : begin + 30].sum()))
                found.gone_ns.append(START_NS + (begin + int(over[0])) * BIN_NS if over.size else 0)
        busy = np.flatnonzero(use[:, bin_])
        units, zero = use[busy, bin_].astype(np.int64), np.zeros(busy.size, dtype=np.int64)
        state.use.observe(series[busy], np.full(busy.size, at_ns), units)
        state.ledger.use(series[busy], np.full(busy.size, START_NS + begin * BIN_NS), units, zero)
    return found


RUN = _run()


def test_the_chance_is_calibrated_and_better_than_the_base_rate() -> None:
    p = np.array([belief.p_exhaust for belief in RUN.beliefs], dtype=np.float64)
    gone = np.array(RUN.gone_ns) > 0
    base = gone.mean()
    assert 0.2 < base < 0.9
    assert abs(p.mean() - base) < 0.08
    assert np.mean((p - gone) ** 2) < 0.9 * base * (1 - base)


def test_four_of_five_exhaustions_come_within_the_published_fan() -> None:
    inside: list[bool] = []
    for belief, gone_ns in zip(RUN.beliefs, RUN.gone_ns, strict=True):
        if belief.exhausts_p10_ns is None or belief.exhausts_p90_ns is None:
            continue
        later = gone_ns or 1 << 62
        # A bin is all that is known of the true time.
        inside.append(belief.exhausts_p10_ns - BIN_NS <= later <= belief.exhausts_p90_ns)
    assert len(inside) > 50
    assert 0.65 <= np.mean(inside) <= 0.97
    middle = [b.exhausts_p50_ns for b in RUN.beliefs if b.exhausts_p50_ns is not None]
    assert len(middle) > len(inside)


def test_the_published_points_of_the_use_to_come_hold_what_comes() -> None:
    points, rest = np.array([belief.remaining_quantiles for belief in RUN.beliefs]), np.array(RUN.rest)
    assert np.all(np.diff(points, axis=1) >= 0)
    assert np.mean((points[:, 1] <= rest) & (rest <= points[:, 3])) == pytest.approx(0.8, abs=0.07)
    assert np.mean((points[:, 0] <= rest) & (rest <= points[:, 4])) == pytest.approx(0.9, abs=0.07)
    assert np.mean(rest <= points[:, 2]) == pytest.approx(0.5, abs=0.1)


def test_the_published_record_says_what_share_of_intervals_held() -> None:
    known = [belief for belief in RUN.beliefs if belief.coverage_80 is not None]
    assert len(known) == len(RUN.beliefs)
    assert abs(np.mean([belief.coverage_80 or 0.0 for belief in known]) - 0.8) < 0.06
    assert abs(np.mean([belief.coverage_90 or 0.0 for belief in known]) - 0.9) < 0.06
    assert min(belief.forecasts_settled for belief in known) > 10


def _said(alarm: AlarmCosts) -> WindowBelief:
    """One pool in the middle of a window, and one whose window nobody has used."""
    window = Window(id=WindowId("5h"), unit="tokens", limit=LIMIT, duration_s=18_000)
    pool = Pool(id=PoolId("p"), billing="flat", windows=(window,), alarm=alarm)
    state = State()
    series = np.array([state.window_of(state.pool(pool.id, 0), window.id, WINDOW_NS, first_request=False)])
    empty = publish(state, START_NS, Routing(pools=(pool,)), [], [pool.id]).pools[pool.id].windows[0]
    assert (empty.p_exhaust, empty.will_exhaust) == (None, None)
    for bin_, units in enumerate(_use(1)[: TAUGHT * 30 + ASK_AT]):
        if units:
            state.use.observe(series, np.array([START_NS + bin_ * BIN_NS]), np.array([int(units)]))
    now_ns = START_NS + (TAUGHT * 30 + ASK_AT) * BIN_NS
    return publish(state, now_ns, Routing(pools=(pool,)), [], [pool.id]).pools[pool.id].windows[0]


def test_a_window_is_said_to_run_dry_where_the_costs_of_both_errors_say_so() -> None:
    even = _said(AlarmCosts())
    p = even.p_exhaust
    assert p is not None
    assert 0.01 < p < 0.99
    assert even.will_exhaust is (p >= 0.5)
    careful, bold = AlarmCosts(miss=1.01 * (1 - p) / p), AlarmCosts(miss=0.99 * (1 - p) / p)
    assert _said(careful).will_exhaust is True
    assert _said(bold).will_exhaust is False
