"""Several limits on the same draws, and windows that roll."""

import numpy as np

from tidegate.estimator.columns import FloatArray
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.joint import joint, rolling_passage_s
from tidegate.estimator.paths import Paths, passage_s, roll

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


def _paths(units: list[float]) -> Paths:
    steps = np.broadcast_to(np.array(units)[:, None, None], (len(units), DRAWS, 1)).copy()
    edges: FloatArray = np.arange(len(units) + 1, dtype=np.float64)[:, None] * 10.0
    return Paths(steps, edges[:-1], edges[1:])


def test_a_rolling_window_is_passed_where_the_path_is_highest() -> None:
    past = np.array([[8.0], [2.0], [0.0]])
    paths = _paths([3.0, 6.0, 0.0, 0.0, 0.0])
    # Levels: 10 → 5 → 9 → 9 → 6 → 0
    for quota, when in ((10.0, 0.0), (7.0, 0.0), (11.0, np.inf)):
        assert np.all(rolling_passage_s(paths, past, np.array([quota])) == when)
    calm = np.array([[0.0], [2.0], [1.0]])
    # Levels: 3 → 6 → 10 → 9 → 6 → 0
    for quota, when in ((4.5, 5.0), (8.0, 15.0), (10.0, 20.0), (10.1, np.inf)):
        assert np.all(rolling_passage_s(paths, calm, np.array([quota])) == when)


def test_without_a_past_a_rolling_window_is_passed_when_a_fixed_one_is() -> None:
    series = _series()
    paths = roll(
        series.closed_at(np.arange(3), 300 * BIN_NS), 300 * BIN_NS / 1e6, np.full(3, 25 * BIN_NS / 1e6)
    )
    quota = np.full(3, 15_000.0)
    assert np.allclose(rolling_passage_s(paths, np.zeros((30, 3)), quota), passage_s(paths, quota))
