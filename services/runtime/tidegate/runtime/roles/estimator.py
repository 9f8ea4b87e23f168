"""The estimator role: the log runner, or the same engine fed by faust."""

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Literal, Protocol

from tidegate.estimator.engine import Engine
from tidegate.estimator.log_runner import LogRunner
from tidegate.events.errors import Fenced, TidegateError
from tidegate.events.log.port import EventLog
from tidegate.runtime.dead_letters import DeadLetters
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.process import BEHIND_GATEWAYS, CUT_AFTER_S, Stopping, kept_up, run_role
from tidegate.runtime.routing_follower import RoutingFollower
from tidegate.runtime.telemetry import logger

RETENTION_EVERY_S = 3_600.0
FENCED_BACK_OFF_S = 30.0


class Runner(Protocol):
    """What feeds an engine: through the log port, or through faust."""

    engine: Engine | None
    restarts: int

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Until told to stop."""
        ...


def run_estimator(machine: Machine, runner: Literal["log", "faust"], parent_fd: int | None) -> None:
    """Run the estimator with the named runner until told to stop. Raises ConfigInvalid: faust without Kafka."""
    role = EstimatorRole(machine, runner)
    run_role(role.run, parent_fd, behind=BEHIND_GATEWAYS, cut_after_s=CUT_AFTER_S)


class EstimatorRole:
    """One estimator process over all partitions."""

    def __init__(self, machine: Machine, runner: Literal["log", "faust"] = "log") -> None:
        self._machine = machine
        self._runner = runner
        self._is_fenced = False

    def _new_runner(self, follower: RoutingFollower, letters: DeadLetters) -> Runner:
        machine = self._machine
        rest = (machine.clock, machine.ids, follower, letters, machine.settings.estimator.publish_every_s)
        if self._runner == "faust":
            from tidegate.estimator.faust_app import FaustRunner

            return FaustRunner(self._open_log, machine.kafka_settings(), *rest)
        kafka = machine.settings.log.kind == "kafka"
        timeout_s = machine.kafka_settings().transaction_timeout_s if kafka else math.inf
        return LogRunner(self._open_log, *rest, transaction_timeout_s=timeout_s)

    def _open_log(self) -> EventLog:
        return self._machine.open_log(("estimator",))

    async def run(self, stopping: Stopping) -> None:
        """Fold and publish until told to stop. Raises Fenced when another estimator took over, a while later."""
        machine = self._machine
        journal = await machine.open_journal("estimator")
        control = machine.open_log()
        follower = RoutingFollower(control, machine.settings.routing())
        letters = DeadLetters(journal)
        runner = self._new_runner(follower, letters)
        metrics = MetricsServer(
            machine.run_dir, "estimator", lambda: _numbers(runner, letters, is_fenced=self._is_fenced)
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(kept_up("config", follower.run))
                serving = tasks.create_task(kept_up("metrics", metrics.run))
                cleaning = tasks.create_task(kept_up("retention", self._delete_archived))
                try:
                    logger().info("estimator runs", source=self._runner)
                    await runner.run(stopping)
                except Fenced:
                    await self._stand_back(stopping)
                    raise
                finally:
                    following.cancel()
                    serving.cancel()
                    cleaning.cancel()
        finally:
            await control.close()
            await journal.close()

    async def _stand_back(self, stopping: Stopping) -> None:
        """Leave the partitions to the estimator that took them: whoever starts this process again at once
        would have it take them back."""
        self._is_fenced = True
        logger().error(
            "another estimator took over", why="two of them on one log", backoff_s=FENCED_BACK_OFF_S
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FENCED_BACK_OFF_S):
                await stopping.event.wait()

    async def _delete_archived(self) -> None:
        """Snapshots older than their retention go once they are archived; only this role writes that file."""
        from tidegate.events.archive_manifest import Manifest
        from tidegate.events.archive_retention import delete_archived
        from tidegate.events.log.sqlite import SqliteEventLog

        machine = self._machine
        while True:
            await asyncio.sleep(RETENTION_EVERY_S)
            log = machine.open_log(("estimator",))
            try:
                if isinstance(log, SqliteEventLog):
                    manifest = Manifest(machine.archive_dir)
                    await delete_archived(log, manifest, frozenset({"estimator"}), machine.clock.wall_ns())
            except TidegateError as error:
                logger().error("old snapshots were not deleted", code=error.code, why=str(error))
            finally:
                await log.close()


def _numbers(runner: Runner, letters: DeadLetters, *, is_fenced: bool) -> dict[str, float]:
    engine = runner.engine
    return {
        "events_applied_total": 0 if engine is None else engine.applied,
        "duplicates_dropped_total": 0 if engine is None else engine.duplicates,
        "snapshots_published_total": 0 if engine is None else engine.outbox.snapshots,
        "restarts_total": runner.restarts,
        "dead_letters_total": letters.count,
        "partitions_stopped": len(letters.stops),
        "fenced": float(is_fenced),
    }
