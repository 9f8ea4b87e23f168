"""The journal file of one slot: SQLite through apsw, WAL, written by the one process that holds its lock."""

import contextlib
import fcntl
import os
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from tidegate.events.errors import JournalCorrupt, JournalUnwritable, SlotTaken

DB = "journal.db"
LOCK = "lock"
RESERVE = "reserve"
SYNCED = "synced"
POSITION = "relay.json"
CHECKPOINT_BUSY_MS = 5
WAL_KEEP_BYTES = 32 * 1024 * 1024

_MIN_SQLITE = (3, 51, 3)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sources(id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE)",
    (
        "CREATE TABLE IF NOT EXISTS flushes(first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,"
        " mark INTEGER NOT NULL, source INTEGER NOT NULL, append_ns INTEGER NOT NULL, crc INTEGER NOT NULL,"
        " frames BLOB NOT NULL)"
    ),
)
_EXTEND = "UPDATE flushes SET mark=?, crc=?, frames=? WHERE first_seq=?"
_INSERT = "INSERT INTO flushes VALUES(?,?,?,?,?,?,?)"
# Only the key is indexed: the row that holds a seq is the last one that begins at or before it.
_SELECT = (
    "SELECT first_seq, last_seq, mark, s.source, append_ns, crc, frames FROM flushes f"
    " JOIN sources s ON s.id = f.source"
    " WHERE first_seq >= coalesce((SELECT max(first_seq) FROM flushes WHERE first_seq <= ?1), 0)"
    " AND first_seq <= ?2 AND last_seq BETWEEN ?1 AND ?2 ORDER BY first_seq LIMIT ?3"
)
_LAST_SEQ = "SELECT last_seq FROM flushes ORDER BY first_seq DESC LIMIT 1"
_FIRST_SEQ = "SELECT min(first_seq) FROM flushes"
_AT_OR_BELOW = "SELECT max(first_seq) FROM flushes WHERE first_seq <= ?"
_AT_OR_ABOVE = "SELECT min(first_seq) FROM flushes WHERE first_seq >= ?"
# A transaction of its own that changes nothing anybody reads.
TRIFLE = "PRAGMA user_version=1"


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


def open_checkpointer(path: Path) -> apsw.Connection:
    """A second connection of the owner, for checkpoints beside the loop's. Raises apsw.Error."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(CHECKPOINT_BUSY_MS)
    _set_syncs(connection)
    # SQLite learns from the first read that the file has a WAL; before it, a checkpoint silently does nothing.
    _one(connection, _LAST_SEQ)
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
        self.next_seq = (_one(connection, _LAST_SEQ) or 0) + 1
        self._oldest_seq = _one(connection, _FIRST_SEQ) or self.next_seq
        self._page_bytes = _one(connection, "PRAGMA page_size") or 0
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
        except BaseException as error:
            if connection is not None:
                connection.close()
            os.close(lock)
            if isinstance(error, apsw.Error):
                raise _translate(error, folder / DB) from error
            raise

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

    def extend_newest(self, row: Row, mark: int, more: bytes) -> None:
        """Add frames that are no events to the newest row, and give it another mark.

        Raises JournalUnwritable, JournalCorrupt; then the row is as before.
        """
        blob = row.frames + more
        with _translating(self.folder / DB):
            self._db.execute(_EXTEND, (mark, zlib.crc32(blob), blob, row.first_seq))

    def rows(self, from_seq: int = 0, limit: int = -1) -> Iterator[Row]:
        """Rows whose last seq is ≥ `from_seq`, in order. Raises JournalCorrupt."""
        return _rows(self._db, self.folder, from_seq, 1 << 62, limit)

    def last_row(self) -> Row | None:
        """The newest row."""
        return next(iter(list(self.rows(self.next_seq - 1, 1))), None)

    def delete_below(self, seq: int, at_most: int) -> bool:
        """Drop rows that end below `seq`, of about `at_most` events; True when more of them are left.

        The newest row always stays, so that seq never restarts. Raises JournalUnwritable, JournalCorrupt.
        """
        if seq <= self._oldest_seq:
            return False
        with _translating(self.folder / DB):
            return self._delete_below(seq, at_most)

    def _delete_below(self, seq: int, at_most: int) -> bool:
        keep, slice_end = _one(self._db, _AT_OR_BELOW, seq), self._oldest_seq + at_most
        is_more = keep is not None and keep > slice_end
        if is_more:
            keep = _one(self._db, _AT_OR_ABOVE, slice_end)
        if keep is None or keep <= self._oldest_seq:
            return False
        self._db.execute("DELETE FROM flushes WHERE first_seq < ?", (keep,))
        self._oldest_seq = keep
        return is_more

    def sizes(self) -> tuple[int, int]:
        """Bytes of pages that hold rows, and of free pages, which later rows fill again."""
        with _translating(self.folder / DB):
            free = _one(self._db, "PRAGMA freelist_count") or 0
            used = (_one(self._db, "PRAGMA page_count") or 0) - free
        return used * self._page_bytes, free * self._page_bytes

    def shrink(self) -> None:
        """Give up the free pages; costs as much as there are rows. The file shrinks at the next checkpoint.

        Raises JournalUnwritable, JournalCorrupt; then everything is as before.
        """
        with _translating(self.folder / DB):
            self._db.execute("VACUUM")

    def probe(self) -> None:
        """Commit a trifle, to see whether the file can be written. Raises JournalUnwritable, JournalCorrupt."""
        with _translating(self.folder / DB):
            self._db.execute(TRIFLE)

    def checkpoint(self) -> None:
        """Make everything committed durable: a checkpoint syncs the WAL, then the file it copies to.

        Waits for nobody. Raises JournalUnwritable when a reader kept it from copying all, JournalCorrupt.
        """
        with _translating(self.folder / DB):
            pages, copied = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if not 0 <= pages == copied:
            raise JournalUnwritable(f"{self.folder / DB}: the checkpoint copied {copied} of {pages} pages")

    def close(self) -> None:
        """Close the file, then give up the lock."""
        try:
            self._db.close()
        finally:
            os.close(self._lock)


class JournalTail:
    """The relay's side: reads rows of a journal that another process owns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with _translating(folder / DB):
            self._db = _open_connection(folder / DB, apsw.SQLITE_OPEN_READONLY)

    def rows(self, from_seq: int, through_seq: int, limit: int) -> list[Row]:
        """At most `limit` whole rows within the seqs; the statement is ended before returning.

        Rows before a damage are returned; raises JournalCorrupt, JournalUnwritable when it is the first.
        """
        found: list[Row] = []
        try:
            found.extend(_rows(self._db, self.folder, from_seq, through_seq, limit))
        except (JournalCorrupt, JournalUnwritable):
            if not found:
                raise
        return found

    def last_seq(self) -> int:
        """The newest committed seq, 0 when there is none. Raises JournalCorrupt, JournalUnwritable."""
        with _translating(self.folder / DB):
            return _one(self._db, _LAST_SEQ) or 0

    def lives(self) -> int:
        """How many owners have written here so far. Raises JournalCorrupt, JournalUnwritable."""
        with _translating(self.folder / DB):
            return _one(self._db, "SELECT max(id) FROM sources") or 0

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _rows(
    connection: apsw.Connection, folder: Path, from_seq: int, through_seq: int, limit: int
) -> Iterator[Row]:
    cursor = connection.cursor()
    try:
        with _translating(folder / DB):
            for first, last, mark, source, append_ns, crc, frames in cursor.execute(
                _SELECT, (from_seq, through_seq, limit)
            ):
                if zlib.crc32(frames) != crc:
                    raise JournalCorrupt(f"{folder / DB}: flush {first}-{last} fails its checksum")
                yield Row(first, last, mark, source, append_ns, frames)
    finally:
        # A statement that is still open, after an error too, would keep the WAL from starting over.
        cursor.close(True)


def _one(connection: apsw.Connection, statement: str, *values: int) -> int | None:
    """The one integer a statement answers. Read to its end: it must not stay open."""
    rows = connection.execute(statement, values).fetchall()
    value = rows[0][0] if rows else None
    return value if isinstance(value, int) else None


def _set_syncs(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA synchronous=NORMAL")
    if _one(connection, "PRAGMA synchronous") != 1:
        raise JournalUnwritable("synchronous=NORMAL was not taken")
    _one(
        connection, "PRAGMA checkpoint_fullfsync=1"
    )  # macOS: what a checkpoint syncs is past the drive's cache
    _one(connection, "PRAGMA wal_autocheckpoint=0")
    _one(connection, f"PRAGMA journal_size_limit={WAL_KEEP_BYTES}")


def _configure(connection: apsw.Connection) -> None:
    # One statement each, and asserted: apsw skips what follows a row-returning PRAGMA.
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != ("wal",):
        raise JournalUnwritable(f"journal_mode is {mode}, not wal: the file system cannot share memory")
    _set_syncs(connection)
    connection.execute("PRAGMA temp_store=MEMORY")  # a VACUUM needs no other folder
    for statement in _SCHEMA:
        connection.execute(statement)


@contextlib.contextmanager
def _translating(path: Path) -> Generator[None]:
    try:
        yield
    except apsw.Error as error:
        raise _translate(error, path) from error


def _translate(error: apsw.Error, path: Path) -> JournalCorrupt | JournalUnwritable:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return JournalCorrupt(f"{path} is damaged ({error}); it was left untouched")
    return JournalUnwritable(f"{path} cannot be written: {error}")
