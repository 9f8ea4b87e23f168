"""Time of day: two-hour knots on a circle, their weights at a moment, and the hours an interval spends in each."""

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray

KNOTS = 12
DAY_MS = 86_400_000.0
KNOT_MS = DAY_MS / KNOTS
HOUR_MS = 3_600_000.0


def knots_at(at_ms: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """The two knots around a moment and the weight of the second; weights are linear and sum to one."""
    place = np.mod(at_ms, DAY_MS) / KNOT_MS - 0.5
    low = np.floor(place)
    first = np.mod(low, KNOTS).astype(np.int64)
    return first, (first + 1) % KNOTS, place - low


def knot_at(at_ms: FloatArray) -> IntArray:
    """The knot whose two hours contain a moment (UTC)."""
    return np.minimum(np.floor(np.mod(at_ms, DAY_MS) / KNOT_MS), KNOTS - 1).astype(np.int64)


def hours_in_knots(from_ms: FloatArray, to_ms: FloatArray) -> FloatArray:
    """Hours that [from, to) spends in each knot, shape (KNOTS, n): exact for any gap, also of many days."""
    return (_hours_before(to_ms) - _hours_before(from_ms)) / HOUR_MS


def _hours_before(at_ms: FloatArray) -> FloatArray:
    days = np.floor(at_ms / DAY_MS)
    inside = at_ms - days * DAY_MS
    starts = (np.arange(KNOTS, dtype=np.float64) * KNOT_MS)[:, None]
    return days[None, :] * KNOT_MS + np.clip(inside[None, :] - starts, 0.0, KNOT_MS)
