"""The default runner: reads signals through the log port, on any log."""

import asyncio
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
    ) -> None:
        self._open_log = open_log
        self._clock = clock
        self._ids = ids
        self._routing = routing
        self._alarms = alarms
        self._publish_every_s = publish_every_s
        self.engine: Engine | None = None
        self.restarts = 0

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Until told to stop. Raises Fenced: another estimator runs these partitions."""
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
            except Fenced:
                if self.restarts == 0 and self.engine is not None and self.engine.applied == 0:
                    raise
                # Stopped past the transaction timeout: the coordinator moved on, we open again once.
                self.restarts += 1
                await asyncio.sleep(pause_s)

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
                    committing = asyncio.ensure_future(engine.commit())
                    await asyncio.sleep(0)
                elif 0 < len(records) < GATHER_RECORDS:
                    await asyncio.sleep(GATHER_S)
            if committing is not None:
                await committing
            await engine.commit()
        finally:
            if committing is not None:
                await asyncio.gather(committing, return_exceptions=True)
            if reader is not None:
                await reader.close()
            await engine.close()
            await log.close()
