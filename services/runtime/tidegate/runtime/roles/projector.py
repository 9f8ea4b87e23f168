"""The projector role: the one DuckDB writer, and the socket that answers SQL."""

import asyncio
from pathlib import Path

from tidegate.events.archive_log import ArchivedLog
from tidegate.events.errors import LogCorrupt, Unavailable
from tidegate.events.log.port import Record
from tidegate.projections.batch import Halt
from tidegate.projections.projector import Projector
from tidegate.runtime.dead_letters import DeadLetters
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.process import Stopping, kept_up
from tidegate.runtime.telemetry import logger


class ProjectorRole:
    """One projector process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def run(self, stopping: Stopping) -> None:
        """Fold and answer until told to stop."""
        machine = self._machine
        journal = await machine.open_journal("projector")
        log = ArchivedLog(machine.open_log(), machine.archive_dir)
        letters = DeadLetters(journal)

        async def dead_letter(record: Record, reason: str, /) -> None:
            letters.dead_letter(record, reason)

        projector = Projector(
            log, machine.projections_path, machine.query_socket, dead_letters=dead_letter, alarm=_Alarm()
        )
        metrics = MetricsServer(machine.run_dir, "projector", lambda: _numbers(projector, letters))
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(kept_up("metrics", metrics.run))
                try:
                    logger().info("projector runs")
                    await projector.run(stopping.event)
                finally:
                    serving.cancel()
        finally:
            await log.close()
            await journal.close()


class _Alarm:
    def halted(self, halt: Halt) -> None:
        """A partition stopped."""
        logger().error(
            "projection of a partition stopped", topic=halt.where.topic, partition=halt.where.partition
        )

    def damaged(self, error: LogCorrupt) -> None:
        """Nothing can be folded now."""
        logger().error("the log cannot be followed", code=error.code, why=str(error))

    def started_over(self, aside: Path, reason: str) -> None:
        """The file was unusable."""
        logger().error("read model is built anew", path=str(aside), why=reason)


def _numbers(projector: Projector, letters: DeadLetters) -> dict[str, float]:
    numbers: dict[str, float] = {"dead_letters_total": letters.count}
    try:
        status = projector.status()
    except Unavailable:  # during a swap
        return numbers
    numbers["projected_events_total"] = status.counts.events
    numbers["projected_rows_total"] = status.counts.rows
    numbers["partitions_stopped"] = len(status.halted)
    numbers["log_damaged"] = float(status.damage is not None)
    numbers["log_gaps"] = len(status.gaps)
    return numbers
