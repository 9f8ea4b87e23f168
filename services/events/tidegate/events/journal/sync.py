"""The one thread that makes commits durable: fdatasync of the open -wal file, outside SQLite's lock."""

import fcntl
import mmap
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import apsw

from tidegate.events.journal.store import DB, SYNCED

_U64 = struct.Struct("<Q")
IDLE_SYNC_S = 0.05
CHECKPOINT_BYTES = 4 * 1024 * 1024


def sync_file(handle: int) -> None:
    """Make what was written to the file durable; on macOS past the drive's own cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(handle)


class SyncedMark:
    """Eight shared bytes: the newest seq known to be on disk. The owner writes, the relay reads."""

    def __init__(self, folder: Path) -> None:
        handle = os.open(folder / SYNCED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(handle, _U64.size)
            self._map = mmap.mmap(handle, _U64.size)
        finally:
            os.close(handle)

    def read(self) -> int:
        """The mark."""
        return int(_U64.unpack_from(self._map)[0])

    def write(self, seq: int) -> None:
        """Publish a new mark; eight aligned bytes are stored at once."""
        _U64.pack_into(self._map, 0, seq)

    def close(self) -> None:
        """Release the mapping."""
        self._map.close()


class Progress(Protocol):
    """What the loop has committed, read by the sync thread: single words, no lock needed."""

    committed_seq: int
    written_bytes: int


class SyncThread:
    """Syncs on request at once, and idle commits within 50 ms; checkpoints beside the loop.

    `on_synced(seq)` is called from the thread after each sync: everything up to `seq` was committed before
    that sync began. `on_error` ends the thread's promises.
    """

    def __init__(
        self,
        folder: Path,
        progress: Progress,
        on_synced: Callable[[int], None],
        on_error: Callable[[OSError | apsw.Error], None],
    ) -> None:
        self._progress = progress
        self._on_synced = on_synced
        self._on_error = on_error
        self._mark = SyncedMark(folder)
        self._wal = os.open(folder / (DB + "-wal"), os.O_RDONLY | os.O_CLOEXEC)
        self._db_path = folder / DB
        self._wake = threading.Event()
        self._urgent = False
        self._stop = False
        self.syncs = 0
        self._synced = 0
        self._checkpointed_bytes = 0
        self._thread = threading.Thread(target=self._run, name="journal-sync", daemon=True)

    def start(self) -> None:
        """Sync what is there, then serve."""
        self._sync()
        self._thread.start()

    def request(self) -> None:
        """Ask for a sync now. A wish that is still open covers every commit made before its sync begins."""
        if not self._urgent:
            self._urgent = True
            self._wake.set()

    def close(self) -> None:
        """Sync what was committed, end the thread."""
        self._stop = True
        self._wake.set()
        self._thread.join()
        self._mark.close()
        os.close(self._wal)

    def _run(self) -> None:
        try:
            while not self._stop:
                self._wake.wait(IDLE_SYNC_S)
                self._wake.clear()
                if self._urgent or self._progress.committed_seq > self._synced:
                    self._urgent = False
                    self._sync()
                    if self._progress.written_bytes - self._checkpointed_bytes > CHECKPOINT_BYTES:
                        self._checkpoint()
            self._sync()
        except (OSError, apsw.Error) as error:
            self._on_error(error)

    def _sync(self) -> None:
        seq = self._progress.committed_seq
        sync_file(self._wal)
        self.syncs += 1
        self._synced = seq
        self._mark.write(seq)
        self._on_synced(seq)

    def _checkpoint(self) -> None:
        # A second connection, because the loop's one would sync in the loop. It restarts the WAL only when
        # nobody reads; otherwise the next round does.
        written_bytes = self._progress.written_bytes
        connection = apsw.Connection(str(self._db_path))
        try:
            connection.set_busy_timeout(0)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._checkpointed_bytes = written_bytes
        except (apsw.FullError, apsw.IOError):
            pass  # no room to copy to: everything is still in the WAL, whose syncs tell of their own faults
        finally:
            connection.close()
