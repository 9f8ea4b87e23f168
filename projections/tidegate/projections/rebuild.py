"""Folds the whole log into a new file, proves it equal to the live one, and puts it in its place."""

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.events.errors import LogCorrupt
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.topics import DEADLETTER
from tidegate.projections.batch import Halt
from tidegate.projections.content import Content, content, differing
from tidegate.projections.errors import StoreUnusable
from tidegate.projections.limits import Limits
from tidegate.projections.ports import Watch, unwatched
from tidegate.projections.progress import Progress
from tidegate.projections.recovery import wal_of
from tidegate.projections.runner import Gap, Pace, Runner
from tidegate.projections.store import Store

_UNREAD = "rebuild_unread"
"""Table that only a rebuilt file has, and only when it does not hold the whole log."""

NAMED_DEAD_LETTERS = 5
"""How many dead letters a report names one by one."""


class DeadRecord(msgspec.Struct, frozen=True):
    """Where a record stands that cannot be read, and why."""

    topic: str
    partition: int
    offset: int
    reason: str


class DeadLetters(msgspec.Struct, frozen=True):
    """Records that are left out because nobody can read them: how many, the topic that tells of them, the first."""

    count: int
    topic: str
    first: tuple[DeadRecord, ...]


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """A new file, closed. `halted` and `gaps` must be empty for it to hold everything."""

    path: str
    events: int
    rows: int
    content: Content
    halted: tuple[Halt, ...]
    gaps: tuple[Gap, ...]
    dead_letters: DeadLetters


class Swapped(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a swap: `differing` names the tables whose content was not the same, `unread` what the new
    file does not hold of the log; `compared` is False when there was no readable live file."""

    swapped: bool
    compared: bool
    differing: tuple[str, ...]
    rows: int
    unread: tuple[str, ...] = ()
    kept: str | None = None
    """Where the file that was replaced by force is now."""


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
        dead = _Dead()
        runner = Runner(
            log,
            store,
            Progress(store.positions()),
            dead_letters=dead.letter,
            alarm=_Reported(),
            pace=Pace(linger_s=0.0, poll_s=0.2),
        )
        try:
            await runner.catch_up(watch)
        finally:
            runner.close()
        _note_unread(store, runner.halted.values(), runner.gaps.values())
        return Rebuilt(
            path=str(target),
            events=runner.counts.events,
            rows=runner.counts.rows,
            content=content(store.connection),
            halted=tuple(runner.halted.values()),
            gaps=tuple(runner.gaps.values()),
            dead_letters=DeadLetters(dead.count, DEADLETTER.name, tuple(dead.first)),
        )
    finally:
        store.close()


def adopt(path: Path, limits: Limits, *, force: bool = False) -> Swapped:
    """Put the rebuilt file in the place of the live one when it holds the whole log and both hold the same, as
    far as both have come.

    No process may have either open. With `force` also when a part was not read or they differ: then the old file
    is kept as `<name>.old`. Raises StoreUnusable when there is no rebuilt file, StoreTaken.
    """
    target = next_path(path)
    if not target.exists():
        raise StoreUnusable(f"there is no rebuilt file {target}")
    found = _compare(path, target, limits)
    doubtful = bool(found.differing or found.unread)
    if doubtful and not force:
        return found
    kept = _keep(path) if doubtful and path.exists() else None
    wal_of(path).unlink(missing_ok=True)  # closing wrote it into the file; a stale one must not meet the new
    target.replace(path)
    return msgspec.structs.replace(found, swapped=True, kept=kept)


def _keep(path: Path) -> str:
    """A second name for the live file, so that it outlasts its replacement."""
    old = path.with_name(path.name + ".old")
    old.unlink(missing_ok=True)
    os.link(path, old)
    return str(old)


def _compare(path: Path, target: Path, limits: Limits) -> Swapped:
    """Not swapped yet: what differs up to where both have come, and what the new file lacks."""
    with closing(Store.open(target, limits)) as new:
        rows = sum(table.rows for table in content(new.connection).values())
        unread = _unread(new)
        live = _open_live(path, limits)
        differs: list[str] = []
        if live is not None:
            with closing(live):
                up_to = _common(live.positions(), new.positions())
                differs = differing(content(live.connection, up_to), content(new.connection, up_to))
        return Swapped(
            swapped=False, compared=live is not None, differing=tuple(differs), rows=rows, unread=unread
        )


def _note_unread(store: Store, halts: Iterable[Halt], gaps: Iterable[Gap]) -> None:
    """Write into the file what it lacks: whoever adopts it is another process, and may come much later."""
    reasons = [f"stopped in {halt.where.topic}/{halt.where.partition}: {halt.reason}" for halt in halts]
    reasons += [
        f"{gap.topic}/{gap.partition}: the log no longer has the records from {gap.position} to before {gap.oldest}"
        for gap in gaps
    ]
    if reasons:
        store.connection.execute(
            f"CREATE TABLE {_UNREAD} AS SELECT unnest($1::VARCHAR[]) AS reason", [reasons]
        )


def _unread(store: Store) -> tuple[str, ...]:
    known = store.connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE table_name = $1", [_UNREAD]
    ).fetchone()
    if known == (0,):
        return ()
    reasons = store.connection.execute(f"SELECT reason FROM {_UNREAD} ORDER BY rowid").fetchall()  # noqa: S608 - our own name
    return tuple(reason for (reason,) in reasons)


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


class _Dead:
    """A rebuild meets only what the first reading has put into the topic already: it is counted, not told again."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[DeadRecord] = []

    async def letter(self, record: Record, reason: str) -> None:
        self.count += 1
        if len(self.first) < NAMED_DEAD_LETTERS:
            self.first.append(DeadRecord(record.topic, record.partition, record.offset, reason))
