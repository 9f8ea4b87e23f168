"""Time to first token and output rate: robust log-domain filters that publish finished numbers.

One model serves both: ln(value) = level + slope · ln(1 + prompt/1000 tokens) + noise. For the output rate the
feature is zero and the slope never moves.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import HOUR_MS

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
        self, idx: IntArray, ts_ns: IntArray, value: FloatArray, feature: FloatArray, at_least: BoolArray
    ) -> int:
        """One value (> 0) per series. Where `at_least` holds, only a lower bound is known (a timeout): it counts
        when it lies above what was expected. Returns how many were ignored as not finite or not positive."""
        useful = np.isfinite(value) & (value > 0) & np.isfinite(feature)
        who = idx[useful]
        block = self.take(who)
        at_ms = milliseconds(ts_ns[useful])
        _predict(block, at_ms)
        block[AT_MS] = np.maximum(block[AT_MS], at_ms)
        _update(block, np.log(value[useful]), feature[useful], at_least[useful])
        self.put(who, block)
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


def _update(block: FloatArray, log_value: FloatArray, x: FloatArray, at_least: BoolArray) -> None:
    first = block[EVIDENCE] == 0
    block[LEVEL] = np.where(first, log_value - block[SLOPE] * x, block[LEVEL])
    block[FEATURE] = np.where(first, x, block[FEATURE] + 0.05 * (x - block[FEATURE]))
    block[P00] += _NOISE_PER_UPDATE
    p00, p01, p11 = block[P00].copy(), block[P01].copy(), block[P11].copy()
    error = log_value - block[LEVEL] - block[SLOPE] * x
    error = np.where(at_least, np.maximum(error, 0.0), error)
    ph0, ph1 = p00 + p01 * x, p01 + p11 * x
    prior_var = ph0 + ph1 * x
    surprise = error * error / (block[SCALE] * (prior_var + 1.0))
    noise = np.maximum((_NU + surprise) / (_NU + 1.0), 1.0)
    taken = ~at_least | (error > 0)
    k0 = np.where(taken, ph0 / (prior_var + noise), 0.0)
    k1 = np.where(taken, ph1 / (prior_var + noise), 0.0)
    # Joseph form: P ← (I-Kh) P (I-Kh)' + K noise K' with h = [1, x].
    a00, a01, a10, a11 = 1.0 - k0, -k0 * x, -k1, 1.0 - k1 * x
    b00, b01 = a00 * p00 + a01 * p01, a00 * p01 + a01 * p11
    b10, b11 = a10 * p00 + a11 * p01, a10 * p01 + a11 * p11
    block[P00] = b00 * a00 + b01 * a01 + noise * k0 * k0
    block[P01] = b00 * a10 + b01 * a11 + noise * k0 * k1
    block[P11] = b10 * a10 + b11 * a11 + noise * k1 * k1
    block[LEVEL] += k0 * error
    block[SLOPE] += k1 * error
    scale = block[SCALE] + (np.minimum(surprise, 16.0) - 1.0) * block[SCALE] / block[WEIGHT]
    block[SCALE] = np.where(taken, np.clip(scale, *_SCALE_RANGE), block[SCALE])
    block[WEIGHT] = _FORGET * block[WEIGHT] + 1.0
    block[EVIDENCE] += 1.0
