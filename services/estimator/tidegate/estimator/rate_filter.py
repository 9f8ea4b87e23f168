"""Time to first token and output rate: robust log-domain filters that publish finished numbers.

One model serves both: ln(value) = level + slope · ln(1 + prompt/1000 tokens) + noise. For the output rate the
feature is zero and the slope never moves.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import HOUR_MS
from tidegate.estimator.rounds import scan

LEVEL, SLOPE, P00, P01, P11, SCALE, WEIGHT, FEATURE, EVIDENCE, AT_MS = range(10)
Z90 = 1.2815515655446004
"""The 90 % point of the standard normal distribution."""

_LEVEL_VAR = 4.0
_SLOPE_PRIOR, _SLOPE_VAR = 0.2, 0.25
_SCALE_PRIOR = 0.25
_SCALE_RANGE = (1e-4, 25.0)
_LEVEL_NOISE_PER_HOUR = 0.5
_NOISE_PER_UPDATE = 1e-3
_FORGET = 0.985
_NU = 4.0
_MAX_LOG = 40.0


class RateBelief(NamedTuple):
    """Per series, in the unit of the observed value."""

    mean: FloatArray
    var: FloatArray
    """Variance of the mean's estimate (parameter uncertainty), in units²."""
    p90: FloatArray
    """90 % point of the next value, parameter uncertainty included."""
    prior: BoolArray
    """True: no evidence yet, the numbers are meaningless."""


class RateFilter(Columns):
    """Two-state Kalman filter with Student-t weights (ν = 4) and learned variance; P is in units of `scale`."""

    FIELDS = (
        *("level", "slope", "var_level", "cov", "var_slope", "scale", "scale_weight", "typical_feature"),
        *("evidence", "at_ms"),
    )
    PRIOR = (0.0, _SLOPE_PRIOR, _LEVEL_VAR, 0.0, _SLOPE_VAR, _SCALE_PRIOR, 4.0, 0.0, 0.0, 0.0)

    def observe(
        self,
        idx: IntArray,
        ts_ns: IntArray,
        value: FloatArray,
        feature: FloatArray,
        at_least: BoolArray | None = None,
    ) -> int:
        """Values (> 0) of series, which may repeat and keep their order. Where `at_least` holds, only a lower
        bound is known (a timeout): it counts when it lies above what was expected. Returns how many were ignored
        as not finite or not positive."""
        useful = np.isfinite(value) & (value > 0) & np.isfinite(feature)
        who = idx[useful]
        columns = (milliseconds(ts_ns[useful]), np.log(value[useful]), feature[useful])
        if at_least is None:
            scan(self, who, columns, _observe)
        else:
            scan(self, who, (*columns, at_least[useful]), _observe)
        return int(idx.size - who.size)

    def belief(self, idx: IntArray, now_ns: int, feature: FloatArray | None = None) -> RateBelief:
        """What is believed at `now_ns` for the given feature, by default each series' typical one."""
        block = self.take(idx)
        _predict(block, np.full(idx.size, float(now_ns // 1_000_000)))
        x = block[FEATURE] if feature is None else feature
        centre = block[LEVEL] + block[SLOPE] * x
        spread = block[SCALE] * (block[P00] + 2.0 * x * block[P01] + x * x * block[P11])
        mean = np.exp(np.minimum(centre + 0.5 * (block[SCALE] + spread), _MAX_LOG))
        total = block[SCALE] + spread
        return RateBelief(
            mean=mean,
            var=mean * mean * np.expm1(np.minimum(spread, _MAX_LOG)),
            p90=np.exp(np.minimum(centre + Z90 * np.sqrt(total), _MAX_LOG)),
            prior=block[EVIDENCE] == 0,
        )


def prompt_feature(prompt_tokens: IntArray) -> FloatArray:
    """ln(1 + prompt/1000): time to first token grows as a power of the prompt's length, not exponentially."""
    return np.log1p(np.maximum(prompt_tokens, 0) / 1000.0)


def _predict(block: FloatArray, at_ms: FloatArray) -> None:
    hours = np.where(block[AT_MS] > 0, np.maximum(at_ms - block[AT_MS], 0.0) / HOUR_MS, 0.0)
    block[P00] = np.minimum(block[P00] + _LEVEL_NOISE_PER_HOUR * hours, np.maximum(block[P00], _LEVEL_VAR))


def _observe(
    block: FloatArray,
    at_ms: FloatArray,
    log_value: FloatArray,
    x: FloatArray,
    at_least: BoolArray | None = None,
) -> None:
    """One value per series, in place."""
    _predict(block, at_ms)
    np.maximum(block[AT_MS], at_ms, out=block[AT_MS])
    feature, first = block[FEATURE], block[EVIDENCE] == 0
    feature += 0.05 * (x - feature)
    if np.count_nonzero(first):
        block[LEVEL] = np.where(first, log_value - block[SLOPE] * x, block[LEVEL])
        np.copyto(feature, x, where=first)
    block[P00] += _NOISE_PER_UPDATE
    error = log_value - block[LEVEL] - block[SLOPE] * x
    if at_least is not None:
        error = np.where(at_least, np.maximum(error, 0.0), error)
    ph = block[P00:P11] + block[P01 : P11 + 1] * x
    prior_var = ph[0] + ph[1] * x
    surprise = error * error / (block[SCALE] * (prior_var + 1.0))
    noise = np.maximum((_NU + surprise) / (_NU + 1.0), 1.0)
    gain = ph / (prior_var + noise)
    scale = block[SCALE] + (np.minimum(surprise, 16.0) - 1.0) * block[SCALE] / block[WEIGHT]
    scale = np.minimum(np.maximum(scale, _SCALE_RANGE[0]), _SCALE_RANGE[1])
    if at_least is not None:
        taken = ~at_least | (error > 0)
        gain, scale = np.where(taken, gain, 0.0), np.where(taken, scale, block[SCALE])
    _update_covariance(block, gain, x, noise)
    block[LEVEL : SLOPE + 1] += gain * error
    block[SCALE] = scale
    block[WEIGHT] = _FORGET * block[WEIGHT] + 1.0
    block[EVIDENCE] += 1.0


def _update_covariance(block: FloatArray, gain: FloatArray, x: FloatArray, noise: FloatArray) -> None:
    """Joseph form: P ← (I-Kh) P (I-Kh)' + K noise K' with h = [1, x]."""
    a = np.empty((2, 2, x.size))
    np.subtract(1.0, gain[0], out=a[0, 0])
    np.negative(gain[1], out=a[1, 0])
    crossed = gain * x
    np.negative(crossed[0], out=a[0, 1])
    np.subtract(1.0, crossed[1], out=a[1, 1])
    b = a[:, :1] * block[P00:P11] + a[:, 1:] * block[P01 : P11 + 1]
    rows = b[0] * a
    noisy = noise * gain
    block[P11] = b[1, 0] * a[1, 0] + b[1, 1] * a[1, 1] + noisy[1] * gain[1]
    np.add(rows[:, 0] + rows[:, 1], noisy[0] * gain, out=block[P00:P11])
