"""The log role: the relay that moves journals into the log, and the archiver behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.events.errors import TidegateError
from tidegate.events.log.port import EventLog
from tidegate.events.relay import Relay
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.process import Stopping
from tidegate.runtime.telemetry import logger

if TYPE_CHECKING:
    from tidegate.events.archive import Archiver

ARCHIVE_EVERY_S = 60.0
WATCH_EVERY_S = 0.1


def tell(folder: Path, error: Exception | None) -> None:
    """Log what hinders the relay in one journal; None when nothing does any more."""
    if error is None:
        logger().info("journal is relayed again", slot=folder.name)
        return
    code = error.code if isinstance(error, TidegateError) else type(error).__name__
    logger().error("journal cannot be relayed", slot=folder.name, code=code, why=str(error))


class LogRole:
    """One process per machine: it alone writes gateway events into the log."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._archived_rows = 0

    async def run(self, stopping: Stopping) -> None:
        """Relay until told to stop, then until nothing synced is left."""
        machine = self._machine
        log = machine.open_log(("relay",))
        relay = Relay(
            machine.data_dir,
            log,
            machine.clock,
            machine.ids,
            orphan_after_s=machine.settings.log.orphan_after_s,
            report=tell,
        )
        metrics = MetricsServer(machine.run_dir, "log", lambda: self._numbers(relay))
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(metrics.run())
                archiving = tasks.create_task(self._archive(log)) if machine.settings.log.archive else None
                try:
                    logger().info("log role runs")
                    await relay.run(stopping)
                finally:
                    serving.cancel()
                    if archiving is not None:
                        archiving.cancel()
        finally:
            relay.close()
            await log.close()

    def _numbers(self, relay: Relay) -> dict[str, float]:
        return {
            "relay_events_total": relay.sent(),
            "relay_lag_events": relay.lag(),
            "relay_journals_failing": relay.failing(),
            "archived_rows_total": self._archived_rows,
        }

    async def _archive(self, log: EventLog) -> None:
        from tidegate.events.archive import Archiver

        machine = self._machine
        archiver = await asyncio.to_thread(Archiver, log, machine.archive_dir)
        try:
            while True:
                await asyncio.sleep(ARCHIVE_EVERY_S)
                try:
                    await self._archive_once(log, archiver)
                except TidegateError as error:
                    # The relay must go on whatever the archive says; nothing is deleted that is not archived.
                    logger().error("archive stands still", code=error.code, why=str(error))
        finally:
            archiver.close()

    async def _archive_once(self, log: EventLog, archiver: "Archiver") -> None:
        from tidegate.events.archive_retention import delete_archived
        from tidegate.events.log.sqlite import SqliteEventLog

        machine = self._machine
        now_ns = machine.clock.wall_ns()
        done = await archiver.run(now_ns - int(machine.settings.log.archive_after_s * 1e9))
        self._archived_rows += done.rows
        if done.holes:
            logger().error("records were dropped before they were archived", count=len(done.holes))
        if isinstance(log, SqliteEventLog):
            await delete_archived(log, archiver.manifest, frozenset({"relay"}), now_ns)

    def drain(
        self, data_dir: Path, watch: Callable[[int, int], None] = lambda _sent, _of: None
    ) -> Callable[[Stopping], Awaitable[None]]:
        """A role that drains another folder's orphaned journals and ends; `watch` is told the events sent, and
        how many there are.
        """

        async def run(_stopping: Stopping) -> None:
            machine = self._machine
            log = machine.open_log(("relay",))
            relay = Relay(data_dir, log, machine.clock, machine.ids, report=tell)
            watching = asyncio.ensure_future(_watch(relay, watch))
            try:
                await relay.drain()
                logger().info("drained", path=str(data_dir), count=relay.sent())
            except TidegateError as error:
                logger().error("not drained", code=error.code, why=str(error))
                raise
            finally:
                watching.cancel()
                relay.close()
                await log.close()

        return run


async def _watch(relay: Relay, watch: Callable[[int, int], None]) -> None:
    while True:
        sent = relay.sent()
        watch(sent, sent + relay.lag())
        await asyncio.sleep(WATCH_EVERY_S)
