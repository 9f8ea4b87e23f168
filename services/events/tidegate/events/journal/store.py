"""The journal file of one slot: SQLite through apsw, WAL, written by the one process that holds its lock."""

import fcntl
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from tidegate.events.errors import JournalCorrupt, JournalUnwritable, SlotTaken

DB = "journal.db"
LOCK = "lock"
RESERVE = "reserve"
SYNCED = "synced"
POSITION = "relay.json"

_MIN_SQLITE = (3, 51, 3)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sources(id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE)",
    (
        "CREATE TABLE IF NOT EXISTS flushes(first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,"
        " mark INTEGER NOT NULL, source INTEGER NOT NULL, append_ns INTEGER NOT NULL, crc INTEGER NOT NULL,"
        " frames BLOB NOT NULL)"
    ),
)
_INSERT = "INSERT INTO flushes VALUES(?,?,?,?,?,?,?)"
_SELECT = (
    "SELECT first_seq, last_seq, mark, s.source, append_ns, crc, frames FROM flushes f"
    " JOIN sources s ON s.id = f.source WHERE last_seq >= ? AND last_seq <= ? ORDER BY first_seq LIMIT ?"
)


class Row(NamedTuple):
    """One flush. `mark`: every attempt started before it (and not in this row) is settled."""

    first_seq: int
    last_seq: int
    mark: int
    source: str
    append_ns: int
    frames: bytes


def assert_sqlite_version() -> None:
    """Raises RuntimeError for SQLite older than 3.51.3, whose WAL reset can corrupt (fixed there)."""
    have = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if have < _MIN_SQLITE:
        raise RuntimeError(
            f"SQLite {apsw.sqlite_lib_version()} has the WAL-reset fault; 3.51.3 or newer needed"
        )


def _open_connection(path: Path, flags: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(5_000)
    return connection


def take_lock(folder: Path) -> int:
    """File descriptor of the slot's lock, held until closed or the process dies. Raises SlotTaken."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise SlotTaken(f"journal slot {folder.name!r} is owned by another live process") from error
    return handle


class JournalStore:
    """Owner's side of the file. `open` takes the lock; only one process per slot can."""

    def __init__(self, folder: Path, lock: int, connection: apsw.Connection) -> None:
        self.folder = folder
        self._lock = lock
        self._db = connection
        self._source_ids: dict[str, int] = {}
        last = self._db.execute("SELECT last_seq FROM flushes ORDER BY first_seq DESC LIMIT 1").fetchone()
        self.next_seq: int = 1 if last is None else last[0] + 1
        self._cursor = self._db.cursor()

    @classmethod
    def open(cls, folder: Path) -> "JournalStore":
        """Open or create the slot's journal. Raises SlotTaken, JournalUnwritable, JournalCorrupt."""
        assert_sqlite_version()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = take_lock(folder)
        except OSError as error:
            raise JournalUnwritable(f"journal folder {folder} cannot be used: {error.strerror}") from error
        connection = None
        try:
            connection = _open_connection(folder / DB, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            _configure(connection)
            return cls(folder, lock, connection)
        except apsw.Error as error:
            if connection is not None:
                connection.close()
            os.close(lock)
            raise _translate(error, folder / DB) from error

    def source_id(self, source: str) -> int:
        """Row id of a source name, made on first use."""
        if source not in self._source_ids:
            self._db.execute("INSERT OR IGNORE INTO sources(source) VALUES(?)", (source,))
            for (known,) in self._db.execute("SELECT id FROM sources WHERE source=?", (source,)):
                self._source_ids[source] = known
        return self._source_ids[source]

    def insert(self, count: int, mark: int, source: str, append_ns: int, frames: bytes) -> int:
        """Commit one flush of `count` events (no sync); returns its last seq.

        Raises JournalUnwritable, JournalCorrupt; then nothing was stored and no seq was used.
        """
        first, last = self.next_seq, self.next_seq + count - 1
        try:
            self._cursor.execute(
                _INSERT, (first, last, mark, self.source_id(source), append_ns, zlib.crc32(frames), frames)
            )
        except apsw.Error as error:
            raise _translate(error, self.folder / DB) from error
        self.next_seq = last + 1
        return last

    def rows(self, from_seq: int = 0, limit: int = -1) -> Iterator[Row]:
        """Rows whose last seq is ≥ `from_seq`, in order. Raises JournalCorrupt."""
        return _rows(self._db, self.folder, from_seq, 1 << 62, limit)

    def last_row(self) -> Row | None:
        """The newest row."""
        return next(self.rows(self.next_seq - 1, 1), None)

    def delete_below(self, seq: int, at_most: int = 100) -> None:
        """Drop rows that end below `seq`; the newest row always stays, so that seq never restarts."""
        try:
            self._db.execute(
                "DELETE FROM flushes WHERE first_seq IN (SELECT first_seq FROM flushes WHERE last_seq < ?"
                " AND first_seq < (SELECT max(first_seq) FROM flushes) ORDER BY first_seq LIMIT ?)",
                (seq, at_most),
            )
        except apsw.Error as error:
            raise _translate(error, self.folder / DB) from error

    def checkpoint(self) -> None:
        """Make everything committed durable: a checkpoint syncs the WAL, then the file it copies to."""
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        except apsw.Error as error:
            raise _translate(error, self.folder / DB) from error

    def close(self) -> None:
        """Close the file, then give up the lock."""
        self._db.close()
        os.close(self._lock)


class JournalTail:
    """The relay's side: reads rows of a journal that another process owns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._db = _open_connection(folder / DB, apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:
            raise _translate(error, folder / DB) from error

    def rows(self, from_seq: int, through_seq: int, limit: int) -> list[Row]:
        """At most `limit` whole rows within the seqs; the statement is ended before returning."""
        try:
            return list(_rows(self._db, self.folder, from_seq, through_seq, limit))
        except apsw.Error as error:
            raise _translate(error, self.folder / DB) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _rows(
    connection: apsw.Connection, folder: Path, from_seq: int, through_seq: int, limit: int
) -> Iterator[Row]:
    for first, last, mark, source, append_ns, crc, frames in connection.execute(
        _SELECT, (from_seq, through_seq, limit)
    ):
        if zlib.crc32(frames) != crc:
            raise JournalCorrupt(f"{folder / DB}: flush {first}-{last} fails its checksum")
        yield Row(first, last, mark, source, append_ns, frames)


def _configure(connection: apsw.Connection) -> None:
    # One statement each, and asserted: apsw skips what follows a row-returning PRAGMA.
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != ("wal",):
        raise JournalUnwritable(f"journal_mode is {mode}, not wal: the file system cannot share memory")
    connection.execute("PRAGMA synchronous=NORMAL")
    if connection.execute("PRAGMA synchronous").fetchone() != (1,):
        raise JournalUnwritable("synchronous=NORMAL was not taken")
    connection.execute("PRAGMA wal_autocheckpoint=0").fetchone()
    for statement in _SCHEMA:
        connection.execute(statement)


def _translate(error: apsw.Error, path: Path) -> JournalCorrupt | JournalUnwritable:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return JournalCorrupt(f"{path} is damaged ({error}); it was left untouched")
    return JournalUnwritable(f"{path} cannot be written: {error}")
