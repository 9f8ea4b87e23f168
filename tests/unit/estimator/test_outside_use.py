"""Use of others: booked by difference, once, and forecast as a series of its own."""

import numpy as np

from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.outside_use import OutsideUse

NS = 1_000_000_000
BIN_NS = 600 * NS
WINDOW_NS = 30 * BIN_NS
ONE = np.array([0])


def _model() -> OutsideUse:
    model = OutsideUse(1)
    model.rate.open_series(ONE, np.array([WINDOW_NS]))
    return model


def _tell(model: OutsideUse, bin_: int, start: int, total: float) -> int:
    found = model.observe(ONE, np.array([bin_ * BIN_NS]), np.array([start * BIN_NS]), np.array([total]))
    return int(found[0])


def test_only_what_is_new_is_booked_and_a_better_estimate_is_no_refund() -> None:
    model = _model()
    assert [_tell(model, k, 0, total) for k, total in enumerate((10.4, 12.0, 9.0, 12.0, 20.0))] == [
        10,
        2,
        0,
        0,
        8,
    ]


def test_a_new_period_begins_at_nothing_and_a_past_one_books_nothing() -> None:
    model = _model()
    _tell(model, 1, 0, 100.0)
    assert _tell(model, 31, 30, 7.0) == 7
    assert _tell(model, 32, 0, 200.0) == 0
    assert _tell(model, 33, 30, np.nan) == 0
    assert _tell(model, 34, 30, 9.0) == 2


def test_a_steady_stranger_is_foreseen() -> None:
    model = _model()
    for bin_ in range(400):
        start = bin_ - bin_ % 30
        _tell(model, bin_, start, 500.0 * (bin_ - start + 1))
    ask = forecast(model.rate, ONE, 400 * BIN_NS, np.array([420 * BIN_NS]), np.array([1e9]))
    assert 8_000 < ask.demand_mean[0] < 12_000


def test_more_windows_make_room_in_both_tables() -> None:
    model = OutsideUse()
    model.ensure(9)
    assert model.data.shape[1] >= 9
    assert model.rate.data.shape[1] >= 9
