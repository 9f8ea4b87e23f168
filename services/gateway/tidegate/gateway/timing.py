"""When a provider says to come back: seconds, dates, durations and resets, each from a named place. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_NS = 1_000_000_000
MAX_AHEAD_NS = 32 * 86_400 * _NS
"""Instants further ahead than 32 days are not believed."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def retry_after_ms(headers: Mapping[str, str], now_ns: int) -> int | None:
    """`retry-after-ms`, or `retry-after` as seconds or HTTP date; None when absent, past or absurd."""
    text = headers.get("retry-after-ms")
    if text is not None:
        return _bounded_ms(_number(text))
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return _bounded_ms(seconds * 1_000)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return _bounded_ms((when.timestamp() * _NS - now_ns) / 1_000_000)


def reset_at_ns(text: str | None, now_ns: int) -> int | None:
    """An instant in ISO 8601 or a duration such as `6m0s`; None when absent, past or over 32 days ahead."""
    if not text:
        return None
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text.strip():
        ahead_ms = sum(float(number) * _DURATION_MS[unit] for number, unit in parts)
        if ahead_ms * 1_000_000 > MAX_AHEAD_NS:
            return None
        return _believable(now_ns + int(ahead_ms * 1_000_000), now_ns)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return _believable(int(when.timestamp() * _NS), now_ns)


_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def reset_in_message(message: str, now_ns: int) -> int | None:
    """The first full ISO instant in a provider's own error text that lies ahead."""
    for text in _ISO.findall(message):
        found = reset_at_ns(text, now_ns)
        if found is not None:
            return found
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _bounded_ms(value: float | None) -> int | None:
    if value is None or value < 0 or value * 1_000_000 > MAX_AHEAD_NS:
        return None
    return int(value)


def _believable(instant_ns: int, now_ns: int) -> int | None:
    return instant_ns if now_ns < instant_ns <= now_ns + MAX_AHEAD_NS else None
