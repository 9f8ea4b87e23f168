"""Time-ordered UUIDs (layout of RFC 9562, version 7) from an injected clock and random source."""

import hashlib
from collections.abc import Callable

from tidegate.events.clock import Clock
from tidegate.events.types import AttemptId, EventId, SourceId

_RANDOM_BITS = 62
_VARIANT = 0b10 << _RANDOM_BITS
_DRAWS = 64
_MS = 1_000_000
"""Nanoseconds."""
_COUNTS = tuple(f"{count:03x}-" for count in range(1 << 12))


def format_uuid(value: int) -> str:
    """Canonical text of a 128-bit integer."""
    return _hyphened(f"{value:032x}")


def _hyphened(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class IdSource:
    """Makes ids that sort by creation, also within a millisecond and when the wall clock goes back.

    The 12 bits after the version count within a millisecond; when they overflow the time part runs ahead.
    The 62 random bits are drawn once per millisecond of the time part: time and count already tell the ids of
    one source apart, the random bits those of two. `random_bits(n)` gives n random bits; it is asked for many
    milliseconds' worth at once.
    """

    __slots__ = ("_bits", "_counts", "_drawn", "_left", "_ms", "_prefix", "_tail", "_until_ns", "_wall_ns")

    def __init__(self, clock: Clock, random_bits: Callable[[int], int]) -> None:
        self._wall_ns = clock.wall_ns
        self._bits = random_bits
        self._ms = -1
        self._until_ns = 0
        """Where the next millisecond begins."""
        self._counts = iter(_COUNTS)
        self._drawn = self._left = 0
        self._prefix = self._tail = ""

    def next(self) -> str:
        """A new id, greater than every earlier one of this source."""
        return self.next_at(self._wall_ns())

    def next_at(self, now_ns: int) -> str:
        """As `next`, for a caller that has just read the wall clock itself."""
        if now_ns >= self._until_ns:
            self._enter(now_ns // _MS)
        count = next(self._counts, None)
        if count is None:
            self._enter(self._ms + 1)
            count = next(self._counts)
        return self._prefix + count + self._tail

    def _enter(self, at_ms: int) -> None:
        if not self._left:
            self._drawn, self._left = self._bits(_RANDOM_BITS * _DRAWS), _DRAWS
        bits = self._drawn & (1 << _RANDOM_BITS) - 1
        self._drawn >>= _RANDOM_BITS
        self._left -= 1
        time, random = f"{at_ms:012x}", f"{bits | _VARIANT:016x}"
        self._ms, self._until_ns, self._counts = at_ms, (at_ms + 1) * _MS, iter(_COUNTS)
        self._prefix, self._tail = f"{time[:8]}-{time[8:]}-7", f"{random[:4]}-{random[4:]}"

    def source(self, slot: str) -> SourceId:
        """Name of one process lifetime of one writer: slot + an id new at every start."""
        return SourceId(f"{slot}@{self.next()}")


def settlement_id(attempt: AttemptId) -> EventId:
    """Id of the one settlement an attempt can have: derived, so that a second one is the same event."""
    return EventId(
        _hyphened(hashlib.blake2b(attempt.encode(), digest_size=16, person=b"settlement").hexdigest())
    )


def source_closed_id(source: str, topic: int, partition: int) -> EventId:
    """Id of the SourceClosed record of one partition: the same however often the relay writes it."""
    digest = hashlib.blake2b(
        f"{source}/{topic}/{partition}".encode(), digest_size=16, person=b"source-closed"
    ).digest()
    return EventId(format_uuid(int.from_bytes(digest, "big")))
