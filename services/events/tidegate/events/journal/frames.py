"""Frames: how the events of one flush lie in a journal row, so that the relay parses no JSON."""

import struct
from collections.abc import Iterator

import msgspec

from tidegate.events.errors import JournalCorrupt

_HEADER = struct.Struct("<BBBBHI")
HEADER_BYTES = _HEADER.size

PLAIN = 0
STARTED = 1
SETTLED = 2
CARRIED = 3
"""Again the start of an attempt that is still open, from a row that may be gone: no event, it has no seq here."""
OPENING = frozenset({STARTED, CARRIED})


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event: `flag` tells attempts that open and close without decoding the value."""

    topic: int
    partition: int
    flag: int
    key: bytes
    value: bytes


def pack(topic: int, partition: int, flag: int, key: bytes, value: bytes) -> bytes:
    """One frame. Layout: topic, partition, flag, 0 (a byte each), key length u16, value length u32, both."""
    return _HEADER.pack(topic, partition, flag, 0, len(key), len(value)) + key + value


def unpack(blob: bytes) -> Iterator[Frame]:
    """The frames of a row. Raises JournalCorrupt when the lengths do not add up."""
    at, size = 0, len(blob)
    while at < size:
        if at + HEADER_BYTES > size:
            raise JournalCorrupt(f"frame header cut at byte {at} of {size}")
        topic, partition, flag, _, key_len, value_len = _HEADER.unpack_from(blob, at)
        start = at + HEADER_BYTES
        at = start + key_len + value_len
        if at > size:
            raise JournalCorrupt(f"frame at byte {start - HEADER_BYTES} ends {at - size} bytes past its row")
        yield Frame(topic, partition, flag, blob[start : start + key_len], blob[start + key_len : at])
