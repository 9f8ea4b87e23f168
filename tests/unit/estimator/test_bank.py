"""The bank of log-rate filters: positive covariance, exact gaps, no poison."""

import numpy as np
import pytest

from tidegate.estimator import bank
from tidegate.estimator.columns import FloatArray

BIN = 600_000.0


def _fresh(n: int) -> FloatArray:
    return np.repeat(np.array(bank.PRIOR)[:, None], n, axis=1)


def _level(state: FloatArray) -> float:
    """What the members believe, by their weights."""
    return float((bank.weights(state) * (state[bank.SLOW] + state[bank.FAST])).sum())


def _assert_positive(state: FloatArray) -> None:
    trace = state[bank.P00] + state[bank.P11]
    det = state[bank.P00] * state[bank.P11] - state[bank.P01] * state[bank.P01]
    least = 0.5 * (trace - np.sqrt(np.maximum(trace * trace - 4 * det, 0)))
    assert least.min() > 0
    assert state[bank.KNOT_VAR].min() > 0
    assert np.all(np.isfinite(state))


def _hammer(updates: int) -> None:
    """`updates` updates of wild data over 100 series: bursts, gaps of months, constants, huge and tiny values."""
    rng = np.random.default_rng(2)
    series = 100
    state, at = _fresh(series), np.zeros(series)
    for k in range(updates // series):
        gap = rng.choice([1.0, 1.0, 1.0, 7.0, 20_000.0], series)
        at += gap * BIN
        wild = rng.normal(0, 20, series) * (rng.random(series) < 0.1) + rng.standard_t(2, series)
        value = np.where(np.arange(series) < 10, 3.0, np.clip(wild, -700, 700))
        bank.predict(state, gap, gap * BIN)
        bank.update(state, at, value)
        if k % 10 == 0:
            _assert_positive(state)
    _assert_positive(state)


def test_covariance_stays_positive_over_a_hundred_thousand_updates() -> None:
    _hammer(100_000)


@pytest.mark.nightly
def test_covariance_stays_positive_over_a_million_updates() -> None:
    _hammer(1_000_000)


def test_a_gap_predicted_at_once_equals_the_gap_in_steps() -> None:
    whole, steps = _fresh(1), _fresh(1)
    for state in (whole, steps):
        bank.update(state, np.array([BIN]), np.array([5.0]))
        bank.update(state, np.array([2 * BIN]), np.array([6.0]))
    bank.predict(whole, np.array([37.0]), np.array([37 * BIN]))
    for _ in range(37):
        bank.predict(steps, np.array([1.0]), np.array([BIN]))
    assert np.allclose(whole, steps, rtol=1e-12)


def test_a_hundredfold_burst_moves_the_level_little_and_is_forgotten() -> None:
    rng = np.random.default_rng(3)
    calm, burst = _fresh(1), _fresh(1)
    for k in range(300):
        value = np.array([8.0 + 0.3 * rng.standard_normal()])
        for state in (calm, burst):
            bank.predict(state, np.ones(1), np.full(1, BIN))
        bank.update(calm, np.array([k * BIN]), value)
        bank.update(burst, np.array([k * BIN]), value + (np.log(100) if k == 200 else 0))
        if k == 200:
            assert abs(_level(burst) - _level(calm)) < 0.35
    assert abs(_level(burst) - _level(calm)) < 0.05


def test_the_daily_shape_is_learned() -> None:
    state = _fresh(1)
    for k in range(144 * 10):
        hour = k / 6 % 24
        bank.predict(state, np.ones(1), np.full(1, BIN))
        bank.update(state, np.array([k * BIN]), np.array([6.0 + 2 * np.sin(2 * np.pi * hour / 24)]))
    high, _ = bank.shape_at(state, np.array([6.0 * 6 * BIN]))
    low, _ = bank.shape_at(state, np.array([18.0 * 6 * BIN]))
    assert 2.5 < high[0] - low[0] < 4.5


def test_the_first_value_sets_the_level_and_the_scale_follows_the_noise() -> None:
    state = _fresh(2)
    bank.update(state, np.zeros(2), np.array([9.0, 2.0]))
    assert np.allclose(state[bank.SLOW], [[9.0, 2.0]] * bank.MEMBERS)
    rng = np.random.default_rng(4)
    for k in range(1, 400):
        bank.predict(state, np.ones(2), np.full(2, BIN))
        bank.update(state, np.full(2, k * BIN), np.array([9.0, 2.0]) + rng.normal(0, [0.05, 1.0]))
    assert state[bank.SCALE][:, 0].max() < 0.02
    assert 0.3 < state[bank.SCALE][:, 1].min() <= state[bank.SCALE][:, 1].max() < 2.0
