"""EventLog over SQLite files, one per writing role: the log of one machine, without another server.

Every write is one transaction with `synchronous=FULL`: acknowledged means on disk, because the relay lets
the journal forget what the log has acknowledged. No transaction spans two files.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakSet

from tidegate.events.clock import Clock
from tidegate.events.errors import LogUnavailable, Refused
from tidegate.events.log.places import latest_topic, partitions_asked, role_of, topic_at
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.log.sqlite_files import naming
from tidegate.events.log.sqlite_reader import SqliteReader
from tidegate.events.log.sqlite_role import RoleFile
from tidegate.events.log.sqlite_rows import SLOTS
from tidegate.events.log.sqlite_view import NOTHING, RoleFileView
from tidegate.events.log.sqlite_writer import SqliteWriter
from tidegate.events.topics import ROLES

_SLICE_RECORDS = 500


class SqliteEventLog:
    """One process's handle: writes the roles it was opened for, reads the files of all."""

    def __init__(self, folder: Path, files: Mapping[str, RoleFile], clock: Clock) -> None:
        self._folder = folder
        self._files = files
        self._clock = clock
        self._views = self._new_views()
        self._readers: WeakSet[SqliteReader] = WeakSet()
        self._open = True

    @classmethod
    def open(cls, folder: Path, roles: frozenset[str], clock: Clock) -> "SqliteEventLog":
        """Open a log folder, for writing only the named roles. Blocks for a few synced writes.

        Raises Refused for a role that does not exist, LogUnavailable, LogCorrupt.
        """
        if unknown := roles.difference(ROLES):
            raise Refused(f"unknown roles {', '.join(sorted(unknown))}; there are {', '.join(ROLES)}")
        if roles:
            with naming(folder):
                folder.mkdir(parents=True, exist_ok=True)
        # The estimator's file first: it holds positions when a transaction has no records to say where.
        ordered = sorted(roles, key=ROLES.index, reverse=True)
        return cls(folder, {role: RoleFile(_path(folder, role), clock) for role in ordered}, clock)

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Append a batch of one role in one transaction; see `EventLog.append`."""
        self._check_open()
        role = role_of(records)
        if role is not None:
            await self._file(role).append(records)

    def reader(self, start: Mapping[TopicPartition, int]) -> SqliteReader:
        """A reader with connections of its own; see `EventLog.reader`."""
        self._check_open()
        reader = SqliteReader(self._new_views(), start)
        self._readers.add(reader)
        return reader

    async def begin(self, where: TopicPartition) -> int:
        """Oldest offset still kept, the end when none is."""
        topic = topic_at(where)
        self._check_open()
        view = self._views[topic.role]
        begin, end = view.span(where)
        if topic.keeps_history:
            return begin
        first = view.first_latest(where)
        return end if first is None else first

    async def end(self, where: TopicPartition) -> int:
        """Position after the last committed record."""
        topic = topic_at(where)
        self._check_open()
        return self._views[topic.role].span(where)[1]

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        """Newest record per key and the positions to follow from; see `EventLog.latest`.

        Ends are read first and a changed key only moves up, so slices of several statements miss nothing.
        """
        self._check_open()
        asked = partitions_asked(latest_topic(topic), partitions)
        view = self._views[latest_topic(topic).role]
        spans = view.spans()
        newest: dict[bytes, Record] = {}
        for where in asked:
            newest |= await _latest_of(view, where)
        return newest, {where: spans.get(SLOTS[where], NOTHING)[1] for where in asked}

    async def writer(self, transactional_id: str) -> SqliteWriter:
        """Open a transactional writer; fences its predecessor in every file written here."""
        self._check_open()
        return await SqliteWriter.open(self._files, transactional_id)

    async def delete_before(self, where: TopicPartition, offset: int) -> None:
        """Delete history below `offset`. Only for records that the archive lists: nothing checks it here.

        The file keeps its size and fills the room again. Raises Refused for a role not written here.
        """
        topic = topic_at(where)
        self._check_open()
        if topic.keeps_history:
            await self._file(topic.role).delete_before(where, offset)

    async def close(self) -> None:
        """Close everything; writes that did not start raise AckUnknown in their callers."""
        self._open = False
        for reader in list(self._readers):
            await reader.close()
        for view in self._views.values():
            view.close()
        for file in self._files.values():
            await file.close()

    def _file(self, role: str) -> RoleFile:
        file = self._files.get(role)
        if file is None:
            opened = ", ".join(self._files) or "nothing"
            raise Refused(
                f"{_path(self._folder, role)}: this log was opened for writing {opened}, not {role}"
            )
        return file

    def _new_views(self) -> dict[str, RoleFileView]:
        return {role: RoleFileView(_path(self._folder, role), self._clock) for role in ROLES}

    def _check_open(self) -> None:
        if not self._open:
            raise LogUnavailable(f"{self._folder}: this log is closed")


async def _latest_of(view: RoleFileView, where: TopicPartition) -> dict[bytes, Record]:
    newest: dict[bytes, Record] = {}
    position = 0
    while part := view.latest(where, position, _SLICE_RECORDS):
        position = part[-1].offset + 1
        newest.update((record.key, record) for record in part)
        await asyncio.sleep(0)
    return {key: record for key, record in newest.items() if record.value is not None}


def _path(folder: Path, role: str) -> Path:
    return folder / f"{role}.db"
