"""What one partition adds to the read model in one transaction."""

from typing import NamedTuple

import msgspec

from tidegate.events.log.port import Record, TopicPartition
from tidegate.projections.rows import Row


class MarkRow(NamedTuple):
    """The highest `seq` taken from a source in a partition; closed at `closed_ns` of the log's clock."""

    topic: str
    partition: int
    source: str
    last_seq: int
    closed_ns: int | None


class Halt(NamedTuple):
    """Why a partition stops: the record at `position` cannot be understood, so nothing after it is taken."""

    where: TopicPartition
    position: int
    reason: str


class Poison(NamedTuple):
    """A record that is no envelope, and what is wrong with it."""

    record: Record
    reason: str


class Part(msgspec.Struct, kw_only=True):
    """Rows by table, the next position, and the marks that changed, of one partition."""

    where: TopicPartition
    position: int
    rows: dict[str, list[Row]] = {}
    marks: list[MarkRow] = []
    forgotten: list[str] = []
    """Sources whose mark has retired."""
    events: int = 0
    duplicates: int = 0
    poison: list[Poison] = []
    halt: Halt | None = None
