"""One role's SQLite file as others read it: short statements on a read-only connection.

No statement outlives a call: an open cursor would keep the WAL from shrinking.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import apsw

from tidegate.events.clock import Clock
from tidegate.events.errors import LogCorrupt
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.log.sqlite_files import naming, number_rows, open_reading, translated
from tidegate.events.log.sqlite_rows import COUNT_SLOT, SLOTS, Row, offset_at, place, to_records

_SLICE_RECORDS = 500
_STEP_RECORDS = 16
_SLICE_BYTES = 1 << 20
_SLICE_NS = 50_000_000

_SELECT = (
    "SELECT place, key, value, append_ns, crc FROM records WHERE place >= ? AND place < ? ORDER BY place"
)
_SELECT_LATEST = (
    "SELECT place, key, value, append_ns, crc FROM latest WHERE place >= ? AND place < ? ORDER BY place"
)
_SELECT_ENDS = "SELECT slot, begin, next, crc FROM ends"
_FIRST_LATEST = "SELECT place FROM latest WHERE place >= ? AND place < ? ORDER BY place LIMIT 1"


Span = tuple[int, int]
"""Offsets of a partition that can be read: from the first to before the second."""

NOTHING: Span = (0, 0)


class RoleFileView:
    """Read-only view of one role's file, which may not exist yet. Each call is one short statement."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._connection: apsw.Connection | None = None

    def version(self) -> int | None:
        """A number that changes when someone commits; None while there is no file."""
        with self._reading() as connection:
            if connection is None:
                return None
            return int(connection.execute("PRAGMA data_version").get)

    def spans(self) -> dict[int, Span]:
        """What can be read of each partition that was ever written, by its number in `SLOTS`."""
        with self._reading() as connection:
            if connection is None:
                return {}
            rows = number_rows(connection, self.path, _SELECT_ENDS)
        spans = {slot: (begin, end) for slot, begin, end in rows}
        count, _ = spans.pop(COUNT_SLOT, (-1, 0))
        if count != len(spans):
            raise LogCorrupt(f"{self.path}: damaged (ends of partitions are missing); it was left untouched")
        return spans

    def span(self, where: TopicPartition) -> Span:
        """What can be read of one partition."""
        return self.spans().get(SLOTS[where], NOTHING)

    def history(self, where: TopicPartition, position: int, limit: int) -> list[Record]:
        """At most `limit` records from `position`: fewer when they are large or the disk is slow."""
        return self._slice(_SELECT, where, position, limit)

    def latest(self, where: TopicPartition, position: int, limit: int) -> list[Record]:
        """Newest records per key with an offset ≥ `position`, tombstones included."""
        return self._slice(_SELECT_LATEST, where, position, limit)

    def first_latest(self, where: TopicPartition) -> int | None:
        """Lowest offset among the newest records per key."""
        slot = SLOTS[where]
        with self._reading() as connection:
            if connection is None:
                return None
            row_place = connection.execute(_FIRST_LATEST, (place(slot, 0), place(slot + 1, 0))).get
            return None if row_place is None else offset_at(row_place)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None

    @contextmanager
    def _reading(self) -> Generator[apsw.Connection | None]:
        try:
            with naming(self.path):
                if self._connection is None:
                    self._connection = open_reading(self.path)
                yield self._connection
        except (ValueError, TypeError, OverflowError) as error:
            raise translated(error, self.path) from error

    def _slice(self, select: str, where: TopicPartition, position: int, limit: int) -> list[Record]:
        slot = SLOTS[where]
        rows: list[Row] = []
        size, ends_ns = 0, self._clock.mono_ns() + _SLICE_NS
        with self._reading() as connection:
            if connection is None:
                return []
            cursor = connection.execute(select, (place(slot, position), place(slot + 1, 0)))
            try:
                while step := list(islice(cursor, min(_STEP_RECORDS, limit - len(rows)))):
                    rows += step
                    size += sum([len(row[2] or b"") for row in step])
                    if size > _SLICE_BYTES or self._clock.mono_ns() > ends_ns:
                        break
            finally:
                cursor.close(True)
            return to_records(where, rows)
