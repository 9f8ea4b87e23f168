"""Time-ordered UUIDs (layout of RFC 9562, version 7) from an injected clock and random source."""

import hashlib
from collections.abc import Callable

from tidegate.events.clock import Clock
from tidegate.events.types import AttemptId, EventId, SourceId

_TAIL_BITS = 64
_TAIL_CHARS = _TAIL_BITS // 4
_TAILS = 64
# The same two bits of every tail are the variant, 0b10; for all tails of a refill at once.
_ONE_PER_TAIL = sum(1 << (_TAIL_BITS * tail) for tail in range(_TAILS))
_RANDOM_BITS = _ONE_PER_TAIL * ((1 << 62) - 1)
_VARIANTS = _ONE_PER_TAIL * (0x2 << 62)
_COUNTS = tuple(f"{count:03x}-" for count in range(1 << 12))


def format_uuid(value: int) -> str:
    """Canonical text of a 128-bit integer."""
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class IdSource:
    """Makes ids that sort by creation, also within a millisecond and when the wall clock goes back.

    The 12 bits after the version count within a millisecond; when they overflow the time part runs ahead.
    `random_bits(n)` gives n random bits; it is asked for many ids' worth at once.
    """

    __slots__ = ("_bits", "_prefix", "_prefix_ms", "_tails", "_tick", "_wall_ns")

    def __init__(self, clock: Clock, random_bits: Callable[[int], int]) -> None:
        self._wall_ns = clock.wall_ns
        self._bits = random_bits
        self._tick = 0
        self._prefix_ms = -1
        self._prefix = ""
        self._tails: list[str] = []

    def next(self) -> str:
        """A new id, greater than every earlier one of this source."""
        return self.next_at(self._wall_ns())

    def next_at(self, now_ns: int) -> str:
        """As `next`, for a caller that has just read the wall clock itself."""
        tick = (now_ns // 1_000_000) << 12
        if tick <= self._tick:
            tick = self._tick + 1
        self._tick = tick
        if not self._tails:
            self._tails = self._refill()
        at_ms = tick >> 12
        if at_ms != self._prefix_ms:
            text = f"{at_ms:012x}"
            self._prefix_ms, self._prefix = at_ms, f"{text[:8]}-{text[8:]}-7"
        return self._prefix + _COUNTS[tick & 0xFFF] + self._tails.pop()

    def _refill(self) -> list[str]:
        bits = self._bits(_TAIL_BITS * _TAILS) & _RANDOM_BITS | _VARIANTS
        text = f"{bits:x}"  # never shorter: the first tail's variant has the highest bit set
        return [
            f"{text[at : at + 4]}-{text[at + 4 : at + _TAIL_CHARS]}"
            for at in range(0, len(text), _TAIL_CHARS)
        ]

    def source(self, slot: str) -> SourceId:
        """Name of one process lifetime of one writer: slot + an id new at every start."""
        return SourceId(f"{slot}@{self.next()}")


def settlement_id(attempt: AttemptId) -> EventId:
    """Id of the one settlement an attempt can have: derived, so that a second one is the same event."""
    digest = hashlib.blake2b(attempt.encode(), digest_size=16, person=b"settlement").digest()
    return EventId(format_uuid(int.from_bytes(digest, "big")))


def source_closed_id(source: str, topic: int, partition: int) -> EventId:
    """Id of the SourceClosed record of one partition: the same however often the relay writes it."""
    digest = hashlib.blake2b(
        f"{source}/{topic}/{partition}".encode(), digest_size=16, person=b"source-closed"
    ).digest()
    return EventId(format_uuid(int.from_bytes(digest, "big")))
