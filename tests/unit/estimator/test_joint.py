"""Several limits on the same draws."""

import numpy as np

from tidegate.estimator.consumption import Consumption
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.joint import joint

NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30


def _series(n: int = 3) -> Consumption:
    rng = np.random.default_rng(8)
    series = Consumption(n)
    series.open_series(np.arange(n), np.full(n, WINDOW_NS))
    for bin_ in range(300):
        units = (1000 * rng.lognormal(0, 0.5, n)).astype(np.int64)
        series.observe(np.arange(n), np.full(n, bin_ * BIN_NS), units)
    return series


def test_limits_that_go_together_are_no_likelier_than_the_likeliest() -> None:
    series = _series(1)
    zero = np.zeros(3, dtype=np.int64)
    resets, left = np.full(3, 320 * BIN_NS), np.array([21_000.0, 22_000.0, 1e9])
    ask = forecast(series, zero, 300 * BIN_NS, resets, left)
    both = joint(ask.passage_s, ask.p_exhaust, zero, 1)
    assert 0.05 < ask.p_exhaust[0] < 0.95
    assert both.p_any[0] == ask.p_exhaust[0]
    assert both.p_any[0] < 1 - np.prod(1 - ask.p_exhaust)
    assert 0 < both.first_mean_s[0] <= 12_000


def test_limits_of_strangers_add_up_and_pools_are_kept_apart() -> None:
    series = _series()
    resets, left = np.full(3, 320 * BIN_NS), np.array([20_000.0, 20_000.0, 1e9])
    ask = forecast(series, np.arange(3), 300 * BIN_NS, resets, left)
    some = joint(ask.passage_s, ask.p_exhaust, np.array([1, 1, 0]), 2)
    assert some.p_any[1] >= ask.p_exhaust[:2].max()
    assert some.p_any[1] <= min(ask.p_exhaust[:2].sum(), 1.0)
    assert some.p_any[0] == ask.p_exhaust[2]
    assert np.isnan(some.first_mean_s[0])


def test_an_unknown_limit_makes_the_whole_unknown() -> None:
    unknown = joint(np.full((DRAWS, 2), np.nan), np.array([0.3, np.nan]), np.zeros(2, dtype=np.int64), 1)
    assert np.isnan(unknown.p_any[0])
    assert np.isnan(unknown.first_mean_s[0])
