"""The estimator fed by faust: same engine, same state, Kafka only."""

import asyncio

from tidegate.estimator.faust_app import FaustRunner
from tidegate.runtime.dead_letters import DeadLetters
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping, run_role
from tidegate.runtime.routing_follower import RoutingFollower
from tidegate.runtime.telemetry import logger


def run_faust(machine: Machine, parent_fd: int | None) -> None:
    """Run the faust runner until told to stop. Raises ConfigInvalid when the log is not Kafka."""
    run_role(_FaustRole(machine).run, parent_fd)


class _FaustRole:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def run(self, stopping: Stopping) -> None:
        machine = self._machine
        journal = await machine.open_journal("estimator")
        control = machine.open_log()
        follower = RoutingFollower(control, machine.settings.routing())
        runner = FaustRunner(
            lambda: machine.open_log(("estimator",)),
            machine.kafka_settings(),
            machine.clock,
            machine.ids,
            follower,
            DeadLetters(journal),
            machine.settings.estimator.publish_every_s,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(follower.run())
                try:
                    logger().info("estimator runs on faust")
                    await runner.run(stopping)
                finally:
                    following.cancel()
        finally:
            await control.close()
            await journal.close()
