"""A small disk for the processes of a test: a tmpfs in a mount namespace of its own, nothing of the system changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

_MOUNT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && echo mounted && read -r _'
_CHUNK = b"\0" * 4_096


class TinyDisk:
    """A file system of `size` bytes at `folder`, seen by the commands that run behind `wrapper`."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._holder: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        if shutil.which("unshare") is None or shutil.which("nsenter") is None:
            pytest.skip("no unshare and nsenter here")
        self._folder.mkdir(parents=True, exist_ok=True)
        users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        self._holder = subprocess.Popen(
            ["unshare", "--mount", *users, "sh", "-c", _MOUNT, "sh", str(self._size), self._folder],
            stdin=subprocess.PIPE,  # closed when the test dies, however it dies: then the disk is gone, too
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"mounted\n":
            _, why = self._holder.communicate()
            pytest.skip(f"this machine mounts no tmpfs in a namespace: {why.decode().strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.communicate()

    @property
    def wrapper(self) -> list[str]:
        """Put before a command, it runs that command where the disk is."""
        users = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--mount", *users, f"--target={self._holder.pid}"]

    def path(self, path: Path) -> Path:
        """Where a path on the disk can be reached from outside."""
        return Path(f"/proc/{self._holder.pid}/root") / path.relative_to("/")

    def fill(self) -> None:
        """Leave not a byte free."""
        with self.path(self._folder / "filler").open("ab", buffering=0) as filler:
            while True:
                try:
                    filler.write(_CHUNK)
                except OSError:
                    return

    def free(self) -> None:
        """Take the filling away."""
        self.path(self._folder / "filler").unlink()
