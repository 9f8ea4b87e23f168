"""How a record lies in a SQLite file: one integer for its place, a checksum over all of it.

SQLite has no checksum of its own on pages, so a flipped bit in a value would be read as a fact.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from zlib import crc32

from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.topics import INDEX, TOPICS

_OFFSET_BITS = 40
_PARTITION_BITS = 8
MAX_OFFSET = (1 << _OFFSET_BITS) - 1
_MASK_32 = 0xFFFFFFFF
_PAIR, _TRIPLE = Struct("<2q"), Struct("<3q")

Row = tuple[int, bytes, bytes | None, int, int]
"""place, key, value, append_ns, checksum."""

SLOTS: Mapping[tuple[str, int], int] = {
    TopicPartition(topic.name, partition): INDEX[topic.name] << _PARTITION_BITS | partition
    for topic in TOPICS
    for partition in range(topic.partitions)
}
"""Number of each partition; fixed, because topics are only ever added at the end."""

PLACES: Mapping[int, TopicPartition] = {slot: TopicPartition(*where) for where, slot in SLOTS.items()}
"""Partition of each number."""


COUNT_SLOT = -1
"""Number of the row among the ends that counts the others: a lost row would read as an empty partition."""


def place(slot: int, offset: int) -> int:
    """Key of a row: rows of one partition lie together, in offset order."""
    return slot << _OFFSET_BITS | offset


def offset_at(row_place: int) -> int:
    """Offset of the row at a place."""
    return row_place & MAX_OFFSET


def number_checksum(*numbers: int) -> int:
    """Checksum of two or three integers. Raises struct.error for anything else."""
    return crc32((_PAIR if len(numbers) == 2 else _TRIPLE).pack(*numbers))


def _checksum(row_place: int, key: bytes, value: bytes | None, append_ns: int) -> int:
    mixed = row_place ^ (row_place >> 32) ^ append_ns ^ (append_ns >> 32)
    check = crc32(key, mixed & _MASK_32)
    return check ^ _MASK_32 if value is None else crc32(value, check)


def to_row(slot: int, offset: int, key: bytes, value: bytes | None, append_ns: int) -> Row:
    """The row of a record."""
    row_place = place(slot, offset)
    return row_place, key, value, append_ns, _checksum(row_place, key, value, append_ns)


def to_records(where: TopicPartition, rows: Iterable[Row]) -> list[Record]:
    """The records of rows. Raises ValueError or TypeError when a row is not what was written."""
    topic, partition = where
    records: list[Record] = []
    for row_place, key, value, append_ns, check in rows:
        # As `_checksum`, written out: this is a good part of what reading a record costs.
        found = crc32(key, (row_place ^ (row_place >> 32) ^ append_ns ^ (append_ns >> 32)) & _MASK_32)
        found = found ^ _MASK_32 if value is None else crc32(value, found)
        if found != check:
            raise ValueError("checksum mismatch")
        records.append(Record(topic, partition, row_place & MAX_OFFSET, key, value, append_ns))
    return records
