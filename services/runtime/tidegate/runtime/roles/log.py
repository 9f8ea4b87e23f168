"""The log role: the relay that moves journals into the log, and the archiver behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tidegate.events.errors import TidegateError
from tidegate.events.relay import Relay
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.process import Stopping, kept_up
from tidegate.runtime.roles.archiving import Archiving
from tidegate.runtime.telemetry import logger

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
        archiving = Archiving(machine, log)
        metrics = MetricsServer(machine.run_dir, "log", lambda: {**_numbers(relay), **archiving.numbers()})
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [tasks.create_task(kept_up("metrics", metrics.run))]
                if machine.settings.log.archive:
                    beside.append(tasks.create_task(archiving.run()))
                try:
                    logger().info("log role runs")
                    await relay.run(stopping)
                finally:
                    for task in beside:
                        task.cancel()
        finally:
            relay.close()
            await log.close()

    def drain(
        self,
        data_dir: Path,
        watch: Callable[[int, int], None] = lambda _sent, _of: None,
        sent: dict[str, int] | None = None,
    ) -> Callable[[Stopping], Awaitable[None]]:
        """A role that drains another folder's orphaned journals and ends; `watch` is told the events sent, and
        how many there are; `sent` holds at the end how many they were by journal.
        """

        async def run(_stopping: Stopping) -> None:
            machine = self._machine
            log = machine.open_log(("relay",))
            relay = Relay(data_dir, log, machine.clock, machine.ids, report=tell)
            watching = asyncio.ensure_future(_watch(relay, watch))
            try:
                await relay.drain()
                if sent is not None:
                    sent.update(relay.sent_by_journal())
                logger().info("drained", path=str(data_dir), count=relay.sent())
            except TidegateError as error:
                logger().error("not drained", code=error.code, why=str(error))
                raise
            finally:
                watching.cancel()
                relay.close()
                await log.close()

        return run


def _numbers(relay: Relay) -> dict[str, float]:
    return {
        "relay_events_total": relay.sent(),
        "relay_lag_events": relay.lag(),
        "relay_journals_failing": relay.failing(),
    }


async def _watch(relay: Relay, watch: Callable[[int, int], None]) -> None:
    while True:
        sent = relay.sent()
        watch(sent, sent + relay.lag())
        await asyncio.sleep(WATCH_EVERY_S)
