"""Opens the read model whatever state its file is in: it is disposable, so damage means a new file."""

import os
from pathlib import Path
from typing import NamedTuple

from tidegate.projections.errors import StoreUnusable
from tidegate.projections.limits import Limits
from tidegate.projections.store import Store


class Opened(NamedTuple):
    """An open store; `moved_aside` and `reason` tell of the file it replaced."""

    store: Store
    moved_aside: Path | None = None
    reason: str | None = None


def open_or_start_over(path: Path, limits: Limits) -> Opened:
    """Open the database; one that is damaged or of another schema is moved aside and begun anew at
    position 0 (the runner then folds the whole log again).

    Raises StoreTaken (another process has it), StoreUnusable (the folder or file cannot be written).
    """
    _check_writable(path)
    try:
        return Opened(Store.open(path, limits))
    except StoreUnusable as error:
        aside = move_aside(path, ".broken")
        return Opened(Store.open(path, limits), aside, str(error))


def wal_of(path: Path) -> Path:
    """The write-ahead log DuckDB keeps beside a database."""
    return path.with_name(path.name + ".wal")


def move_aside(path: Path, suffix: str) -> Path:
    """Rename the database and its write-ahead log; an older file of that name is replaced."""
    aside = path.with_name(path.name + suffix)
    wal_of(aside).unlink(missing_ok=True)
    path.replace(aside)
    if wal_of(path).exists():
        wal_of(path).replace(wal_of(aside))
    return aside


def _check_writable(path: Path) -> None:
    """What only an operator can mend must not look like damage."""
    for part in (path.parent, path, wal_of(path)):
        if part.exists() and not os.access(part, os.R_OK | os.W_OK):
            raise StoreUnusable(f"{part} cannot be read and written: check its owner and mode")
    if not path.parent.is_dir():
        raise StoreUnusable(f"{path.parent} is no folder")
