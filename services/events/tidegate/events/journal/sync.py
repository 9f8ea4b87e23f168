"""The one thread that makes commits durable: fdatasync of the open -wal file, outside SQLite's lock."""

import contextlib
import fcntl
import mmap
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import apsw

from tidegate.events.errors import JournalUnwritable
from tidegate.events.journal.store import DB, SYNCED, TRIFLE, open_checkpointer

MARK_BYTES = 8
IDLE_SYNC_S = 0.05
LOOK_S = 0.1
CHECKPOINT_PAGES = 4096
"""The relay frees pages soon and later rows fill them again: of a longer WAL more is never copied."""
HELD_PAGES = 1024
"""At most so many are copied while commits are held back."""


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
            os.ftruncate(handle, MARK_BYTES)
            self._map = mmap.mmap(handle, MARK_BYTES)
        finally:
            os.close(handle)
        # One aligned load or store of the machine: nobody sees half a mark. `struct` goes byte by byte.
        self._word = memoryview(self._map).cast("Q")

    def read(self) -> int:
        """The mark."""
        return self._word[0]

    def write(self, seq: int) -> None:
        """Publish a new mark."""
        self._word[0] = seq

    def close(self) -> None:
        """Release the mapping."""
        self._word.release()
        self._map.close()


class Progress(Protocol):
    """What the loop has committed, read by the sync thread: a single word, no lock needed."""

    committed_seq: int


class SyncThread:
    """Syncs on request at once, and idle commits within 50 ms; checkpoints beside the loop.

    Called from the thread: `on_synced(seq)` after each sync (everything up to `seq` was committed before that
    sync began), `on_released()` when commits need no longer be held back, `on_error` when no more promises can
    be made. While `holding`, SQLite's write lock is taken: who commits then blocks until it is free.
    """

    def __init__(
        self,
        folder: Path,
        progress: Progress,
        *,
        on_synced: Callable[[int], None],
        on_released: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._progress = progress
        self._on_synced = on_synced
        self._on_released = on_released
        self._on_error = on_error
        self._mark = SyncedMark(folder)
        self._wal = os.open(folder / (DB + "-wal"), os.O_RDONLY | os.O_CLOEXEC)
        self._checkpointer = open_checkpointer(folder / DB)
        self._wishes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._urgent = False
        self._stop = False
        self.holding = False
        self.syncs = 0
        self._synced = 0
        self._checkpoint_at_pages = CHECKPOINT_PAGES
        self._look_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="journal-sync", daemon=True)

    def start(self) -> None:
        """Sync what is there, then serve."""
        self._sync()
        self._thread.start()

    def request(self) -> None:
        """Ask for a sync now. A wish that is still open covers every commit made before its sync begins."""
        if not self._urgent:
            self._urgent = True
            self._wishes.put(None)

    def checkpoint_soon(self) -> None:
        """Ask for a checkpoint of whatever the WAL holds."""
        self._checkpoint_at_pages = 1

    def close(self) -> None:
        """Sync what was committed, end the thread."""
        self._stop = True
        self._wishes.put(None)
        self._thread.join()
        self._checkpointer.close()
        self._mark.close()
        os.close(self._wal)

    def _run(self) -> None:
        try:
            while not self._stop:
                with contextlib.suppress(queue.Empty):
                    self._wishes.get(timeout=IDLE_SYNC_S)
                if self._urgent or self._progress.committed_seq > self._synced:
                    self._urgent = False
                    self._sync()
                if time.monotonic() >= self._look_at_s:
                    self._look_at_s = time.monotonic() + LOOK_S
                    self._checkpoint()
            self._sync()
        except Exception as error:  # noqa: BLE001 - whatever ended the thread, nobody may wait for it for ever
            self._on_error(error)

    def _sync(self) -> None:
        seq = self._progress.committed_seq
        sync_file(self._wal)
        self.syncs += 1
        self._synced = seq
        self._mark.write(seq)
        self._on_synced(seq)

    def _checkpoint(self) -> None:
        """Copy a long WAL to the file and start it over, or it would grow for ever."""
        try:
            pages, _ = self._copy(apsw.SQLITE_CHECKPOINT_NOOP)
            if pages < self._checkpoint_at_pages:
                return
            pages, copied = self._copy(apsw.SQLITE_CHECKPOINT_PASSIVE)  # most of it, beside the commits
            self._checkpoint_at_pages = pages + CHECKPOINT_PAGES
            if pages - copied < HELD_PAGES:
                self._start_over()
        except apsw.BusyError:
            pass  # a reader stands in the way; later rounds go on from here
        except (apsw.FullError, apsw.IOError):
            pass  # no room to copy to: everything is still in the WAL, whose syncs tell of their own faults

    def _start_over(self) -> None:
        # Under a steady load a commit is always ahead of the copy, so the rest is copied with commits held
        # back. The trifle is the write that starts the WAL over: it syncs the new header here, not in the loop.
        self.holding = True
        try:
            pages, copied = self._copy(apsw.SQLITE_CHECKPOINT_FULL)
            if pages == copied:
                self._checkpointer.execute(TRIFLE)
                self._checkpoint_at_pages = CHECKPOINT_PAGES
        finally:
            self.holding = False
            self._on_released()

    def _copy(self, mode: int) -> tuple[int, int]:
        pages, copied = self._checkpointer.wal_checkpoint(mode=mode)
        if pages < 0:
            raise JournalUnwritable(
                "a checkpoint did nothing: SQLite takes the journal for a file without WAL"
            )
        return pages, copied
