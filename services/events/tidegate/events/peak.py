"""Peak hours of quota windows: how often a unit counts at a moment, and until when. Integer arithmetic only. Pure."""

from collections.abc import Sequence

from tidegate.events.config import Peak
from tidegate.events.decision import NO_PEAK

_MINUTE_NS = 60 * 10**9
_DAY_MINUTES = 24 * 60
_DAY_NS = _DAY_MINUTES * _MINUTE_NS
_FIRST_WEEKDAY = 3
"""1970-01-01 was a Thursday; 0 is Monday."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NEVER_NS = 1 << 62


def peak_at(peaks: Sequence[Peak], at_ns: int) -> float:
    """How often a unit counts at `at_ns`: the weight of the first peak that holds, 1 where none does."""
    for peak in peaks:
        if _holds(peak, at_ns):
            return peak.weight
    return NO_PEAK


def peak_until_ns(peaks: Sequence[Peak], at_ns: int) -> int:
    """The first moment after `at_ns` at which that may change: peak hours begin or end, or clocks change."""
    found = NEVER_NS
    for peak in peaks:
        offset_ns, until_ns = _offset(peak, at_ns)
        midnight_ns = at_ns - (at_ns + offset_ns) % _DAY_NS
        for minutes in (_minutes(peak.begin), _minutes(peak.end)):
            next_ns = midnight_ns + minutes * _MINUTE_NS
            found = min(found, next_ns if next_ns > at_ns else next_ns + _DAY_NS)
        found = min(found, until_ns)
    return found


def peak_steps(peaks: Sequence[Peak], from_ns: int, to_ns: int) -> list[tuple[int, float]]:
    """The weights in [from, to): until when (ns) each holds, in order; the last one until `to_ns`."""
    steps: list[tuple[int, float]] = []
    while from_ns < to_ns:
        until_ns = min(peak_until_ns(peaks, from_ns), to_ns)
        steps.append((until_ns, peak_at(peaks, from_ns)))
        from_ns = until_ns
    return steps


def _holds(peak: Peak, at_ns: int) -> bool:
    day, minute = divmod((at_ns + _offset(peak, at_ns)[0]) // _MINUTE_NS, _DAY_MINUTES)
    begin, end = _minutes(peak.begin), _minutes(peak.end)
    if begin < end:
        return begin <= minute < end and _on(peak, day)
    return (minute >= begin and _on(peak, day)) or (minute < end and _on(peak, day - 1))


def _on(peak: Peak, day: int) -> bool:
    return not peak.days or DAYS[(day + _FIRST_WEEKDAY) % 7] in peak.days


def _offset(peak: Peak, at_ns: int) -> tuple[int, int]:
    """What local time is ahead of UTC at a moment, ns, and until when."""
    offset_ns = 0
    for from_ns, offset_s in peak.offsets:
        if from_ns > at_ns:
            return offset_ns, from_ns
        offset_ns = offset_s * 10**9
    return offset_ns, NEVER_NS


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])
