"""The seed's runtime projection of a window in percent: what really fed its locks, linear extrapolation in effect.

Kept as it was but for one repair: a projection that carries a note is still a projection.
"""

from collections.abc import Sequence
from typing import NamedTuple

MIN_BUCKETS = 5
LOCK_PERCENT = 100.0


class Projection(NamedTuple):
    """Percentage points still to come, the sum, whether that reaches 100, and when (hours from now)."""

    projected: float
    total: float
    will_exhaust: bool
    exhausts_in_h: float | None
    note: str | None


def mean_rate(buckets: Sequence[float]) -> float | None:
    """Units per hour: the mean of the hours with traffic, which is all its filter could learn; None below five."""
    return sum(buckets) / len(buckets) if len(buckets) >= MIN_BUCKETS else None


def project(
    used_percent: float,
    window_h: float,
    left_h: float,
    rate_per_h: float | None,
    velocity: float = 0.0,
) -> Projection:
    """The window as projected to its reset; `velocity` is the change of the rate per hour.

    Whole hours count only, as in the seed: in the last hour nothing is projected. Without a rate nothing is.
    """
    if rate_per_h is None:
        return Projection(0.0, used_percent, False, None, f"under {MIN_BUCKETS} hours of history")
    elapsed_h = window_h - max(0.0, left_h)
    share = used_percent / 100.0
    capacity = rate_per_h * elapsed_h / share if share > 0 else rate_per_h * window_h
    if capacity <= 0:
        return Projection(0.0, used_percent, used_percent >= LOCK_PERCENT, None, "no use to go by")
    hours = int(max(0.0, left_h))
    tokens = max(0.0, hours * rate_per_h + velocity * hours * (hours + 1) / 2)
    projected = tokens / capacity * 100.0
    flow = rate_per_h + max(0.0, velocity) * hours / 2
    exhausts_in_h = capacity * (1.0 - share) / flow if flow > 0 else None
    ahead = used_percent - elapsed_h / window_h * 100.0
    note = f"{abs(ahead):.1f} points {'over' if ahead > 0 else 'under'} budget"
    total = used_percent + projected
    return Projection(projected, total, total >= LOCK_PERCENT, exhausts_in_h, note)
