"""How the chance of a window that opened with a first request is read."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.estimator import first_request
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.exhaustion import forecast

NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=9), st.integers(0, 200))
@settings(max_examples=50, deadline=None)
def test_the_order_of_chances_stays_and_each_is_between_0_and_1(chances: list[float], idle: int) -> None:
    p = np.sort(np.array(chances))
    said = first_request.read(p, np.full(p.size, float(idle)), np.ones(p.size, dtype=np.bool_))
    assert np.all(np.diff(said) >= 0)
    assert said.min() > 0
    assert said.max() < 1


def test_the_longer_nothing_was_used_the_less_is_expected_and_other_windows_are_read_as_they_were() -> None:
    idle = np.arange(12.0)
    said = first_request.read(np.full(12, 0.5), idle, idle < 11)
    assert np.all(np.diff(said[:-1]) < 0)
    assert said[-1] == 0.5


def test_a_forecast_reads_the_windows_that_opened_so_by_their_rest_and_no_others() -> None:
    series, who, zero = Consumption(2), np.arange(2), np.zeros(2, dtype=np.int64)
    series.open_series(who, np.full(2, WINDOW_NS))
    for bin_ in range(3):
        series.observe(who, zero + bin_ * BIN_NS, zero + 1000)
    for bins in (3, 6):
        asked = series, who, bins * BIN_NS, np.full(2, WINDOW_NS), np.full(2, 4000.0)
        plain = forecast(*asked)
        said = forecast(*asked, opened=np.array([True, False]))
        assert said.p_exhaust[0] < plain.p_exhaust[0] == plain.p_exhaust[1] == said.p_exhaust[1]
        expected = first_request.read(plain.p_exhaust[:1], np.array([bins - 3.0]), np.array([True]))
        assert said.p_exhaust[0] == expected[0]


def test_a_window_without_quota_left_is_dry_and_one_without_time_left_is_not() -> None:
    series, who, zero = Consumption(2), np.arange(2), np.zeros(2, dtype=np.int64)
    series.open_series(who, np.full(2, WINDOW_NS))
    series.observe(who, zero, zero + 10)
    resets, left = np.array([WINDOW_NS, 2 * BIN_NS]), np.array([0.0, 100.0])
    said = forecast(series, who, 2 * BIN_NS, resets, left, opened=np.ones(2, dtype=np.bool_))
    assert said.p_exhaust.tolist() == [1.0, 0.0]
