"""Opening the SQLite files of the log, and SQLite's errors in words a caller can act on."""

import struct
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw

from tidegate.events.errors import Broken, LogCorrupt, LogUnavailable, TidegateError
from tidegate.events.log.sqlite_rows import COUNT_SLOT, number_checksum

_OLDEST_SQLITE = (3, 51, 3)  # below, concurrent checkpoints of a WAL file can corrupt it ("WAL-reset")
_APPLICATION_ID = 0x54474C47
_SCHEMA_VERSION = 1
_PAGE_BYTES = 8_192  # a decision with its candidates fits one page
_CHECKPOINT_PAGES = 2_000
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
_BUSY_PAUSE_S = 0.000_5
_BUSY_PAUSES = 20_000
_FULL = 2
_SYNC_FAILED = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)

_SCHEMA = (
    """CREATE TABLE records (
        place INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB, append_ns INTEGER NOT NULL,
        crc INTEGER NOT NULL)""",
    """CREATE TABLE latest (
        place INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB, append_ns INTEGER NOT NULL,
        crc INTEGER NOT NULL, slot INTEGER NOT NULL, UNIQUE (slot, key))""",
    """CREATE TABLE ends (
        slot INTEGER PRIMARY KEY, begin INTEGER NOT NULL, next INTEGER NOT NULL, crc INTEGER NOT NULL)""",
    """CREATE TABLE writers (id TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE positions (
        writer TEXT NOT NULL, slot INTEGER NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (writer, slot)) WITHOUT ROWID""",
    f"INSERT INTO ends VALUES ({COUNT_SLOT}, 0, 0, {number_checksum(COUNT_SLOT, 0, 0)})",  # noqa: S608 - our numbers
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)


def translated(error: Exception, path: Path) -> TidegateError:
    """The error as LogCorrupt or LogUnavailable, naming the file."""
    match error:
        case apsw.FullError():
            return LogUnavailable(f"{path}: the disk is full; nothing was written ({error})")
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return LogUnavailable(f"{path}: another process holds the file for too long ({error})")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return LogUnavailable(f"{path}: cannot be opened or written; check the folder ({error})")
        case apsw.IOError() | apsw.NoMemError() | OSError():
            return LogUnavailable(f"{path}: the machine refused ({error})")
        case _:
            # Our statements never change, so an SQL or type error too means that the file is not as written.
            return LogCorrupt(f"{path}: damaged ({error}); it was left untouched")


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Translate what SQLite and the file system raise inside."""
    try:
        yield
    except (apsw.Error, OSError) as error:
        raise translated(error, path) from error


def assert_library() -> None:
    """Raise Broken when the SQLite library is one that can corrupt a WAL file."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise Broken(f"SQLite {apsw.sqlite_lib_version()} can corrupt WAL files; {oldest} or newer is needed")


def open_writing(path: Path) -> apsw.Connection:
    """Open or create a role's file: WAL, every commit synced. Raises LogUnavailable, LogCorrupt."""
    assert_library()
    with naming(path):
        connection = apsw.Connection(
            str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, statementcachesize=64
        )
    try:
        with naming(path):
            connection.set_busy_handler(_wait_busy)
            _has_schema(connection, path)  # before anything is changed: the file may not be ours
            _configure(connection, path)
            _create(connection, path)
            # After a failed sync the kernel may call pages clean that never reached the disk.
            bound_wal(connection)
    except BaseException:
        connection.close(True)
        raise
    return connection


def open_reading(path: Path) -> apsw.Connection | None:
    """Open a role's file for reading; None while its writer has not created it yet."""
    if not path.exists():
        return None
    assert_library()
    with naming(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=64)
    try:
        with naming(path):
            connection.set_busy_handler(_wait_busy)
            if _has_schema(connection, path):
                return connection
    except BaseException:
        connection.close(True)
        raise
    connection.close(True)
    return None


def is_failed_sync(error: apsw.IOError) -> bool:
    """True when what was written may or may not be on the disk."""
    # The stubs do not know the attribute, and it is missing on errors that did not come from SQLite.
    return vars(error).get("extendedresult") in _SYNC_FAILED


def number_rows(
    connection: apsw.Connection, path: Path, select: str, bindings: tuple[str | int, ...] = ()
) -> list[tuple[int, ...]]:
    """Rows of integers without their last column, the checksum. Raises LogCorrupt when it does not fit."""
    try:
        rows = cast("list[tuple[int, ...]]", connection.execute(select, bindings).fetchall())
        fit = all(number_checksum(*numbers) == crc for *numbers, crc in rows)
    except (struct.error, ValueError):  # no integer, or text that is none
        rows, fit = [], False
    if not fit:
        raise LogCorrupt(f"{path}: damaged (a row of numbers fails its checksum); it was left untouched")
    return [row[:-1] for row in rows]


def bound_wal(connection: apsw.Connection) -> None:
    """Copy the WAL into the file and empty it, if no reader is in the way just now."""
    connection.set_busy_handler(None)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError):
        pass  # the next one will do: the WAL holds everything
    finally:
        connection.set_busy_handler(_wait_busy)


def has_large_wal(path: Path) -> bool:
    """True when the WAL outgrew what automatic checkpoints should keep it at."""
    wal = path.with_name(path.name + "-wal")
    return wal.exists() and wal.stat().st_size > _WAL_LIMIT_BYTES


def _wait_busy(earlier_calls: int) -> bool:
    # SQLite's own handler doubles its pauses to 100 ms, which showed as tails of 0.4–1.2 s.
    time.sleep(_BUSY_PAUSE_S)
    return earlier_calls < _BUSY_PAUSES


def _configure(connection: apsw.Connection, path: Path) -> None:
    connection.pragma("page_size", _PAGE_BYTES)
    mode = _switch_to_wal(connection)
    connection.pragma("synchronous", "FULL")
    connection.pragma("fullfsync", 1)  # macOS: through the drive's cache
    connection.pragma("journal_size_limit", _WAL_LIMIT_BYTES)
    connection.wal_autocheckpoint(_CHECKPOINT_PAGES)
    synchronous = connection.pragma("synchronous")
    if mode != "wal" or synchronous != _FULL:
        raise LogUnavailable(
            f"{path}: journal_mode is {mode} and synchronous {synchronous}, not WAL and FULL"
        )


def _switch_to_wal(connection: apsw.Connection) -> object:
    """The journal mode after the switch. Raises apsw.BusyError when another process never lets go."""
    # SQLite asks no busy handler where a read lock becomes an exclusive one, as in this switch: two processes
    # that create the file at the same moment would fail each other.
    calls = 0
    while True:
        try:
            return connection.pragma("journal_mode", "WAL")
        except apsw.BusyError:
            if not _wait_busy(calls):
                raise
            calls += 1


def _create(connection: apsw.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _has_schema(connection, path):
            for statement in _SCHEMA:  # one by one: apsw may skip what follows a row
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _has_schema(connection: apsw.Connection, path: Path) -> bool:
    """False for a new, empty file. Raises LogCorrupt for a file that is not ours."""
    # In this order: a file seen as not empty had its schema and version committed in one transaction.
    if not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        return False
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application != _APPLICATION_ID:
        raise LogCorrupt(f"{path}: not a file of this log; it was left untouched")
    if version != _SCHEMA_VERSION:
        raise LogCorrupt(f"{path}: schema {version}, but this version knows {_SCHEMA_VERSION}; upgrade first")
    return True
