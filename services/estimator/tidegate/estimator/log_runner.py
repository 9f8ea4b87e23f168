"""The default runner: reads signals through the log port, on any log."""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from tidegate.estimator.engine import MAX_UNCOMMITTED, Alarms, Engine
from tidegate.events.clock import Clock
from tidegate.events.config import Routing
from tidegate.events.errors import AckUnknown, Fenced, LogUnavailable
from tidegate.events.ids import IdSource
from tidegate.events.log.port import EventLog, Reader

POLL_RECORDS = 20_000
"""Of a backlog: the models take many events of many subjects in hardly more time than a few."""
POLL_S = 0.02
GATHER_S = 0.015
"""Of a steady stream: a batch of a few events costs nearly what one of hundreds does."""
GATHER_RECORDS = 500
RETRY_S = 0.2
RETRY_MAX_S = 2.0
AGAIN_NS = 60_000_000_000


class Routings(Protocol):
    """Which config is in force now."""

    def __call__(self) -> Routing:
        """The routing; the same object until it changes."""
        ...


class LogRunner:
    """Runs an engine; after a fault of the log it opens a new one from the stored state."""

    def __init__(
        self,
        open_log: Callable[[], EventLog],
        clock: Clock,
        ids: IdSource,
        routing: Routings,
        alarms: Alarms,
        publish_every_s: float = 0.25,
        transaction_timeout_s: float = math.inf,
    ) -> None:
        """`transaction_timeout_s`: when the log aborts by itself what nobody commits; inf: it never does."""
        self._open_log = open_log
        self._clock = clock
        self._ids = ids
        self._routing = routing
        self._alarms = alarms
        self._publish_every_s = publish_every_s
        self._timeout_ns = transaction_timeout_s * 1e9
        self._stood_still_ns: int | None = None
        self.engine: Engine | None = None
        self.restarts = 0

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Until told to stop. Raises Fenced: a younger estimator runs these partitions, and they stay with it."""
        pause_s = RETRY_S
        while not stopping():
            try:
                await self._run_engine(stopping)
                return
            except (LogUnavailable, AckUnknown):
                # Nothing is lost: the stored state knows its position, and what came after is folded again.
                self.restarts += 1
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)

    async def _run_engine(self, stopping: Callable[[], bool]) -> None:
        log = self._open_log()
        engine = self.engine = Engine(
            log, self._clock, self._ids, self._routing(), self._alarms, self._publish_every_s
        )
        reader: Reader | None = None
        committing: asyncio.Task[None] | None = None
        try:
            reader = log.reader(await engine.open())
            while not stopping():
                if self._routing() is not engine.routing:
                    engine.configure(self._routing())
                records = await reader.poll(POLL_RECORDS, POLL_S)
                engine.take(records)
                # Folding a backlog leaves a commit few turns of the loop: without a bound it would pass its
                # deadline, and the next engine would meet the same backlog again.
                if committing is not None and (committing.done() or engine.uncommitted >= MAX_UNCOMMITTED):
                    await committing
                    committing = None
                if committing is None and engine.is_due(behind=len(records) >= POLL_RECORDS):
                    committing = asyncio.ensure_future(self._commit(engine))
                    await asyncio.sleep(0)
                elif 0 < len(records) < GATHER_RECORDS:
                    await asyncio.sleep(GATHER_S)
            if committing is not None:
                await committing
            await self._commit(engine)
        finally:
            if committing is not None:
                await asyncio.gather(committing, return_exceptions=True)
            if reader is not None:
                await reader.close()
            await engine.close()
            await log.close()

    async def _commit(self, engine: Engine) -> None:
        """As the engine's; Fenced only when it was another estimator that fenced us.

        Opening anew would fence that one in turn, and so for ever. But a process that stood still in a commit
        for longer than the log waits is fenced by the log itself; not twice within a minute.
        """
        began_ns = self._clock.mono_ns()
        try:
            await engine.commit()
        except Fenced as error:
            now_ns, last_ns = self._clock.mono_ns(), self._stood_still_ns
            is_again = last_ns is not None and now_ns - last_ns < AGAIN_NS
            if now_ns - began_ns < self._timeout_ns or is_again:
                raise
            self._stood_still_ns = now_ns
            raise LogUnavailable("stood still for longer than the log waits for a commit") from error
