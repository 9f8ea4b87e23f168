"""The EventLog port: what every adapter promises, checked by one contract suite.

Offsets of a partition strictly increase and may have gaps: never test `offset + 1`; caught up is
`position >= end`. A position is the next offset to read. Each record carries its append time.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class TopicPartition(NamedTuple):
    """One ordered piece of the log."""

    topic: str
    partition: int


class Record(msgspec.Struct, frozen=True, gc=False):
    """A stored record. `value` None is a tombstone; `append_ns` is the log's own wall time of the append."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    append_ns: int


class Outgoing(NamedTuple):
    """A record to append; the caller has computed the partition (`partition_of(partition_key)`)."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None


class Reader(Protocol):
    """Follows a set of partitions from given positions. Not safe for concurrent use."""

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        """Next records, in offset order within a partition; empty when none came within `timeout_s`.

        Holds no statement or snapshot open after it returns. Raises LogUnavailable, LogCorrupt.
        """
        ...

    def positions(self) -> Mapping[TopicPartition, int]:
        """Next offset per partition, gaps (transaction markers, compaction) already skipped."""
        ...

    def seek(self, where: TopicPartition, position: int) -> None:
        """Continue `where` from `position`."""
        ...

    async def close(self) -> None:
        """Release what the reader holds."""
        ...


class Writer(Protocol):
    """A transactional writer. Opening a second one with the same id fences this one for good."""

    async def positions(self) -> Mapping[TopicPartition, int]:
        """Positions stored by the last commit under this id (of this or an earlier writer)."""
        ...

    async def commit(
        self, records: Sequence[Outgoing], positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Append all records and store the positions, atomically; readers see all or none.

        Raises Fenced (a younger writer exists), LogUnavailable (nothing took effect), AckUnknown (open a new
        writer and ask it for `positions()`: the truth is there).
        """
        ...

    async def close(self) -> None:
        """Release what the writer holds; nothing is committed."""
        ...


class EventLog(Protocol):
    """The shared log. A process opens it for the roles it writes; reading is free to all."""

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Append a batch; returns when every record is acknowledged. Order per partition is kept.

        Raises LogUnavailable (nothing appended), AckUnknown (some may be: rewind; readers drop by seq).
        """
        ...

    def reader(self, start: Mapping[TopicPartition, int]) -> Reader:
        """A reader over the given partitions, from the given positions (0 = the oldest kept)."""
        ...

    async def begin(self, where: TopicPartition) -> int:
        """Oldest offset still kept."""
        ...

    async def end(self, where: TopicPartition) -> int:
        """Position after the last committed record; `reader.position >= end` means caught up."""
        ...

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        """Newest record per key of a topic that keeps latest, tombstoned keys left out, and the history
        positions from which following it misses nothing (for a LATEST-only topic: its ends)."""
        ...

    async def writer(self, transactional_id: str) -> Writer:
        """Open a transactional writer; fences and aborts the predecessor with this id."""
        ...

    async def close(self) -> None:
        """Close everything; unacknowledged appends raise AckUnknown in their callers."""
        ...
