"""Named time zones of a config as offsets from UTC: what decides by the hour then does so alike on every machine."""

from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tidegate.events.config import Peak, Pool, Settings, Window
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import BAD, Mistake

_Part = TypeVar("_Part")

FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2044, 1, 1, tzinfo=UTC)
"""Clocks that change are known between these; before and after, the nearest offset holds."""
_WEEK, _MINUTE = timedelta(days=7), timedelta(minutes=1)


def offsets_of(name: str) -> tuple[tuple[int, int], ...]:
    """From when (ns) a zone is how many seconds ahead of UTC; none for UTC.

    Raises ZoneInfoNotFoundError, ValueError and OSError for what names no zone.
    """
    zone = ZoneInfo(name)
    found = [(0, _offset_s(zone, FIRST))]
    at = FIRST
    while at < LAST:
        after = at + _WEEK
        if _offset_s(zone, after) != _offset_s(zone, at):
            change = _change(zone, at, after)
            found.append((int(change.timestamp()) * 10**9, _offset_s(zone, change)))
        at = after
    return () if found == [(0, 0)] else tuple(found)


def with_offsets(settings: Settings, mistakes: list[Mistake]) -> Settings:
    """The settings with the offsets of every peak's zone; a zone that is not known is a mistake."""
    pools: list[Pool] = []
    for at, pool in enumerate(settings.pools):
        windows: list[Window] = []
        for place, window in enumerate(_read(pool.windows)):
            path: Path = ("pools", at, "windows", place, "peaks")
            peaks = tuple(
                _with_offsets((*path, number), peak, mistakes)
                for number, peak in enumerate(_read(window.peaks))
            )
            windows.append(window if not peaks else msgspec.structs.replace(window, peaks=peaks))
        pools.append(pool if not windows else msgspec.structs.replace(pool, windows=tuple(windows)))
    return msgspec.structs.replace(settings, pools=tuple(pools))


def _with_offsets(path: Path, peak: Peak, mistakes: list[Mistake]) -> Peak:
    offsets: tuple[tuple[int, int], ...] = ()
    try:
        if peak.timezone is not BAD:
            offsets = offsets_of(peak.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        mistakes.append(Mistake((*path, "timezone"), f"there is no time zone `{peak.timezone}`"))
    if _read(peak.offsets):
        mistakes.append(Mistake((*path, "offsets"), "follow from `timezone`: leave them out"))
    return peak if peak is BAD else msgspec.structs.replace(peak, offsets=offsets)


def _read(parts: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """Parts of the config; none where they could not be read."""
    return () if parts is BAD else parts


def _offset_s(zone: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first minute with the offset of `after`; at most one change lies between."""
    old = _offset_s(zone, before)
    while after - before > _MINUTE:
        middle = before + (after - before) // 2
        middle = middle.replace(second=0, microsecond=0)
        before, after = (middle, after) if _offset_s(zone, middle) == old else (before, middle)
    return after
