"""Consumption series: lazy bins, late and missing evidence, any window length."""

import numpy as np
import pytest

from tidegate.estimator import activity, bank, calibration
from tidegate.estimator.consumption import ASK_AT, Consumption
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.series_fields import (
    ASKED_BIN,
    BIN,
    BIN_MS,
    CHAIN,
    LEVEL,
    OPEN_UNITS,
    RECORD,
    SPENT,
    UNSEEN,
)

NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30
ONE = np.array([0])


def _series(window_ns: int = WINDOW_NS) -> Consumption:
    series = Consumption(1)
    series.open_series(ONE, np.array([window_ns]))
    return series


def _use(series: Consumption, bin_: float, units: int) -> int:
    return series.observe(ONE, np.array([int(bin_ * BIN_NS)]), np.array([units]))


def test_uses_of_one_bin_add_up_exactly_and_close_when_a_later_bin_begins() -> None:
    series = _series()
    _use(series, 7.0, 2**40)
    _use(series, 7.5, 1)
    assert series.data[OPEN_UNITS, 0] == 2**40 + 1
    assert series.data[CHAIN][activity.CLOSED, 0] == 0
    _use(series, 8.0, 5)
    assert series.data[OPEN_UNITS, 0] == 5
    assert series.data[CHAIN][activity.CLOSED, 0] == 1
    assert np.all(series.data[LEVEL][bank.SLOW, 0] == np.log(2.0**40 + 1))


def test_idle_bins_count_in_the_chain_and_never_pull_the_level_down() -> None:
    series = _series()
    for bin_ in range(20):
        _use(series, bin_, 1000)
    before = series.data[LEVEL].copy()
    _use(series, 500, 1000)
    after = series.data[LEVEL]
    assert np.all(np.abs(after[bank.SLOW, 0] + after[bank.FAST, 0] - np.log(1000)) < 1e-9)
    assert after[bank.UPDATES, 0] == before[bank.UPDATES, 0] + 1
    assert series.data[CHAIN][activity.CLOSED, 0] == 500
    assert series.data[CHAIN][activity.AGE, 0] == 480


def test_late_uses_are_counted_and_left_out_of_the_rate() -> None:
    series = _series()
    _use(series, 10, 100)
    assert _use(series, 9.9, 7) == 1
    assert series.data[OPEN_UNITS, 0] == 100
    assert series.observe(np.zeros(4, dtype=np.int64), np.array([11, 10, 9, 11]) * BIN_NS, np.full(4, 3)) == 2
    assert series.data[OPEN_UNITS, 0] == 6
    assert series.data[BIN, 0] == 11


def test_a_use_of_nothing_or_less_is_no_activity() -> None:
    series = _series()
    _use(series, 1, 0)
    _use(series, 2, -50)
    _use(series, 3, 10)
    assert series.data[LEVEL][bank.UPDATES, 0] == 0
    assert series.data[CHAIN][activity.AGE, 0] == 3


def test_censored_time_is_missing_not_idle() -> None:
    idle, censored = _series(), _series()
    for series in (idle, censored):
        for bin_ in range(20):
            _use(series, bin_, 1000)
    censored.censor(ONE, np.array([50 * BIN_NS]))
    assert censored.data[BIN, 0] == 50
    for series in (idle, censored):
        _use(series, 50, 1000)
        _use(series, 51, 1000)
    stops = (idle.data[CHAIN][activity.STOP, 0], censored.data[CHAIN][activity.STOP, 0])
    assert stops[0] > activity.PRIOR_STOP > stops[1] - 1e-12
    assert censored.data[CHAIN][activity.CLOSED, 0] == 21
    assert idle.data[CHAIN][activity.CLOSED, 0] == 51


def test_a_series_without_a_width_is_an_error_and_the_first_width_stays() -> None:
    with pytest.raises(ValueError, match="open_series"):
        _use(Consumption(1), 1, 1)
    series = _series()
    series.open_series(ONE, np.array([WINDOW_NS * 9]))
    assert series.data[BIN_MS, 0] == 600_000


@pytest.mark.parametrize("window_s", [0.01, 60, 18_000, 604_800, 31 * 86_400])
def test_windows_from_milliseconds_to_months_stay_finite(window_s: float) -> None:
    window_ns = int(window_s * NS)
    series = _series(window_ns)
    rng = np.random.default_rng(5)
    now = 1_700_000_000 * NS
    for _ in range(300):
        now += int(rng.exponential(window_ns / 40))
        series.observe(ONE, np.array([now]), np.array([int(rng.lognormal(5, 3))]))
    assert np.all(np.isfinite(series.data))


def test_the_answer_between_events_equals_the_answer_with_the_bins_closed_by_an_event() -> None:
    asked, fed = _series(), _series()
    for series in (asked, fed):
        for bin_ in (1, 2, 3, 9):
            _use(series, bin_, 100)
    view = asked.closed_at(ONE, 40 * BIN_NS)
    _use(fed, 40, 0)
    assert np.array_equal(view, fed.data[:, ONE])


def test_a_forecast_is_put_aside_at_mid_window_and_settled_half_a_window_later() -> None:
    series = _series()
    for bin_ in range(30 + ASK_AT):
        _use(series, bin_, 1000)
    assert series.data[ASKED_BIN, 0] == UNSEEN
    _use(series, 30 + ASK_AT, 1000)
    assert series.data[ASKED_BIN, 0] == 30 + ASK_AT
    draws = series.data[RECORD][calibration.DRAW, 0]
    assert np.all(np.diff(draws) >= 0)
    assert 8_000 < draws[DRAWS // 2] < 20_000
    for bin_ in range(30 + ASK_AT + 1, 60):
        _use(series, bin_, 1000)
    assert series.data[SPENT, 0] == (ASK_AT - 1) * 1000
    assert series.data[RECORD][calibration.SETTLED, 0] == 1
    _use(series, 60, 1000)
    assert series.data[ASKED_BIN, 0] == UNSEEN
    assert 1 < series.data[RECORD][calibration.SETTLED, 0] <= 2
    assert np.isclose(series.data[RECORD][calibration.CELL, 0].sum(), 1.9)


def test_a_pause_settles_what_waits_and_long_idle_series_are_not_asked() -> None:
    series = _series()
    for bin_ in range(20):
        _use(series, bin_, 1000)
    assert series.data[ASKED_BIN, 0] == ASK_AT
    _use(series, 300, 1000)
    assert series.data[RECORD][calibration.SETTLED, 0] == 1.98
    settled = series.data[RECORD][calibration.SETTLED, 0]
    _use(series, 3000, 1000)
    assert series.data[RECORD][calibration.SETTLED, 0] <= 1 + settled
    assert np.all(np.isfinite(series.data))


def test_censored_time_is_no_truth_to_settle_a_forecast_with() -> None:
    series = _series()
    for bin_ in range(20):
        _use(series, bin_, 1000)
    series.censor(ONE, np.array([28 * BIN_NS]))
    assert series.data[ASKED_BIN, 0] == UNSEEN
    _use(series, 31, 1000)
    assert series.data[RECORD][calibration.SETTLED, 0] == 0


@pytest.mark.parametrize("windows", [3, 200, 470, 600, 40_000, 2_000_000])
def test_a_window_may_be_idle_for_as_long_as_it_likes(windows: int) -> None:
    """A minute's window over a night, a weekend, years: the answer comes, and comes soon."""
    series = _series(60 * NS)
    for bin_ in range(40):
        series.observe(ONE, np.array([bin_ * 2 * NS]), np.array([5]))
    later_ns = windows * 60 * NS
    asked = series.closed_at(ONE, later_ns)
    series.observe(ONE, np.array([later_ns]), np.array([7]))
    assert np.array_equal(asked[:OPEN_UNITS], series.data[:OPEN_UNITS, ONE])
    assert series.data[OPEN_UNITS, 0] == 7
    assert series.data[BIN, 0] == windows * 30
    assert series.data[CHAIN][activity.CLOSED, 0] == windows * 30
    assert np.all(np.isfinite(series.data[CHAIN]))
