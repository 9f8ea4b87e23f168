"""Log consumption of an active bin: a mean-reverting level and a daily shape, as a robust Kalman filter.

State: slow level (random walk) and deviation (Ornstein-Uhlenbeck) with their joint covariance, and twelve
two-hour knots with a variance each. Level and knots are updated as blocks that see each other as noise, so
every update is a Joseph form of size two or one: positive by construction, and cheap. All variances are in
units of the learned observation variance.
"""

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.day_profile import DAY_MS, KNOTS, knots_at

# Offsets into the block of this model.
SLOW, FAST, P00, P01, P11, SCALE, WEIGHT, UPDATES = range(8)
KNOT = slice(8, 8 + KNOTS)
KNOT_VAR = slice(8 + KNOTS, 8 + 2 * KNOTS)
FIELDS: tuple[str, ...] = (
    *("slow", "fast", "var_slow", "cov_slow_fast", "var_fast", "scale", "scale_weight", "updates"),
    *(f"knot_{k}" for k in range(KNOTS)),
    *(f"knot_var_{k}" for k in range(KNOTS)),
)

REVERSION_BINS = 24.0
"""Time constant of the deviation: 4 h of a 5 h window's 10-minute bins."""
FAST_VAR = 0.1 * REVERSION_BINS / 2.0
_SLOW_VAR = 4.0
_SLOW_NOISE = 5e-4
_KNOT_VAR = 1.0
_KNOT_NOISE_PER_DAY = 0.288
_NU = 4.0
_SCALE_FORGET = 0.985
_SCALE_RANGE = (1e-4, 100.0)
PRIOR: tuple[float, ...] = (
    *(0.0, 0.0, _SLOW_VAR, 0.0, FAST_VAR, 1.0, 4.0, 0.0),
    *(0.0,) * KNOTS,
    *(_KNOT_VAR,) * KNOTS,
)


def predict(level: FloatArray, bins: FloatArray, gap_ms: FloatArray) -> None:
    """Let `bins` bins (`gap_ms` milliseconds) pass; exact for any gap."""
    phi = np.exp(-bins / REVERSION_BINS)
    level[FAST] *= phi
    level[P01] *= phi
    level[P11] = level[P11] * phi * phi + FAST_VAR * (1.0 - phi * phi)
    level[P00] = np.minimum(level[P00] + _SLOW_NOISE * bins, _SLOW_VAR)
    level[KNOT_VAR] = np.minimum(level[KNOT_VAR] + _KNOT_NOISE_PER_DAY * (gap_ms / DAY_MS), _KNOT_VAR)


def shape_at(level: FloatArray, at_ms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (in units of `scale`) of the daily shape at a moment."""
    return _shape(level, *knots_at(at_ms))


def _shape(
    level: FloatArray, first: IntArray, second: IntArray, w2: FloatArray
) -> tuple[FloatArray, FloatArray]:
    w1 = 1.0 - w2
    series = np.arange(w2.size)
    knot, var = level[KNOT], level[KNOT_VAR]
    mean = w1 * knot[first, series] + w2 * knot[second, series]
    return mean, w1 * w1 * var[first, series] + w2 * w2 * var[second, series]


def update(level: FloatArray, at_ms: FloatArray, log_units: FloatArray) -> None:
    """Take in an active bin centred at `at_ms`. One Student-t reweighting step keeps a burst from moving it."""
    level[SLOW] = np.where(level[UPDATES] == 0, log_units, level[SLOW])
    first, second, w2 = knots_at(at_ms)
    shape, shape_var = _shape(level, first, second, w2)
    ph0, ph1 = level[P00] + level[P01], level[P01] + level[P11]
    error = log_units - level[SLOW] - level[FAST] - shape
    prior_var = ph0 + ph1 + shape_var
    surprise = error * error / (level[SCALE] * (prior_var + 1.0))
    noise = np.maximum((_NU + surprise) / (_NU + 1.0), 1.0)
    total = prior_var + noise
    _update_level(level, ph0 / total, ph1 / total, noise + shape_var, error)
    _update_knot(level, first, 1.0 - w2, total, error)
    _update_knot(level, second, w2, total, error)
    scale = level[SCALE] + (np.minimum(surprise, 16.0) - 1.0) * level[SCALE] / level[WEIGHT]
    level[SCALE] = np.clip(scale, *_SCALE_RANGE)
    level[WEIGHT] = _SCALE_FORGET * level[WEIGHT] + 1.0
    level[UPDATES] += 1.0


def _update_level(
    level: FloatArray, k0: FloatArray, k1: FloatArray, noise: FloatArray, error: FloatArray
) -> None:
    """P ← (I-Kh) P (I-Kh)' + K noise K' with h = [1, 1]."""
    p00, p01, p11 = level[P00].copy(), level[P01].copy(), level[P11].copy()
    a00, a11 = 1.0 - k0, 1.0 - k1
    b00, b01 = a00 * p00 - k0 * p01, a00 * p01 - k0 * p11
    b10, b11 = a11 * p01 - k1 * p00, a11 * p11 - k1 * p01
    level[P00] = b00 * a00 - b01 * k0 + noise * k0 * k0
    level[P01] = b01 * a11 - b00 * k1 + noise * k0 * k1
    level[P11] = b11 * a11 - b10 * k1 + noise * k1 * k1
    level[SLOW] += k0 * error
    level[FAST] += k1 * error


def _update_knot(
    level: FloatArray, knot: IntArray, weight: FloatArray, total: FloatArray, error: FloatArray
) -> None:
    series = np.arange(error.size)
    mean, var = level[KNOT], level[KNOT_VAR]
    v = var[knot, series]
    gain = weight * v / total
    rest = 1.0 - gain * weight
    var[knot, series] = rest * rest * v + gain * gain * (total - weight * weight * v)
    mean[knot, series] += gain * error
