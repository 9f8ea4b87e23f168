"""The linear parts against two libraries that others wrote and use: filterpy and statsmodels, to 1e-9."""

from typing import Any

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter as StateSpace

from tidegate.estimator import bank, rate_filter
from tidegate.estimator import capacity_bank as percent
from tidegate.estimator.capacity import Capacity
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.rate_filter import RateFilter

ONE = np.array([0])
CLOSE = 1e-9
HOUR_NS = 3_600_000_000_000


def _bank() -> FloatArray:
    """A bank that has seen one value at level 0 and knows that there is no daily shape."""
    state = np.array(bank.PRIOR)[:, None]
    state[bank.UPDATES], state[bank.KNOT_VAR], state[bank.P00] = 1.0, 0.0, 1.0
    return state


def _oracle(member: int) -> Any:
    kalman = KalmanFilter(dim_x=2, dim_z=1)
    kalman.x = np.zeros((2, 1))
    kalman.P = np.diag([_bank()[bank.P00][member, 0], _bank()[bank.P11][member, 0]])
    kalman.H = np.array([[1.0, 1.0]])
    return kalman


@pytest.mark.parametrize("outliers", [False, True])
def test_every_member_of_the_bank_is_the_textbook_filter_with_the_noise_of_its_weight(outliers: bool) -> None:
    rng = np.random.default_rng(1)
    state, oracles = _bank(), [_oracle(k) for k in range(bank.MEMBERS)]
    for _ in range(200):
        bins = float(rng.integers(1, 4))
        value = float(rng.normal(0, 0.2)) * (40.0 if outliers and rng.random() < 0.1 else 1.0)
        bank.predict(state, np.array([bins]), np.zeros(1))
        scale = state[bank.SCALE].copy()
        for k, kalman in enumerate(oracles):
            phi = np.exp(-bins / bank.REVERSION_BINS[k, 0])
            kalman.F = np.diag([1.0, phi])
            kalman.Q = np.diag([5e-4 * bins, bank.FAST_VAR[k, 0] * (1.0 - phi * phi)])
            kalman.predict()
            error = value - float((kalman.H @ kalman.x)[0, 0])
            expected = float((kalman.H @ kalman.P @ kalman.H.T)[0, 0])
            surprise = error * error / (scale[k, 0] * (expected + 1.0))
            kalman.update(np.array([[value]]), R=max((4.0 + surprise) / 5.0, 1.0))
        bank.update(state, np.zeros(1), np.array([value]))
        for k, kalman in enumerate(oracles):
            ours = state[bank.P00][k, 0], state[bank.P01][k, 0], state[bank.P11][k, 0]
            theirs = kalman.P[0, 0], kalman.P[0, 1], kalman.P[1, 1]
            assert np.allclose(ours, theirs, rtol=0, atol=CLOSE)
            assert np.isclose(state[bank.SLOW][k, 0], kalman.x[0, 0], rtol=0, atol=CLOSE)
            assert np.isclose(state[bank.FAST][k, 0], kalman.x[1, 0], rtol=0, atol=CLOSE)


# Of filters of the bank, whether strangers are busy, and variance of the pace to begin with, and per fifth noise of
# level and pace, each as a number and as a share of the squared pace. Strangers: the first pace and restlessness, idle
# and busy, and the last.
FILTERS = {
    0: (0.0, 0.0, (0.0, 0.0), (0.0, 0.0)),
    1: (0.0, 0.225**2, (0.0, 0.0), (0.0, 0.01)),
    1 + percent.PAIRS: (1.0, 0.225**2, (0.01, 0.002), (0.0, 0.01)),
    2 * percent.PAIRS: (1.0, (0.225 * 2.5**5) ** 2, (0.5, 1.0), (0.5, 2.0)),
}


@pytest.mark.parametrize("place", FILTERS)
def test_a_capacity_without_surprises_is_the_textbook_filter(place: int) -> None:
    """Of a pair the other filter is ruled out before each report, so that nothing of it is merged."""
    rng = np.random.default_rng(2)
    model = Capacity(1)
    model.guess(ONE, np.array([1000.0]))
    busy, pace_var, level_noise, pace_noise = FILTERS[place]
    filters = model.data[: percent.GROUPS * percent.FILTERS, 0].reshape(percent.GROUPS, percent.FILTERS)
    kalman: Any = KalmanFilter(dim_x=3, dim_z=1)
    kalman.x = np.array([[0.0], [100.0], [3.0]])  # a pace below 0 is none: here it stays above
    kalman.P = np.diag([0.0, 1e6, pace_var])
    filters[percent.PACE] = 3.0
    kalman.H, kalman.R = np.array([[1.0, 0.0, 0.0]]), np.array([[1.0 / 12.0]])
    own, start = 0.0, np.zeros(1, dtype=np.int64)
    for k in range(1, 40):
        used = float(rng.uniform(0, 40))
        own += used
        pace = float(kalman.x[2, 0])
        assert pace > 0
        kalman.F = np.array([[1.0, used / 1000.0, busy], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        noise = [each[0] + each[1] * pace**2 for each in (level_noise, pace_noise)]
        kalman.Q = np.diag([noise[0], 1e-3, noise[1]])
        kalman.predict()
        told = float(kalman.x[0, 0]) + 0.05 * busy  # a little more or less: nothing surprises
        kalman.update(np.array([[told]]))
        filters[percent.LOG_WEIGHT] = np.where(np.arange(percent.FILTERS) == place, 0.0, -1e4)
        model.observe(ONE, np.array([k * HOUR_NS]), start, np.array([own]), np.array([told]))
        ours = filters[: len(percent.NAMES) - 1, place]
        cov = np.array([[ours[percent.COV[a][b]] for b in range(3)] for a in range(3)])
        assert np.allclose(ours[:3], kalman.x[:, 0], atol=CLOSE)
        assert np.allclose(cov, kalman.P, rtol=CLOSE, atol=1e-7)


def test_a_rate_filter_is_a_regression_with_a_drifting_level_in_the_noise_of_its_weights() -> None:
    rng = np.random.default_rng(3)
    n = 60
    feature = rng.uniform(0, 3, n)
    log_value = 0.2 * feature + 0.3 * rng.standard_t(2, n)
    log_value[0] = 0.2 * feature[0]  # the first value is where the level starts: it surprises nobody
    model, found, noise = RateFilter(1), np.empty((n, 5)), np.ones(n)
    places = [rate_filter.LEVEL, rate_filter.SLOPE, rate_filter.P00, rate_filter.P01, rate_filter.P11]
    for k in range(n):
        level, slope, p00, p01, p11 = model.data[places, 0]
        x, scale = feature[k], model.data[rate_filter.SCALE, 0]
        expected = p00 + 1e-3 + 2.0 * x * p01 + x * x * p11
        surprise = (log_value[k] - level - slope * x) ** 2 / (scale * (expected + 1.0)) if k else 0.0
        noise[k] = max((4.0 + surprise) / 5.0, 1.0)
        model.observe(ONE, np.array([HOUR_NS]), np.exp(log_value[k : k + 1]), feature[k : k + 1])
        found[k] = model.data[places, 0]
    oracle: Any = StateSpace(k_endog=1, k_states=2)
    oracle.bind(log_value[:, None].copy())
    oracle["design"] = np.stack((np.ones(n), feature))[None]
    oracle["transition"], oracle["selection"] = np.eye(2), np.eye(2)
    oracle["state_cov"], oracle["obs_cov"] = np.diag([1e-3, 0.0]), noise[None, None]
    begin = np.array([0.0, RateFilter.PRIOR[rate_filter.SLOPE]])
    doubt = np.diag([RateFilter.PRIOR[rate_filter.P00], RateFilter.PRIOR[rate_filter.P11]])
    oracle.initialize_known(begin, doubt + np.diag([1e-3, 0.0]))
    theirs = oracle.filter()
    cov = theirs.filtered_state_cov
    assert noise.max() > 1.5
    assert np.allclose(found[:, :2], theirs.filtered_state.T, rtol=0, atol=CLOSE)
    assert np.allclose(found[:, 2:], np.stack((cov[0, 0], cov[0, 1], cov[1, 1])).T, rtol=0, atol=CLOSE)
