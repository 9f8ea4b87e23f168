"""Log consumption of an active bin: six mean-reverting levels of different time scales over one daily shape.

A member has a slow level (random walk) and a deviation (Ornstein-Uhlenbeck) with their joint covariance, and
learns its own noise. The daily shape (twelve two-hour knots, a variance each) is shared. Level and shape are
updated as blocks that see each other as noise, so every update is a Joseph form of size two or one: positive by
construction, and cheap. Members are weighed by how well they foresaw (multiple-model adaptive estimation): no
time scale need be tuned per series. All variances are in units of the learned observation variance.
"""

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.day_profile import DAY_MS, KNOTS, knots_at

MEMBERS = 6
_GROUPS = ("slow", "fast", "var_slow", "cov_slow_fast", "var_fast", "scale", "scale_weight", "log_weight")
# Offsets into the block of this model: a group holds one row per member.
SLOW, FAST, P00, P01, P11, SCALE, WEIGHT, LOG_WEIGHT = (
    slice(k * MEMBERS, (k + 1) * MEMBERS) for k in range(len(_GROUPS))
)
UPDATES = len(_GROUPS) * MEMBERS
KNOT = slice(UPDATES + 1, UPDATES + 1 + KNOTS)
KNOT_VAR = slice(KNOT.stop, KNOT.stop + KNOTS)
FIELDS: tuple[str, ...] = (
    *(f"{group}_{k}" for group in _GROUPS for k in range(MEMBERS)),
    "updates",
    *(f"knot_{k}" for k in range(KNOTS)),
    *(f"knot_var_{k}" for k in range(KNOTS)),
)

REVERSION_BINS: FloatArray = np.array([6.0, 24.0, 144.0, 6.0, 24.0, 144.0])[:, None]
"""Time constants of the deviation: 1 h, 4 h and a day of a 5 h window's 10-minute bins."""
_NOISE: FloatArray = np.array([0.03, 0.03, 0.01, 0.3, 0.2, 0.05])[:, None]
FAST_VAR: FloatArray = _NOISE * REVERSION_BINS / 2.0
_SLOW_VAR = 4.0
_SLOW_NOISE = 5e-4
_KNOT_VAR = 1.0
_KNOT_NOISE_PER_DAY = 0.288
_NU = 4.0
_SCALE_FORGET = 0.985
_SCALE_RANGE = (1e-4, 100.0)
_WEIGHT_FORGET = 0.98
PRIOR: tuple[float, ...] = (
    *(0.0,) * (2 * MEMBERS),
    *(_SLOW_VAR,) * MEMBERS,
    *(0.0,) * MEMBERS,
    *FAST_VAR[:, 0].tolist(),
    *(1.0,) * MEMBERS,
    *(4.0,) * MEMBERS,
    *(0.0,) * MEMBERS,
    0.0,
    *(0.0,) * KNOTS,
    *(_KNOT_VAR,) * KNOTS,
)


def predict(bank: FloatArray, bins: FloatArray, gap_ms: FloatArray) -> None:
    """Let `bins` bins (`gap_ms` milliseconds) pass; exact for any gap."""
    phi = np.exp(-bins / REVERSION_BINS)
    square = phi * phi
    bank[FAST] *= phi
    bank[P01] *= phi
    bank[P11] = bank[P11] * square + FAST_VAR * (1.0 - square)
    bank[P00] = np.minimum(bank[P00] + _SLOW_NOISE * bins, _SLOW_VAR)
    bank[KNOT_VAR] = np.minimum(bank[KNOT_VAR] + _KNOT_NOISE_PER_DAY * (gap_ms / DAY_MS), _KNOT_VAR)


def shape_at(bank: FloatArray, at_ms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (in units of `scale`) of the daily shape at a moment."""
    return _shape(bank, *knots_at(at_ms))


def _shape(
    bank: FloatArray, first: IntArray, second: IntArray, w2: FloatArray
) -> tuple[FloatArray, FloatArray]:
    w1 = 1.0 - w2
    series = np.arange(w2.size)
    knot, var = bank[KNOT], bank[KNOT_VAR]
    mean = w1 * knot[first, series] + w2 * knot[second, series]
    return mean, w1 * w1 * var[first, series] + w2 * w2 * var[second, series]


def weights(bank: FloatArray) -> FloatArray:
    """Share of belief per member, shape (MEMBERS, n), added in a fixed order."""
    log_weight = bank[LOG_WEIGHT]
    raw = np.exp(log_weight - log_weight.max(axis=0))
    total = raw[0]
    for k in range(1, MEMBERS):
        total = total + raw[k]
    share: FloatArray = raw / total
    return share


def update(bank: FloatArray, at_ms: FloatArray, log_units: FloatArray) -> None:
    """Take in an active bin centred at `at_ms`. One Student-t reweighting step keeps a burst from moving it."""
    bank[SLOW] = np.where(bank[UPDATES] == 0, log_units, bank[SLOW])
    first, second, w2 = knots_at(at_ms)
    shape, shape_var = _shape(bank, first, second, w2)
    share = weights(bank)
    ph0, ph1 = bank[P00] + bank[P01], bank[P01] + bank[P11]
    error = log_units - bank[SLOW] - bank[FAST] - shape
    prior_var = ph0 + ph1 + shape_var
    spread = bank[SCALE] * (prior_var + 1.0)
    surprise = error * error / spread
    noise = np.maximum((_NU + surprise) / (_NU + 1.0), 1.0)
    total = prior_var + noise
    _update_level(bank, ph0 / total, ph1 / total, noise + shape_var, error)
    likelihood = -0.5 * np.log(spread) - 0.5 * (_NU + 1.0) * np.log1p(surprise / _NU)
    log_weight = _WEIGHT_FORGET * bank[LOG_WEIGHT] + likelihood
    bank[LOG_WEIGHT] = log_weight - log_weight.max(axis=0)
    mean_error, mean_total = _mixed(share, error), _mixed(share, total)
    _update_knot(bank, first, 1.0 - w2, mean_total, mean_error)
    _update_knot(bank, second, w2, mean_total, mean_error)
    scale = bank[SCALE] + (np.minimum(surprise, 16.0) - 1.0) * bank[SCALE] / bank[WEIGHT]
    bank[SCALE] = np.clip(scale, *_SCALE_RANGE)
    bank[WEIGHT] = _SCALE_FORGET * bank[WEIGHT] + 1.0
    bank[UPDATES] += 1.0


def _mixed(share: FloatArray, values: FloatArray) -> FloatArray:
    total: FloatArray = share[0] * values[0]
    for k in range(1, MEMBERS):
        total = total + share[k] * values[k]
    return total


def _update_level(
    bank: FloatArray, k0: FloatArray, k1: FloatArray, noise: FloatArray, error: FloatArray
) -> None:
    """P ← (I-Kh) P (I-Kh)' + K noise K' with h = [1, 1]."""
    p00, p01, p11 = bank[P00].copy(), bank[P01].copy(), bank[P11].copy()
    a00, a11 = 1.0 - k0, 1.0 - k1
    b00, b01 = a00 * p00 - k0 * p01, a00 * p01 - k0 * p11
    b10, b11 = a11 * p01 - k1 * p00, a11 * p11 - k1 * p01
    bank[P00] = b00 * a00 - b01 * k0 + noise * k0 * k0
    bank[P01] = b01 * a11 - b00 * k1 + noise * k0 * k1
    bank[P11] = b11 * a11 - b10 * k1 + noise * k1 * k1
    bank[SLOW] += k0 * error
    bank[FAST] += k1 * error


def _update_knot(
    bank: FloatArray, knot: IntArray, weight: FloatArray, total: FloatArray, error: FloatArray
) -> None:
    series = np.arange(error.size)
    mean, var = bank[KNOT], bank[KNOT_VAR]
    v = var[knot, series]
    gain = weight * v / total
    rest = 1.0 - gain * weight
    var[knot, series] = rest * rest * v + gain * gain * (total - weight * weight * v)
    mean[knot, series] += gain * error
