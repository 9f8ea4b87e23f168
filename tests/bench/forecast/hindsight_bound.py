"""The most a flat plan could have saved, knowing everything: the linear programme's exact value.

max Σ v·x subject to Σ u·x ≤ Q in every period of every window, 0 ≤ x ≤ 1. With one window it is a fractional
knapsack per period. With a longer window around it, its multiplier λ ≥ 0 is the only unknown of the dual
min λ·Q + Σ knapsack(v - λ·u): convex in λ, and by strong duality its least value is the programme's.
"""

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray

_STEPS = 80


def knapsack(value: FloatArray, units: FloatArray, quota: float) -> float:
    """Fractional knapsack: the most valuable units first, what is worth nothing never."""
    useful = value > 0
    value, units = value[useful], units[useful]
    order = np.argsort(-value / units, kind="stable")
    value, units = value[order], units[order]
    before = np.cumsum(units) - units
    share = np.clip((quota - before) / units, 0.0, 1.0)
    return float(np.sum(share * value))


def one_window(value: FloatArray, units: FloatArray, period: IntArray, quota: float) -> float:
    """Sum over the periods of one window."""
    return sum(knapsack(value[period == p], units[period == p], quota) for p in np.unique(period))


def two_windows(
    value: FloatArray,
    short: tuple[FloatArray, IntArray, float],
    long: tuple[FloatArray, IntArray, float],
) -> float:
    """Each window as (units, period, quota); a period of the short one lies within one of the long one."""
    units, period, quota = short
    total = 0.0
    for p in np.unique(long[1]):
        at = long[1] == p
        total += _dual(value[at], units[at], period[at], quota, (long[0][at], long[2]))
    return total


def _dual(
    value: FloatArray, units: FloatArray, period: IntArray, quota: float, long: tuple[FloatArray, float]
) -> float:
    """Golden-section search of the dual over λ. Any λ gives an upper bound, the least one the value itself."""
    long_units, long_quota = long

    def bound(price: float) -> float:
        return price * long_quota + one_window(value - price * long_units, units, period, quota)

    low, high = 0.0, float(np.max(value / long_units))
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = bound(a), bound(b)
    for _ in range(_STEPS):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = bound(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = bound(b)
    return min(at_a, at_b, bound(0.0))
