"""Files that the first process makes and all others read: whole or not there, also after a loss of power."""

import contextlib
import os
import secrets
from pathlib import Path


def make_once(path: Path, content: bytes) -> None:
    """Make the file, for its owner only, unless it is there: whoever is first has made it. Raises OSError.

    What a process killed in between leaves aside is never taken for the file.
    """
    if path.exists():
        return
    # Not by pid: two containers on one volume may have the same.
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(aside)
    finally:
        aside.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
