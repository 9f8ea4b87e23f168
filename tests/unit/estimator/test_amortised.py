"""The fee of a flat plan per unit: by expected 1/V, of the longest window, beside the shadow price and not in it."""

import math

import numpy as np
import pytest

from tidegate.estimator.amortised import amortised_nanousd, expected_amortised
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.snapshots import PoolBelief
from tidegate.events.types import PoolId, WindowId

NS = 10**9
HOUR_NS = 3_600 * NS
FEE = 30 * 10**9
P = PoolId("plan")
WINDOWS = (
    Window(id=WindowId("5h"), unit="tokens", limit=3_000_000, duration_s=18_000),
    Window(id=WindowId("week"), unit="tokens", limit=40_000_000, duration_s=604_800),
)


def test_a_certain_volume_shares_the_fee_out_evenly() -> None:
    assert amortised_nanousd(1_000.0, 60.0, np.full(32, 40.0)) == pytest.approx(10.0)


def test_doubt_about_the_volume_makes_a_unit_dearer_than_the_mean_volume_says() -> None:
    draws = np.exp(np.random.default_rng(1).normal(3.0, 0.8, 4_000))
    found = amortised_nanousd(1_000.0, 0.0, draws)
    assert found is not None
    assert found == pytest.approx(expected_amortised(1_000.0, 3.0, 0.8), rel=0.05)
    assert found == pytest.approx(float(np.mean(1_000.0 / draws)), rel=0.05)
    assert found > 1_000.0 / float(np.mean(draws))


def test_a_plan_nobody_may_ever_use_has_no_price_per_unit() -> None:
    assert amortised_nanousd(1_000.0, 0.0, np.zeros(32)) is None
    assert amortised_nanousd(1_000.0, 0.0, np.full(32, np.nan)) is None


def _published(fee: int | None, hours: int = 24 * 14 + 60) -> PoolBelief:
    """A plan that used 100,000 tokens an hour from the epoch on."""
    state = State()
    pool = state.pool(P, 0)
    for window in WINDOWS:
        length_ns = int(window.duration_s) * NS
        series = np.array([state.window_of(pool, window.id, length_ns, first_request=False)])
        for hour in range(hours):
            at, units = np.array([hour * HOUR_NS]), np.array([100_000])
            state.use.observe(series, at, units)
            state.ledger.use(series, at - at % length_ns, units, np.zeros(1, dtype=np.int64))
    config = Routing(pools=(Pool(id=P, billing="flat", windows=WINDOWS, fee_nanousd=fee),))
    return publish(state, hours * HOUR_NS, config, [], [P]).pools[P]


def test_the_longest_window_tells_what_a_unit_of_the_fee_buys() -> None:
    belief = _published(FEE)
    week, five = belief.windows
    # A week's share of the fee over a week's tokens.
    expected = FEE * 7 / 30 / (168 * 100_000)
    assert week.amortised_nanousd == pytest.approx(expected, rel=0.15)
    assert five.amortised_nanousd is None
    free = _published(None)
    assert free.windows[0].amortised_nanousd is None
    assert free.windows[0].shadow_nanousd == week.shadow_nanousd


def test_windows_of_a_pool_are_judged_together() -> None:
    belief = _published(None)
    chances = [window.p_exhaust or 0.0 for window in belief.windows]
    assert belief.p_exhaust is not None
    assert max(chances) <= belief.p_exhaust <= min(1.0, sum(chances))
    assert belief.exhausts_at_ns is None or belief.exhausts_at_ns > (24 * 14 + 60) * HOUR_NS
    assert math.isfinite(belief.p_exhaust)
