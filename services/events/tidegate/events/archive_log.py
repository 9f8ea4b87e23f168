"""One log out of two: archived files first, then the live log, with an exact seam per partition."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate.events.archive_manifest import ArchivedFile, Manifest, assert_whole
from tidegate.events.archive_parquet import read_group
from tidegate.events.log.port import EventLog, Outgoing, Reader, Record, TopicPartition, Writer


class ArchivedLog:
    """An EventLog whose readers start at the first archived record; everything else is the live log's."""

    def __init__(self, live: EventLog, folder: Path) -> None:
        self._live = live
        self._folder = folder
        self._manifest: Manifest | None = None

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Append to the live log."""
        await self._live.append(records)

    def reader(self, start: Mapping[TopicPartition, int]) -> "SpanningReader":
        """A reader over archive and live log; see `EventLog.reader`."""
        return SpanningReader(self._live.reader(start), Manifest(self._folder), start)

    async def begin(self, where: TopicPartition) -> int:
        """First archived offset, else the live log's oldest."""
        if self._manifest is None:
            self._manifest = Manifest(self._folder)
        self._manifest.refresh()
        files = self._manifest.files(where)
        return files[0].first if files else await self._live.begin(where)

    async def end(self, where: TopicPartition) -> int:
        """End of the live log."""
        return await self._live.end(where)

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        """Latest records of the live log."""
        return await self._live.latest(topic, partitions)

    async def writer(self, transactional_id: str) -> Writer:
        """A transactional writer of the live log."""
        return await self._live.writer(transactional_id)

    async def close(self) -> None:
        """Close the live log."""
        await self._live.close()


class SpanningReader:
    """Reads what is archived from files and the rest from the live log.

    Retention may delete live records between two looks; they are listed in the manifest before that. So
    when the live log skips offsets that meanwhile are archived, its answer is cut there and the files
    are asked.
    """

    def __init__(self, live: Reader, manifest: Manifest, start: Mapping[TopicPartition, int]) -> None:
        """`live` reads the live log from `start`, and is closed with this one."""
        self._manifest = manifest
        self._positions = dict(start)
        self._reader = live
        self._group: tuple[str, list[Record]] = ("", [])

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        """Next records; see `Reader.poll`."""
        await asyncio.sleep(0)  # a reader with a backlog must not starve its loop
        self._manifest.refresh()
        if records := await self._read_archived(max_records):
            return records
        for where, position in self._reader.positions().items():
            if position != self._positions[where]:
                self._reader.seek(where, self._positions[where])
        live = await self._reader.poll(max_records, timeout_s)
        self._manifest.refresh()
        return self._without_skipped(live) or await self._read_archived(max_records)

    def positions(self) -> Mapping[TopicPartition, int]:
        """Next offset per partition."""
        return dict(self._positions)

    def seek(self, where: TopicPartition, position: int) -> None:
        """Continue `where` from `position`."""
        self._reader.seek(where, position)
        self._positions[where] = position

    async def close(self) -> None:
        """Close the live reader."""
        await self._reader.close()

    async def _read_archived(self, max_records: int) -> list[Record]:
        """Records of the oldest file that is still to be read: partitions advance together in time."""
        files = [
            file
            for where, position in self._positions.items()
            if (file := self._manifest.file_at(where, position)) is not None
        ]
        if not files:
            return []
        file = min(files, key=lambda file: file.first_append_ns)
        position = self._positions[file.where]
        path, group = self._group
        if path != file.path or not group or not group[0].offset <= position <= group[-1].offset:
            group = await asyncio.to_thread(self._load_group, file, position, is_new=path != file.path)
            self._group = (file.path, group)
        records = [record for record in group if record.offset >= position][:max_records]
        last = records[-1].offset
        self._positions[file.where] = file.end if last == file.last else last + 1
        return records

    def _load_group(self, file: ArchivedFile, position: int, *, is_new: bool) -> list[Record]:
        if is_new:  # all of it, once: a Parquet footer has no checksum of its own
            assert_whole(self._manifest.folder, file)
        return read_group(self._manifest.folder / file.path, position, file)

    def _without_skipped(self, records: Sequence[Record]) -> Sequence[Record]:
        live = self._reader.positions()
        if not any(self._is_archived(where, position) for where, position in self._positions.items()):
            self._positions.update(live)  # nothing this reader wanted can have been deleted
            return records
        expected, cut, kept = dict(self._positions), set[TopicPartition](), list[Record]()
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            if where in cut or (
                record.offset > expected[where] and self._is_archived(where, expected[where])
            ):
                cut.add(where)
                continue
            kept.append(record)
            expected[where] = record.offset + 1
        for where, position in live.items():
            behind = where in cut or self._is_archived(where, expected[where])
            self._positions[where] = expected[where] if behind else position
        return kept

    def _is_archived(self, where: TopicPartition, position: int) -> bool:
        return self._manifest.file_at(where, position) is not None
