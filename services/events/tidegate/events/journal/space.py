"""Room for settlements: a reserve file that only they may consume, and the watermark for new requests."""

import contextlib
import os
from pathlib import Path

from tidegate.events.errors import JournalUnwritable
from tidegate.events.journal.store import RESERVE


class Space:
    """Disk space of one slot. `is_low` turns new requests away before any upstream call."""

    def __init__(self, folder: Path, reserve_bytes: int, max_bytes: int) -> None:
        self._folder = folder
        self._reserve = folder / RESERVE
        self._reserve_bytes = reserve_bytes
        self._max_bytes = max_bytes
        self.is_low = False
        self.why: str | None = None

    def reserve(self) -> None:
        """Allocate the reserve for real blocks. Raises JournalUnwritable when the disk cannot hold it."""
        try:
            handle = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size < self._reserve_bytes:
                    _allocate(handle, self._reserve_bytes)
            finally:
                os.close(handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._reserve.unlink()
            raise JournalUnwritable(
                f"cannot reserve {self._reserve_bytes} bytes for settlements in {self._folder}:"
                f" {error.strerror}"
            ) from error

    def release(self) -> bool:
        """Give the reserve to the settlements that need it; False when it was already given."""
        if not self._reserve.exists():
            return False
        with contextlib.suppress(OSError):
            self._reserve.unlink()
        self.is_low, self.why = True, "the settlement reserve is in use"
        return True

    def check(self, used_bytes: int) -> None:
        """Measure the disk, judge the bytes of rows in the journal; take the reserve back once there is room
        for twice its size. Raises OSError when the disk cannot be asked."""
        stat = os.statvfs(self._folder)
        free = stat.f_bavail * stat.f_frsize
        has_reserve = self._reserve.exists()
        if not has_reserve and free > 2 * self._reserve_bytes:
            with contextlib.suppress(JournalUnwritable):
                self.reserve()
                has_reserve = True
        self.why = None
        if not has_reserve:
            self.why = "the settlement reserve is in use"
        elif free < self._reserve_bytes:
            self.why = f"{free} bytes free on the journal's disk, {self._reserve_bytes} needed"
        elif used_bytes > self._max_bytes:
            self.why = (
                f"journal holds {used_bytes} bytes, the cap is {self._max_bytes}: is the relay running?"
            )
        self.is_low = self.why is not None


def _allocate(handle: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    else:  # macOS
        os.truncate(handle, 0)
        for _ in range(size // 65_536 + 1):
            os.write(handle, b"\0" * 65_536)
