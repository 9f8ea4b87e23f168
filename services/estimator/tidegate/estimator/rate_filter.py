"""Time to first token and output rate: robust log-domain filters that publish finished numbers.

One model serves both: ln(value) = level + slope · ln(1 + prompt/1000 tokens) + noise. For the output rate the
feature is zero and the slope never moves.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import HOUR_MS
from tidegate.estimator.rounds import elapsed_ms, scan

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
        who, log_value, x = idx[useful], np.log(value[useful]), feature[useful]
        self._begin(who, log_value, x)
        hours = elapsed_ms(self.data[AT_MS], who, milliseconds(ts_ns[useful])) / HOUR_MS
        columns = (_LEVEL_NOISE_PER_HOUR * hours, log_value, x)
        if at_least is None:
            scan(self, who, columns, _observe)
        else:
            scan(self, who, (*columns, at_least[useful]), _observe)
        return int(idx.size - who.size)

    def _begin(self, who: IntArray, log_value: FloatArray, x: FloatArray) -> None:
        """The first value of a series is where its level starts."""
        fresh = np.flatnonzero(self.data[EVIDENCE, who] == 0)
        new, first = np.unique(who[fresh], return_index=True)
        at = fresh[first]
        self.data[LEVEL, new] = log_value[at] - self.data[SLOPE, new] * x[at]
        self.data[FEATURE, new] = x[at]

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
    block[P00] = _grown(block[P00], _LEVEL_NOISE_PER_HOUR * hours)


def _grown(p00: FloatArray, drift: FloatArray) -> FloatArray:
    """Variance of the level after a time without values: never more doubt than at the start."""
    return np.minimum(p00 + drift, np.maximum(p00, _LEVEL_VAR))


def _observe(
    block: FloatArray,
    drift: FloatArray,
    log_value: FloatArray,
    x: FloatArray,
    at_least: BoolArray | None = None,
) -> None:
    """One value per series, in place."""
    level, slope, p00, p01, p11, scale, weight, feature, evidence, _ = block
    feature += 0.05 * (x - feature)
    p00[:] = _grown(p00, drift)
    p00 += _NOISE_PER_UPDATE
    error = log_value - level - slope * x
    if at_least is not None:
        error = np.where(at_least, np.maximum(error, 0.0), error)
    ph0, ph1 = p00 + p01 * x, p01 + p11 * x
    prior_var = ph0 + ph1 * x
    surprise = error * error / (scale * (prior_var + 1.0))
    noise = np.maximum((_NU + surprise) / (_NU + 1.0), 1.0)
    total = prior_var + noise
    k0, k1 = ph0 / total, ph1 / total
    learned = scale + (np.minimum(surprise, 16.0) - 1.0) * scale / weight
    learned = np.minimum(np.maximum(learned, _SCALE_RANGE[0]), _SCALE_RANGE[1])
    if at_least is not None:
        taken = ~at_least | (error > 0)
        k0, k1 = np.where(taken, k0, 0.0), np.where(taken, k1, 0.0)
        learned = np.where(taken, learned, scale)
    _update_covariance(p00, p01, p11, k0, k1, x, noise)
    level += k0 * error
    slope += k1 * error
    scale[:] = learned
    weight[:] = _FORGET * weight + 1.0
    evidence += 1.0


def _update_covariance(
    p00: FloatArray,
    p01: FloatArray,
    p11: FloatArray,
    k0: FloatArray,
    k1: FloatArray,
    x: FloatArray,
    noise: FloatArray,
) -> None:
    """Joseph form, in place: P ← (I-Kh) P (I-Kh)' + K noise K' with h = [1, x].

    Plain products of rows: numpy is quickest on small arrays of one shape.
    """
    a00, c0 = 1.0 - k0, k0 * x
    a11 = 1.0 - k1 * x
    b00, b01 = a00 * p00 - c0 * p01, a00 * p01 - c0 * p11
    b10, b11 = a11 * p01 - k1 * p00, a11 * p11 - k1 * p01
    n0, n1 = noise * k0, noise * k1
    p00[:] = b00 * a00 - b01 * c0 + n0 * k0
    p01[:] = b01 * a11 - b00 * k1 + n0 * k1
    p11[:] = b11 * a11 - b10 * k1 + n1 * k1
