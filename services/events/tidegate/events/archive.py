"""The archiver: moves history topics from the log into Parquet files, each record exactly once.

A file is written aside, synced, renamed, then listed in the manifest. The next run starts where the
manifest ends. A crash between rename and manifest leaves a file that the next start adopts.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from tidegate.events.archive_manifest import Manifest
from tidegate.events.archive_parquet import (
    PART,
    Piece,
    entry_of,
    read_facts,
    read_piece,
    utc_day,
    write_piece,
)
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.topics import TOPICS

MAX_ROWS = 100_000
MAX_BYTES = 64 * 1024 * 1024
LOCK = "lock"
STRAY = ".stray"
_POLL_S = 1.0


class ArchiveRun(msgspec.Struct, frozen=True):
    """What one run did. `holes`: records that the log dropped before they were archived."""

    files: int
    rows: int
    holes: tuple[str, ...]


class Archiver:
    """The one process that archives into a folder, held by a file lock."""

    def __init__(
        self, log: EventLog, folder: Path, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
    ) -> None:
        """Take the folder and finish what a crash interrupted. Blocks on files.

        Raises LogUnavailable when another process archives there or the folder cannot be used, LogCorrupt.
        """
        self._log = log
        self._folder = folder
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._lock = _take_lock(folder)
        try:
            self.manifest = Manifest(folder)
            self.manifest.repair()
            self._adopt()
        except OSError as error:
            self.close()
            raise LogUnavailable(f"{folder}: cannot be used for the archive: {error}") from error
        except BaseException:
            self.close()
            raise

    async def run(self, until_ns: int) -> ArchiveRun:
        """Archive every record of a history topic that was appended before `until_ns`, partition by partition.

        Raises LogUnavailable (what is listed stays archived; run again), LogCorrupt.
        """
        files, rows, holes = 0, 0, list[str]()
        for topic in TOPICS:
            if not topic.keeps_history:
                continue
            for partition in range(topic.partitions):
                where = TopicPartition(topic.name, partition)
                archived, begin = self.manifest.end(where), await self._log.begin(where)
                if archived and begin > archived:
                    holes.append(f"{topic.name}/{partition}: offsets {archived} to {begin - 1}")
                async for piece in self._pieces(where, max(archived, begin), until_ns):
                    await _finish(asyncio.ensure_future(asyncio.to_thread(self._store, piece)))
                    files, rows = files + 1, rows + len(piece.records)
        return ArchiveRun(files, rows, tuple(holes))

    def close(self) -> None:
        """Give up the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _store(self, piece: Piece) -> None:
        try:
            self.manifest.append(write_piece(self._folder, piece))
        except OSError as error:
            where = f"{piece.where.topic}/{piece.where.partition}"
            raise LogUnavailable(f"{self._folder}: cannot archive {where}: {error}") from error

    async def _pieces(self, where: TopicPartition, start: int, until_ns: int) -> AsyncIterator[Piece]:
        """Records from `start` in pieces of one day and bounded size, up to the first that is too young."""
        end = await self._log.end(where)
        if start >= end:
            return
        reader = self._log.reader({where: start})
        records: list[Record] = []
        size = 0
        try:
            while reader.positions()[where] < end:
                for record in await reader.poll(timeout_s=_POLL_S):
                    young = record.append_ns >= until_ns
                    if records and (young or self._is_full(records, size) or _other_day(records[-1], record)):
                        yield Piece(where, start, record.offset, records)
                        start, records, size = record.offset, [], 0
                    if young:
                        return
                    records.append(record)
                    size += len(record.key) + len(record.value or b"")
            if records:
                yield Piece(where, start, reader.positions()[where], records)
        finally:
            await reader.close()

    def _is_full(self, piece: Sequence[Record], size_bytes: int) -> bool:
        return len(piece) >= self._max_rows or size_bytes >= self._max_bytes

    def _adopt(self) -> None:
        """List files that are in place but not in the manifest; set aside what does not fit; drop parts."""
        for part in self._folder.rglob("*" + PART):
            part.unlink()
        for path in unlisted(self._folder, self.manifest):
            facts = read_facts(path)
            if facts.start < self.manifest.end(TopicPartition(facts.topic, facts.partition)):
                path.rename(path.with_name(path.name + STRAY))
                continue
            name = path.relative_to(self._folder).as_posix()
            self.manifest.append(entry_of(self._folder, name, read_piece(path)))


def unlisted(folder: Path, manifest: Manifest) -> list[Path]:
    """Archived files that the manifest does not list, in offset order within a partition."""
    listed = {file.path for file in manifest.all_files()}
    found = (path for path in folder.rglob("*.parquet") if path.relative_to(folder).as_posix() not in listed)
    return sorted(found, key=lambda path: path.name)


async def _finish(writing: asyncio.Future[None]) -> None:
    """Await a write; a cancellation waits for it too, so that no thread writes on behind our back."""
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await writing
        raise


def _other_day(last: Record, record: Record) -> bool:
    return utc_day(last.append_ns) != utc_day(record.append_ns)


def _take_lock(folder: Path) -> int | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogUnavailable(f"{folder}: cannot be used for the archive: {error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise LogUnavailable(f"{folder}: another process archives there") from error
    return handle
