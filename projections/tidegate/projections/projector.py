"""The projector: one process that folds the log into its database and answers queries from it."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from tidegate.events.errors import TidegateError, Unavailable
from tidegate.events.log.port import EventLog
from tidegate.projections.batch import Halt
from tidegate.projections.limits import Limits
from tidegate.projections.ports import Alarm, DeadLetters
from tidegate.projections.progress import Progress
from tidegate.projections.protocol import Ask
from tidegate.projections.query import Answer, QueryEngine
from tidegate.projections.rebuild import Swapped, adopt
from tidegate.projections.recovery import Opened, open_or_start_over
from tidegate.projections.runner import Counts, Gap, Pace, Runner
from tidegate.projections.server import QueryServer
from tidegate.projections.sqlguard import SqlGuard


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How the projector is; counts are since the database was opened."""

    positions: list[tuple[str, int, int]]
    """(topic, partition, next offset)."""
    counts: Counts
    halted: tuple[Halt, ...]
    gaps: tuple[Gap, ...]
    started_over: str | None
    """Why the database file was begun anew when it was opened, None when it was not."""
    damage: str | None = None
    """Why nothing is folded now, when the log or its archive is damaged."""


class _Live:
    """An open database with the runner that fills it and the engine that asks it."""

    def __init__(self, opened: Opened, engine: QueryEngine, progress: Progress, runner: Runner) -> None:
        self.opened = opened
        self.engine = engine
        self.progress = progress
        self.runner = runner

    async def close(self) -> None:
        self.runner.close()
        self.engine.close()
        await asyncio.to_thread(self.opened.store.close)


class Projector:
    """`run` until told to stop. Also the handler behind the query socket."""

    def __init__(
        self,
        log: EventLog,
        database: Path,
        socket: Path,
        *,
        dead_letters: DeadLetters,
        alarm: Alarm,
        limits: Limits | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._log = log
        self._database = database
        self._dead_letters = dead_letters
        self._alarm = alarm
        self._limits = Limits() if limits is None else limits
        self._pace = pace
        self._guard = SqlGuard()
        self._server = QueryServer(socket, self)
        self._live: _Live | None = None
        self._pause = asyncio.Event()
        self._swap: asyncio.Future[Swapped] | None = None
        self._force = False
        self.ready = asyncio.Event()
        """Set once the socket listens."""

    async def run(self, stop: asyncio.Event) -> None:
        """Fold and answer until `stop` is set.

        Raises StoreTaken, StoreUnusable, Refused (socket path); the log may come and go.
        """
        tell = _nobody
        try:
            while not stop.is_set():
                live = self._live = await self._open()
                tell()
                try:
                    if not self.ready.is_set():
                        await self._server.start()
                        self.ready.set()
                    await self._follow(live, stop)
                finally:
                    self._live = None
                    await live.close()
                tell = await self._take_over()
            tell()
        finally:
            await self._server.close()
            self._guard.close()

    async def query(self, ask: Ask) -> Answer:
        """Answer one SELECT; see `QueryEngine.query`. Also raises NotCaughtUp, Unavailable."""
        live = self._opened()
        wanted = ask.wanted()
        if wanted:
            await live.progress.wait(wanted, self._limits.position_wait_s)
        return await live.engine.query(ask.sql, ask.params, max_rows=ask.max_rows, timeout_s=ask.timeout_s)

    def status(self) -> Status:
        """How far the read model is and what holds it up. Raises Unavailable during a swap."""
        live = self._opened()
        return Status(
            positions=[
                (at.topic, at.partition, position) for at, position in live.progress.positions.items()
            ],
            counts=live.runner.counts,
            halted=tuple(live.runner.halted.values()),
            gaps=tuple(live.runner.gaps.values()),
            started_over=live.opened.reason,
            damage=live.runner.damage,
        )

    async def swap(self, *, force: bool) -> Swapped:
        """Take over the file `rebuild` wrote; queries are refused meanwhile. See `rebuild.adopt`."""
        self._opened()
        if self._swap is not None:
            raise Unavailable("a swap is under way", retry_after_s=1.0)
        self._force = force
        self._swap = asyncio.get_running_loop().create_future()
        self._pause.set()
        return await asyncio.shield(self._swap)

    def _opened(self) -> _Live:
        if self._live is None:
            raise Unavailable("the read model is not open now", retry_after_s=1.0)
        return self._live

    async def _open(self) -> _Live:
        opened = await asyncio.to_thread(open_or_start_over, self._database, self._limits)
        if opened.moved_aside is not None:
            self._alarm.started_over(opened.moved_aside, opened.reason or "")
        progress = Progress(opened.store.positions())
        runner = Runner(
            self._log,
            opened.store,
            progress,
            dead_letters=self._dead_letters,
            alarm=self._alarm,
            pace=self._pace,
        )
        engine = QueryEngine(opened.store.source, self._limits, self._guard)
        return _Live(opened, engine, progress, runner)

    async def _follow(self, live: _Live, stop: asyncio.Event) -> None:
        """Run until `stop` or a swap."""
        pause = self._pause = asyncio.Event()
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _: pause.set())
        try:
            await live.runner.run(pause)
        finally:
            stopping.cancel()

    async def _take_over(self) -> Callable[[], None]:
        """Do the swap that was asked for, if one was, while nothing is open; the result tells who asked."""
        asked, self._swap = self._swap, None
        if asked is None:
            return _nobody
        try:
            found = await asyncio.to_thread(adopt, self._database, self._limits, force=self._force)
        except TidegateError as error:
            return partial(_fail, asked, error)
        return partial(asked.set_result, found)


def _nobody() -> None:
    """Nobody asked for a swap."""


def _fail(asked: asyncio.Future[Swapped], error: TidegateError) -> None:
    asked.set_exception(error)
    asked.exception()  # seen: the client may have gone
