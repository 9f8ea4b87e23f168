"""A read model under test: filled from a log in memory, asked directly."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from support.history import History, append
from tidegate.events.clock import ManualClock
from tidegate.events.errors import LogCorrupt
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import EventLog, Outgoing, Record
from tidegate.projections.batch import Halt
from tidegate.projections.content import Content, content
from tidegate.projections.limits import Limits
from tidegate.projections.progress import Progress
from tidegate.projections.query import Answer
from tidegate.projections.runner import Pace, Runner
from tidegate.projections.store import Store

LIMITS = Limits(
    memory_mb=128,
    temp_mb=64,
    query_slots=2,
    query_memory_mb=48,
    query_timeout_s=20,
    position_wait_s=20,  # a busy machine is no failure
)
PACE = Pace(linger_s=0.0, poll_s=0.05)


class Heard:
    """Alarm and dead letters that remember."""

    def __init__(self) -> None:
        self.halts: list[Halt] = []
        self.restarts: list[tuple[Path, str]] = []
        self.damages: list[str] = []
        self.dead: list[tuple[Record, str]] = []

    def halted(self, halt: Halt) -> None:
        self.halts.append(halt)

    def damaged(self, error: LogCorrupt) -> None:
        self.damages.append(str(error))

    def started_over(self, aside: Path, reason: str) -> None:
        self.restarts.append((aside, reason))

    async def dead_letter(self, record: Record, reason: str, /) -> None:
        self.dead.append((record, reason))


async def memory_log(records: Iterable[Outgoing] = ()) -> MemoryEventLog:
    """A log that holds these records."""
    log = MemoryEventLog(ManualClock())
    await append(log, records)
    return log


@asynccontextmanager
async def running(
    log: EventLog, path: Path, heard: Heard | None = None, pace: Pace = PACE, limits: Limits = LIMITS
) -> AsyncGenerator[tuple[Runner, Store]]:
    """A runner and its store; both closed at the end."""
    ears = Heard() if heard is None else heard
    store = Store.open(path, limits)
    runner = Runner(
        log,
        store,
        Progress(store.positions()),
        dead_letters=ears.dead_letter,
        alarm=ears,
        pace=pace,
    )
    try:
        yield runner, store
    finally:
        runner.close()
        store.close()


async def folded(log: EventLog, path: Path, heard: Heard | None = None, pace: Pace = PACE) -> Content:
    """Content of a read model at `path` once it has caught up with the log."""
    async with running(log, path, heard, pace) as (runner, store):
        await runner.catch_up()
        return content(store.connection)


async def filled(path: Path, history: History) -> None:
    """Fold a history into a database at `path`."""
    await folded(await memory_log(history.outgoing()), path)


def asked(path: Path, sql: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Rows of a query on a closed database."""
    store = Store.open(path, LIMITS)
    try:
        return store.connection.execute(sql, params).fetchall()
    finally:
        store.close()


def dicts(path: Path, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Rows of a query on a closed database, by column name."""
    store = Store.open(path, LIMITS)
    try:
        result = store.connection.execute(sql, params)
        names = [column[0] for column in result.description or []]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    finally:
        store.close()


def rows_in(answer: Answer) -> list[list[Any]]:
    """Decoded rows of an answer."""
    rows: list[list[Any]] = msgspec.json.decode(answer.rows)
    return rows


async def until(condition: Any, timeout_s: float = 20.0) -> None:
    """Return when `condition()` is true; each look gives the loop a turn."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
