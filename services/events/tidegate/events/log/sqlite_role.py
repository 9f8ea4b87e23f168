"""The file of one writing role: every write is one synced transaction, run in the file's own thread."""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from tidegate.events.clock import Clock
from tidegate.events.errors import AckUnknown, Fenced, LogUnavailable
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.log.sqlite_files import (
    bound_wal,
    has_large_wal,
    is_failed_sync,
    naming,
    number_rows,
    open_writing,
)
from tidegate.events.log.sqlite_rows import COUNT_SLOT, PLACES, SLOTS, Row, number_checksum, place, to_row
from tidegate.events.topics import TOPICS

T = TypeVar("T")

_DELETE_STEP = 5_000
_KEEPS = {topic.name: (topic.keeps_history, topic.keeps_latest) for topic in TOPICS}

_INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?)"
_INSERT_LATEST = "INSERT OR REPLACE INTO latest VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_ENDS = "SELECT slot, begin, next, crc FROM ends WHERE slot = ?"
_UPSERT_ENDS = "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM records WHERE place >= ? AND place < ?"
_RAISE_EPOCH = (
    "INSERT INTO writers VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch"
)
_SELECT_EPOCH = "SELECT epoch FROM writers WHERE id = ?"
_SELECT_POSITIONS = "SELECT slot, position, crc FROM positions WHERE writer = ?"
_UPSERT_POSITION = "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)"


class Fence(NamedTuple):
    """The right of one writer to commit: lost when a younger one raised the epoch."""

    writer: str
    epoch: int


class RoleFile:
    """Writes one file. Several processes may have it open: SQLite lets one commit at a time."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._connection = open_writing(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"log-{path.stem}")
        self._closed = False
        self._sync_failed = False

    async def append(
        self,
        records: Sequence[Outgoing],
        fence: Fence | None = None,
        positions: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Append records and store positions in one transaction; durable on return.

        Raises Fenced, LogUnavailable (nothing took effect), AckUnknown (the sync failed), LogCorrupt.
        """
        await self._run(lambda connection: self._append(connection, records, fence, positions or {}))

    async def raise_epoch(self, writer: str) -> Fence:
        """Fence every earlier writer of this id."""

        def job(connection: apsw.Connection) -> Fence:
            with self._transaction(connection):
                epoch = int(connection.execute(_RAISE_EPOCH, (writer,)).get)
            return Fence(writer, epoch)

        return await self._run(job)

    async def positions(self, writer: str) -> dict[TopicPartition, int]:
        """Positions stored by the last commit under this id."""

        def job(connection: apsw.Connection) -> dict[TopicPartition, int]:
            rows = number_rows(connection, self.path, _SELECT_POSITIONS, (writer,))
            return {PLACES[slot]: position for slot, position in rows}

        return await self._run(job)

    async def delete_before(self, where: TopicPartition, offset: int) -> None:
        """Delete the history of a partition below `offset`, in steps of 5,000 records."""
        while await self._run(lambda connection: self._delete_step(connection, SLOTS[where], offset)):
            pass

    async def close(self) -> None:
        """Finish the running write, let waiting ones raise AckUnknown, close the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close, True)
        self._thread.shutdown()

    async def _run(self, job: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise LogUnavailable(f"{self.path}: this log is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, job)

    def _guarded(self, job: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise AckUnknown(f"{self.path}: the log was closed before this write was acknowledged")
        if self._sync_failed:
            raise LogUnavailable(f"{self.path}: a sync failed earlier; restart this process to write again")
        with naming(self.path):
            return job(self._connection)

    @contextmanager
    def _transaction(self, connection: apsw.Connection) -> Generator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except apsw.IOError as error:
            if not is_failed_sync(error):
                raise
            # The commit may be in the file, and what the kernel did not write it may now call clean.
            self._sync_failed = True
            raise AckUnknown(f"{self.path}: the sync of a commit failed ({error})") from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _append(
        self,
        connection: apsw.Connection,
        records: Sequence[Outgoing],
        fence: Fence | None,
        positions: Mapping[TopicPartition, int],
    ) -> None:
        with self._transaction(connection):
            if fence is not None:
                _check(connection, fence)
                connection.executemany(
                    _UPSERT_POSITION,
                    [
                        (fence.writer, slot, position, number_checksum(slot, position))
                        for slot, position in ((SLOTS[where], at) for where, at in positions.items())
                    ],
                )
            self._insert(connection, records)
        if has_large_wal(self.path):
            bound_wal(connection)

    def _insert(self, connection: apsw.Connection, records: Sequence[Outgoing]) -> None:
        append_ns = self._clock.wall_ns()
        ends: dict[int, tuple[int, int]] = {}
        started = 0
        history: list[Row] = []
        latest: list[tuple[*Row, int]] = []
        for topic_name, partition, key, value in records:
            slot = SLOTS[topic_name, partition]
            stored = ends.get(slot) or self._ends(connection, slot)
            started += stored is None
            begin, offset = stored or (0, 0)
            ends[slot] = begin, offset + 1
            row = to_row(slot, offset, key, value, append_ns)
            keeps_history, keeps_latest = _KEEPS[topic_name]
            if keeps_history:
                history.append(row)
            if keeps_latest:
                latest.append((*row, slot))
        history.sort(key=_by_place)
        connection.executemany(_INSERT, history)
        connection.executemany(_INSERT_LATEST, latest)
        if started:
            count, _ = self._ends(connection, COUNT_SLOT) or (0, 0)
            ends[COUNT_SLOT] = count + started, 0
        connection.executemany(
            _UPSERT_ENDS,
            [(slot, begin, end, number_checksum(slot, begin, end)) for slot, (begin, end) in ends.items()],
        )

    def _ends(self, connection: apsw.Connection, slot: int) -> tuple[int, int] | None:
        for _, begin, end in number_rows(connection, self.path, _SELECT_ENDS, (slot,)):
            return begin, end
        return None

    def _delete_step(self, connection: apsw.Connection, slot: int, offset: int) -> bool:
        with self._transaction(connection):
            begin, end = self._ends(connection, slot) or (0, 0)
            cut = min(offset, end, begin + _DELETE_STEP)
            if cut <= begin:
                return False
            connection.execute(_DELETE, (place(slot, begin), place(slot, cut)))
            connection.execute(_UPSERT_ENDS, (slot, cut, end, number_checksum(slot, cut, end)))
        return True


def _by_place(row: Row) -> int:
    return row[0]


def _check(connection: apsw.Connection, fence: Fence) -> None:
    rows = connection.execute(_SELECT_EPOCH, (fence.writer,)).fetchall()
    if rows != [(fence.epoch,)]:
        raise Fenced(f"a younger writer {fence.writer} exists")
