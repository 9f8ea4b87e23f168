"""The Beta distribution in elementwise numpy: distribution function and quantile."""

import numpy as np

from tidegate.estimator.columns import FloatArray

_TERMS = 24
_STEPS = 8
_TINY = 1e-300


def beta_cdf(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Regularised incomplete beta I_x(a, b) for 0 < x < 1 and 0 < a, b ≤ 500, to about ten digits."""
    value: FloatArray = np.exp(_log_cdf(x, a, b, _log_beta(a, b))[0])
    return value


def beta_quantile(probability: float, a: FloatArray, b: FloatArray) -> FloatArray:
    """The x with I_x(a, b) = probability, for a low quantile: probability ≤ 0.1.

    Newton on ln I over ln x, which is concave: after the first step it climbs to the root from the left and
    cannot overshoot. A fixed number of steps, so equal states give equal bits.
    """
    log_beta = _log_beta(a, b)
    target = float(np.log(probability))
    log_x = np.log(a) - np.log(a + b)
    for _ in range(_STEPS):
        x = np.minimum(np.exp(log_x), 1.0 - 1e-12)
        log_value, log_front = _log_cdf(x, a, b, log_beta)
        slope = np.exp(log_front - np.log1p(-x) - log_value)
        log_x = np.minimum(log_x + (target - log_value) / np.maximum(slope, _TINY), -1e-12)
        log_x = np.maximum(log_x, -600.0)
    value: FloatArray = np.exp(log_x)
    return value


def _log_cdf(
    x: FloatArray, a: FloatArray, b: FloatArray, log_beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """ln I_x(a, b), and ln of x^a (1-x)^b / B(a, b).

    Lentz's continued fraction (Numerical Recipes §6.4) on the side of the mean where it converges quickly.
    """
    flip = x > (a + 1.0) / (a + b + 2.0)
    log_front = a * np.log(x) + b * np.log1p(-x) - log_beta
    p, q = np.where(flip, b, a), np.where(flip, a, b)
    log_tail = log_front + np.log(_fraction(np.where(flip, 1.0 - x, x), p, q) / p)
    tail = np.minimum(np.exp(np.where(flip, log_tail, -1.0)), 1.0 - 1e-16)
    return np.where(flip, np.log1p(-tail), log_tail), log_front


def _fraction(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    c = np.ones(x.shape)
    d = 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    result = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d, c = 1.0 / _nonzero(1.0 + even * d), _nonzero(1.0 + even / c)
        result = result * d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d, c = 1.0 / _nonzero(1.0 + odd * d), _nonzero(1.0 + odd / c)
        result = result * d * c
    return result


def _nonzero(value: FloatArray) -> FloatArray:
    return np.where(np.abs(value) < _TINY, _TINY, value)


def _log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def _log_gamma(z: FloatArray) -> FloatArray:
    """ln Γ(z) for z > 0: Stirling's series at z + 8, then eight steps of the recurrence back."""
    y = z + 8.0
    inverse = 1.0 / (y * y)
    series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / y
    product = z
    for k in range(1, 8):
        product = product * (z + k)
    return (y - 0.5) * np.log(y) - y + 0.9189385332046727 + series - np.log(product)
