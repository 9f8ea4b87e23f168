"""The archive as a log of its own: what can still be read when the live log does not answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tidegate.events.archive_log import SpanningReader
from tidegate.events.archive_manifest import Manifest
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.port import Outgoing, Record, TopicPartition, Writer
from tidegate.events.topics import BY_NAME


class ArchiveAlone:
    """An EventLog of archived records only: it ends where the archive ends, and takes nothing."""

    def __init__(self, folder: Path) -> None:
        """Raises LogCorrupt, naming the line of the manifest, LogUnavailable."""
        self._manifest = Manifest(folder)

    @property
    def newest_ns(self) -> int | None:
        """When its newest record was appended to the log; None when nothing is archived."""
        return max((file.last_append_ns for file in self._manifest.all_files()), default=None)

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Raises LogUnavailable, always."""
        del records
        self._refuse()

    def reader(self, start: Mapping[TopicPartition, int]) -> SpanningReader:
        """A reader to the end of the archive; see `EventLog.reader`."""
        return SpanningReader(_Silent(start), self._manifest, start)

    async def begin(self, where: TopicPartition) -> int:
        """First archived offset; 0 when nothing is archived."""
        files = self._manifest.files(where)
        return files[0].first if files else 0

    async def end(self, where: TopicPartition) -> int:
        """Position after the last archived record; 0 when nothing is archived."""
        return self._manifest.end(where)

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        """Newest archived record per key, of a topic that keeps its history too; see `EventLog.latest`."""
        chosen = range(BY_NAME[topic].partitions) if partitions is None else partitions
        ends = {where: self._manifest.end(where) for where in (TopicPartition(topic, n) for n in chosen)}
        found: dict[bytes, Record] = {}
        reader = self.reader(dict.fromkeys(ends, 0))
        try:
            while any(reader.positions()[where] < end for where, end in ends.items()):
                found.update((record.key, record) for record in await reader.poll())
        finally:
            await reader.close()
        return {key: record for key, record in found.items() if record.value is not None}, ends

    async def writer(self, transactional_id: str) -> Writer:
        """Raises LogUnavailable, always."""
        del transactional_id
        self._refuse()

    async def close(self) -> None:
        """Nothing is held open."""

    def _refuse(self) -> NoReturn:
        raise LogUnavailable(f"{self._manifest.folder}: an archive alone takes no records")


class _Silent:
    """The reader of a live log that is away: nothing comes."""

    def __init__(self, start: Mapping[TopicPartition, int]) -> None:
        self._positions = dict(start)

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        """Nothing, at once."""
        del max_records, timeout_s
        return ()

    def positions(self) -> Mapping[TopicPartition, int]:
        """Where it was told to read."""
        return self._positions

    def seek(self, where: TopicPartition, position: int) -> None:
        """Take the position."""
        self._positions[where] = position

    async def close(self) -> None:
        """Nothing is held open."""
