"""Providers' rate-limit headers → what is left of each limit, in one form for both dialects. Pure."""

import re
from collections.abc import Iterable

import msgspec

from tidegate.gateway import timing
from tidegate.gateway.outbound.framing import Header
from tidegate.gateway.usage import MAX_COUNT

_OPENAI = b"x-ratelimit-"
_ANTHROPIC = b"anthropic-ratelimit-"
_OPENAI_NAME = re.compile(rb"(limit|remaining|reset)-([a-z][a-z-]{0,31})")
_ANTHROPIC_NAME = re.compile(rb"([a-z0-9][a-z0-9-]{0,31})-(limit|remaining|reset)")
_UTILIZATION = re.compile(rb"unified-([a-z0-9-]{1,32})-utilization")
_SHARE_UNITS = 10_000


class Limit(msgspec.Struct, frozen=True):
    """One limit as its provider states it; None where it did not say."""

    scope: str
    """`requests`, `tokens`, `input-tokens`, … or `unified-<window>` in ten-thousandths of a window."""
    limit: int | None = None
    remaining: int | None = None
    resets_at_ns: int | None = None


def limits_of(headers: Iterable[Header], now_ns: int) -> list[Limit]:
    """Every limit that the response head names, in order of scope. Names must be lower-case."""
    found: dict[str, dict[str, int | None]] = {}
    for name, value in headers:
        if name.startswith(_OPENAI):
            match = _OPENAI_NAME.fullmatch(name, len(_OPENAI))
            field, scope = (match[1], match[2]) if match else (b"", b"")
        elif name.startswith(_ANTHROPIC):
            match = _ANTHROPIC_NAME.fullmatch(name, len(_ANTHROPIC))
            field, scope = (match[2], match[1]) if match else (b"", b"")
            share = _UTILIZATION.fullmatch(name, len(_ANTHROPIC))
            if share is not None:
                _take_share(found.setdefault(f"unified-{share[1].decode()}", {}), value)
        else:
            continue
        if field:
            said = found.setdefault(scope.decode(), {})
            said[field.decode()] = _instant(value, now_ns) if field == b"reset" else _count(value)
    return [
        Limit(scope, said.get("limit"), said.get("remaining"), said.get("reset"))
        for scope, said in sorted(found.items())
        if any(part is not None for part in said.values())
    ]


def _take_share(said: dict[str, int | None], value: bytes) -> None:
    """A used share of a window, 0 to 1: its limit is a whole window."""
    try:
        used = float(value)
    except ValueError:
        return
    if 0.0 <= used < 1e6:
        said["limit"] = _SHARE_UNITS
        said["remaining"] = max(0, _SHARE_UNITS - round(used * _SHARE_UNITS))


def _count(value: bytes) -> int | None:
    return int(value) if value.isdigit() and len(value) <= 10 and int(value) <= MAX_COUNT else None


def _instant(value: bytes, now_ns: int) -> int | None:
    """A duration, an ISO 8601 instant, or seconds since the epoch."""
    text = value.decode("latin-1")
    if text.isdecimal() and text.isascii() and len(text) <= 10:
        at_ns = int(text) * 1_000_000_000
        return at_ns if now_ns < at_ns <= now_ns + timing.MAX_AHEAD_NS else None
    return timing.reset_at_ns(text, now_ns)
