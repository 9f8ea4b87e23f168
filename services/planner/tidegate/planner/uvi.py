"""What the utilization velocity index of a pool does to its targets, where a route lets it: order or refuse. Pure.

The index is shown everywhere and decides nothing by itself: see `estimator.uvi` for how a status comes about.
"""

from collections.abc import Sequence

import msgspec

from tidegate.events.config import Pool, UviBlocks
from tidegate.events.snapshots import UviStatus, WindowBelief

PROMOTED, USUAL, DEMOTED, LAST = range(4)
"""Buckets, best first: in surplus, on schedule or unknown, stressed, critical or used up."""

_SEVERITY: dict[UviStatus, int] = {
    "surplus": 0,
    "unknown": 1,
    "ok": 1,
    "stressed": 2,
    "critical": 3,
    "exhausted": 3,
}
_BLOCKED_FROM: dict[UviBlocks, int] = {"stressed": 2, "critical": 3}
_NEVER = 1 << 62


class PoolUvi(msgspec.Struct, frozen=True, gc=False):
    """The bucket of a pool by its worst window, and whether the route refuses it. Each ends with its windows."""

    bucket: int
    until_ns: int
    """From then on as usual: the windows that made the bucket have begun anew."""
    blocked_by: str | None = None
    """The window that refuses it, with its status."""
    blocked_until_ns: int | None = None
    """When all windows that refuse it have begun anew; None where one of them rolls."""


def pool_uvi(pool: Pool, beliefs: Sequence[WindowBelief], blocks: UviBlocks | None) -> PoolUvi | None:
    """Of the windows that the pool has, the worst counts; surplus only where all are. None without windows."""
    declared = {window.id for window in pool.windows}
    known = [(_SEVERITY[each.status], _end_ns(each), each) for each in beliefs if each.window in declared]
    if not known:
        return None
    worst = max(severity for severity, _, _ in known)
    ends = [end_ns for severity, end_ns, _ in known if severity == worst]
    until_ns = min(ends) if worst < DEMOTED else max(ends)
    if blocks is None or worst < _BLOCKED_FROM[blocks]:
        return PoolUvi(worst, until_ns)
    refusing = [each for each in known if each[0] >= _BLOCKED_FROM[blocks]]
    first, end_ns = refusing[0][2], max(end_ns for _, end_ns, _ in refusing)
    index = "" if first.uvi is None else f" at {first.uvi:.2f}"
    return PoolUvi(
        worst,
        until_ns,
        f"window {first.window} is {first.status}{index}",
        None if end_ns == _NEVER else end_ns,
    )


def bucket_of(uvi: PoolUvi | None, now_ns: int) -> int:
    """The bucket in force."""
    return USUAL if uvi is None or now_ns >= uvi.until_ns else uvi.bucket


def _end_ns(belief: WindowBelief) -> int:
    return _NEVER if belief.resets_at_ns is None else belief.resets_at_ns
