"""Folds the whole log into a new file, proves it equal to the live one, and puts it in its place."""

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.events.errors import LogCorrupt
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.projections.batch import Halt
from tidegate.projections.content import Content, content, differing
from tidegate.projections.errors import StoreUnusable
from tidegate.projections.limits import Limits
from tidegate.projections.ports import Watch, unwatched
from tidegate.projections.progress import Progress
from tidegate.projections.recovery import wal_of
from tidegate.projections.runner import Gap, Pace, Runner
from tidegate.projections.store import Store


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """A new file, closed. `halted` and `gaps` must be empty for it to hold everything."""

    path: str
    events: int
    rows: int
    content: Content
    halted: tuple[Halt, ...]
    gaps: tuple[Gap, ...]


class Swapped(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a swap: `differing` names the tables whose content was not the same; `compared` is
    False when there was no readable live file."""

    swapped: bool
    compared: bool
    differing: tuple[str, ...]
    rows: int


def next_path(path: Path) -> Path:
    """Where a rebuild of the database at `path` is written."""
    return path.with_name(path.name + ".next")


async def rebuild(log: EventLog, path: Path, limits: Limits, watch: Watch = unwatched) -> Rebuilt:
    """Fold everything the log holds now, from position 0, into `next_path(path)`; the live file is not
    touched. The log must span its archive. Raises Unavailable (the log cannot be reached), StoreUnusable.
    """
    target = next_path(path)
    for stale in (target, wal_of(target)):
        stale.unlink(missing_ok=True)
    store = Store.open(target, limits)
    try:
        runner = Runner(
            log,
            store,
            Progress(store.positions()),
            dead_letters=_known_dead_letters,
            alarm=_Reported(),
            pace=Pace(linger_s=0.0, poll_s=0.2),
        )
        try:
            await runner.catch_up(watch)
        finally:
            runner.close()
        return Rebuilt(
            path=str(target),
            events=runner.counts.events,
            rows=runner.counts.rows,
            content=content(store.connection),
            halted=tuple(runner.halted.values()),
            gaps=tuple(runner.gaps.values()),
        )
    finally:
        store.close()


def adopt(path: Path, limits: Limits, *, force: bool = False) -> Swapped:
    """Put the rebuilt file in the place of the live one when both hold the same, as far as both have come.

    No process may have either open. With `force` also when they differ: then the old file is kept as
    `<name>.old`. Raises StoreUnusable when there is no rebuilt file, StoreTaken.
    """
    target = next_path(path)
    if not target.exists():
        raise StoreUnusable(f"there is no rebuilt file {target}")
    unequal, rows = _compare(path, target, limits)
    found = Swapped(
        swapped=not unequal or force, compared=unequal is not None, differing=unequal or (), rows=rows
    )
    if not found.swapped:
        return found
    if unequal:
        old = path.with_name(path.name + ".old")
        old.unlink(missing_ok=True)
        os.link(path, old)
    wal_of(path).unlink(missing_ok=True)  # closing wrote it into the file; a stale one must not meet the new
    target.replace(path)
    return found


def _compare(path: Path, target: Path, limits: Limits) -> tuple[tuple[str, ...] | None, int]:
    """Tables that differ up to where both have come (None: no live file to compare), rows of the new file."""
    with closing(Store.open(target, limits)) as new:
        rows = sum(table.rows for table in content(new.connection).values())
        live = _open_live(path, limits)
        if live is None:
            return None, rows
        with closing(live):
            up_to = _common(live.positions(), new.positions())
            return tuple(differing(content(live.connection, up_to), content(new.connection, up_to))), rows


def _open_live(path: Path, limits: Limits) -> Store | None:
    """The live store, None when there is none that can be read."""
    if not path.exists():
        return None
    try:
        return Store.open(path, limits)
    except StoreUnusable:
        return None


def _common(
    left: Mapping[TopicPartition, int], right: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {where: min(left[where], right[where]) for where in left.keys() & right.keys()}


class _Reported:
    """The report names what a rebuild met."""

    def halted(self, halt: Halt) -> None:
        pass

    def damaged(self, error: LogCorrupt) -> None:
        pass

    def started_over(self, aside: Path, reason: str) -> None:
        pass


async def _known_dead_letters(_record: Record, _reason: str) -> None:
    """A rebuild meets only what the first reading has reported already."""
