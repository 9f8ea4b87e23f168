"""Providers' rate-limit headers → what is left of each limit, in one form; and back, in either dialect. Pure."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from tidegate.events.types import Dialect
from tidegate.gateway import timing
from tidegate.gateway.outbound.framing import Header
from tidegate.gateway.usage import MAX_COUNT

_OPENAI = b"x-ratelimit-"
_ANTHROPIC = b"anthropic-ratelimit-"
_OPENAI_NAME = re.compile(rb"(limit|remaining|reset)-([a-z][a-z-]{0,31})")
_ANTHROPIC_NAME = re.compile(rb"([a-z0-9][a-z0-9-]{0,31})-(limit|remaining|reset)")
_UTILIZATION = re.compile(rb"unified-([a-z0-9-]{1,32})-utilization")
_CODEX = b"x-codex-"
_CODEX_NAME = re.compile(rb"(primary|secondary)-(used-percent|reset-at|reset-after-seconds)")
_SHARE_UNITS = 10_000
_NS = 1_000_000_000


class Limit(msgspec.Struct, frozen=True):
    """One limit as its provider states it; None where it did not say."""

    scope: str
    """`requests`, `tokens`, `input-tokens`, … or `unified-<window>` and `codex-<window>` in ten-thousandths of one."""
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
                _take_share(found.setdefault(f"unified-{share[1].decode()}", {}), value, 1.0)
        elif name.startswith(_CODEX):
            match = _CODEX_NAME.fullmatch(name, len(_CODEX))
            if match:
                _take_codex(found.setdefault(f"codex-{match[1].decode()}", {}), match[2], value, now_ns)
            continue
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


def told(limits: Iterable[Limit], dialect: Dialect, now_ns: int) -> Iterator[Header]:
    """The headers in which a dialect's clients look for these limits; shares of a window have none."""
    for limit in limits:
        if limit.scope.startswith(("unified-", "codex-")):
            continue
        scope = limit.scope.encode()
        fields: list[tuple[bytes, bytes]] = []
        if limit.limit is not None:
            fields.append((b"limit", b"%d" % limit.limit))
        if limit.remaining is not None:
            fields.append((b"remaining", b"%d" % limit.remaining))
        if limit.resets_at_ns is not None:
            spell = _as_instant if dialect == "anthropic" else _as_duration
            fields.append((b"reset", spell(limit.resets_at_ns, now_ns)))
        for field, value in fields:
            if dialect == "anthropic":
                yield b"%b%b-%b" % (_ANTHROPIC, scope, field), value
            else:
                yield b"%b%b-%b" % (_OPENAI, field, scope), value


def _as_instant(at_ns: int, now_ns: int) -> bytes:
    """Whole seconds in RFC 3339, rounded up: never before the reset."""
    return datetime.fromtimestamp(-(-at_ns // _NS), UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _as_duration(at_ns: int, now_ns: int) -> bytes:
    """`6m0s`, below a second `20ms`; rounded up."""
    ahead_ms = max(0, -(-(at_ns - now_ns) // 1_000_000))
    if ahead_ms < 1_000:
        return b"%dms" % ahead_ms
    minutes, seconds = divmod(-(-ahead_ms // 1_000), 60)
    return b"%dm%ds" % (minutes, seconds) if minutes else b"%ds" % seconds


def _take_codex(said: dict[str, int | None], field: bytes, value: bytes, now_ns: int) -> None:
    if field == b"used-percent":
        _take_share(said, value, 100.0)
    elif field == b"reset-at":
        said["reset"] = _instant(value, now_ns)
    else:
        ahead_s = _count(value)
        if ahead_s and ahead_s * _NS <= timing.MAX_AHEAD_NS:
            said.setdefault("reset", now_ns + ahead_s * _NS)


def _take_share(said: dict[str, int | None], value: bytes, whole: float) -> None:
    """What is used of a window, `whole` being all of it: its limit is a whole window."""
    try:
        used = float(value) / whole
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
