"""The seed's multipliers of a base price: peak, scarcity, health, pace. A policy one may choose, not a price.

Each answers a factor ≥ 0, infinite where the provider must not be used.
"""

import math
from collections.abc import Iterable

PEAK_FACTOR = 3.0
PEAK_HOURS = (6, 10)
"""Half-open, UTC. The seed had the last hour in and out of it in different places."""
_PACE_RANGE = (0.5, 3.0)


def peak(hour: int, *, counts_peak: bool, hours: tuple[int, int] = PEAK_HOURS) -> float:
    """Three times the price in the half-open peak of a provider that has one."""
    return PEAK_FACTOR if counts_peak and hours[0] <= hour < hours[1] else 1.0


def scarcity(used_percent: float) -> float:
    """1 up to half of the quota, then by one more per 50 points, without an end."""
    return 1.0 + max(0.0, (used_percent - 50.0) / 50.0)


def health(failures: int, *, breaker: bool = False) -> float:
    """By failures in a row."""
    if breaker or failures > 10:
        return math.inf
    for most, factor in ((0, 1.0), (2, 1.5), (5, 3.0)):
        if failures <= most:
            return factor
    return 10.0


def pace_ratio(used: float, quota: float, elapsed: float, window_h: float, burn_per_h: float) -> float | None:
    """Expected use at the reset over the quota; `elapsed` is a share of the window. None when undefined."""
    if burn_per_h <= 0 or quota <= 0 or elapsed <= 0:
        return None
    return (used + burn_per_h * (1.0 - min(elapsed, 1.0)) * window_h) / quota


def pace(ratios: Iterable[float | None]) -> float:
    """The worst window's ratio squared, within 0.5 … 3; 1 where no window has one."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return 1.0
    return min(max(max(known) ** 2, _PACE_RANGE[0]), _PACE_RANGE[1])


def pressure(used: float, onset: float, amplitude: float = 1.5, *, hard: bool = True) -> float:
    """1 up to `onset`, then rising without bound as the share used nears 1; beyond it infinite or `amplitude`."""
    if used <= onset:
        return 1.0
    if used >= 1.0:
        return math.inf if hard else amplitude
    t = (used - onset) / (1.0 - onset)
    return 1.0 + (amplitude - 1.0) * t / (1.0 - t)


def credit_used(remaining: float, starting: float) -> float | None:
    """Share of a credit balance that is gone, never below 0; None without a starting balance."""
    return max(0.0, 1.0 - remaining / starting) if starting > 0 else None


def per_valid_output(rate: float, success: float, samples: int) -> float:
    """Rate ÷ success rate where at least 100 samples show less than 95 % success; infinite without any."""
    if samples < 100 or success >= 0.95:
        return rate
    return rate / success if success > 0 else math.inf


def target_pressure(used: float, quota: float, left_h: float, burn_per_h: float, elasticity: float) -> float:
    """The factor m in [0.25, 8] at which used + burn·m^(-elasticity)·hours meets the quota; 1 without data."""
    low, high = 0.25, 8.0
    if used >= quota:
        return high
    if burn_per_h <= 0:
        return 1.0

    def total(factor: float) -> float:
        return used + burn_per_h * math.pow(factor, -elasticity) * left_h

    if total(low) <= quota:
        return low
    if total(high) > quota:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if total(middle) > quota else (low, middle)
    return high
