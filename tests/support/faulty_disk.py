"""Disks that fail on purpose: a SQLite VFS whose n-th call on a WAL fails, and a very small file system.

Only on a WAL: SQLite ignores a failed checkpoint, but an exception of a VFS in Python would still surface.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

_REAL = "unix"


class FaultPlan:
    """Counts writing calls; from the `fail_at`-th on (or only then) they raise SQLite's error `code`."""

    def __init__(self, fail_at: int | None, code: int, *, for_ever: bool, calls: frozenset[str]) -> None:
        self.count = 0
        self._fail_at = fail_at
        self._code = code
        self._for_ever = for_ever
        self._calls = calls

    def pass_or_fail(self, call: str) -> None:
        if call not in self._calls:
            return
        self.count += 1
        if self._fail_at is not None and (
            self.count == self._fail_at or (self._for_ever and self.count > self._fail_at)
        ):
            raise apsw.exception_for(self._code)

    def heal(self) -> None:
        """No call fails from now on."""
        self._fail_at = None


class _File(apsw.VFSFile):
    def __init__(self, plan: FaultPlan, name: Any, flags: list[int]) -> None:
        self._plan = plan
        self._is_wal = isinstance(name, apsw.URIFilename | str) and _path(name).endswith("-wal")
        super().__init__(_REAL, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._is_wal:
            self._plan.pass_or_fail("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._is_wal:
            self._plan.pass_or_fail("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if self._is_wal:
            self._plan.pass_or_fail("truncate")
        super().xTruncate(newsize)


def _path(name: apsw.URIFilename | str) -> str:
    return name if isinstance(name, str) else name.filename()


class _Vfs(apsw.VFS):
    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        super().__init__("faulty", _REAL, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802
        return _File(self._plan, name, flags)


@contextmanager
def failing_calls(plan: FaultPlan) -> Iterator[None]:
    """Every SQLite file opened inside goes through the plan."""
    vfs = _Vfs(plan)
    try:
        yield
    finally:
        vfs.unregister()


@contextmanager
def tiny_disk(folder: Path, size: str = "1m") -> Iterator[None]:
    """Mount a file system of `size` at `folder`; skips the test where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"this machine does not mount a tmpfs: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def make_read_only(folder: Path) -> None:
    """Remount a `tiny_disk` without the right to write: root ignores the mode of a folder."""
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
