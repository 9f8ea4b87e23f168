"""The list of archived files: what is in it is archived, what is not does not exist yet.

One JSON object a line, appended and synced after its file is in place. A line without its newline is the
trace of a crash and is ignored.
"""

import hashlib
import os
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path

import msgspec

from tidegate.events.errors import LogCorrupt, LogUnavailable
from tidegate.events.log.port import TopicPartition

MANIFEST = "manifest.jsonl"


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file: the records of one partition and UTC day between the positions `start` and `end`.

    `first` and `last` are record offsets; gaps of the log may lie before, between and after them.
    """

    path: str
    """Relative to the archive folder."""
    topic: str
    partition: int
    day: str
    start: int
    end: int
    first: int
    last: int
    rows: int
    size_bytes: int
    sha256: str
    first_append_ns: int
    last_append_ns: int

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class Manifest:
    """The list as read from disk; `refresh` sees what was added since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MANIFEST
        self._files: defaultdict[TopicPartition, list[ArchivedFile]] = defaultdict(list)
        self._read_bytes = 0
        self._identity: tuple[int, int] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read lines added since. Raises LogCorrupt, naming the line, LogUnavailable."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogUnavailable(f"{self.path}: cannot be read: {error}") from error
        identity = (found.st_ino, found.st_size)
        if identity == self._identity:
            return
        if self._identity is not None and (
            found.st_ino != self._identity[0] or found.st_size < self._read_bytes
        ):
            self._files.clear()
            self._read_bytes = 0
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError as error:
            raise LogUnavailable(f"{self.path}: cannot be read: {error}") from error
        for line in whole.split(b"\n") if newline else ():
            self._add(self._decode(line))
        self._read_bytes += len(whole) + len(newline)
        self._identity = identity

    def files(self, where: TopicPartition) -> list[ArchivedFile]:
        """Files of a partition in offset order."""
        return self._files.get(where, [])

    def all_files(self) -> list[ArchivedFile]:
        """Every file, by partition, in offset order."""
        return [file for where in sorted(self._files) for file in self._files[where]]

    def end(self, where: TopicPartition) -> int:
        """Position after what is archived of a partition, 0 when nothing is."""
        files = self.files(where)
        return files[-1].end if files else 0

    def file_at(self, where: TopicPartition, position: int) -> ArchivedFile | None:
        """The file with the first archived record at or after `position`, None when there is none.

        Raises LogCorrupt when records between `position` and that file were never archived.
        """
        files = self.files(where)
        index = bisect_left(files, position, key=lambda file: file.last)
        if index == len(files):
            return None
        file = files[index]
        if index and position < file.start != files[index - 1].end:
            raise LogCorrupt(
                f"{self.path}: offsets {files[index - 1].end} to {file.start - 1} of {where.topic}/"
                f"{where.partition} were never archived; seek behind them to go on without"
            )
        return file

    def append(self, entry: ArchivedFile) -> None:
        """List one file, durably. For the one process that archives."""
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.refresh()

    def repair(self) -> None:
        """Cut off a line that a crash left unfinished. For the one process that archives."""
        if self.path.exists() and self.path.stat().st_size > self._read_bytes:
            with self.path.open("r+b") as file:
                file.truncate(self._read_bytes)
                os.fsync(file.fileno())

    def _decode(self, line: bytes) -> ArchivedFile:
        try:
            return msgspec.json.decode(line, type=ArchivedFile)
        except msgspec.DecodeError as error:
            raise LogCorrupt(f"{self.path}: not a manifest line ({error}): {line[:80]!r}") from error

    def _add(self, entry: ArchivedFile) -> None:
        files = self._files[entry.where]
        if files and entry.start < files[-1].end:
            raise LogCorrupt(f"{self.path}: {entry.path} overlaps {files[-1].path}")
        files.append(entry)


def assert_whole(folder: Path, file: ArchivedFile) -> None:
    """Raise LogCorrupt when an archived file is missing or not what was written, LogUnavailable when it cannot be
    read. Reads all of it."""
    path = folder / file.path
    try:
        is_whole = path.stat().st_size == file.size_bytes and file_sha256(path) == file.sha256
    except FileNotFoundError as error:
        raise LogCorrupt(f"{path}: listed in the manifest but missing") from error
    except OSError as error:
        raise LogUnavailable(f"{path}: cannot be read: {error}") from error
    if not is_whole:
        raise LogCorrupt(f"{path}: changed since it was archived; it was left untouched")


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
