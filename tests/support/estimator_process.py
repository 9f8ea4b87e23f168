"""An estimator to be killed: `estimator_process.py RUNNER SQLITE_FOLDER` or `… RUNNER BOOTSTRAP PREFIX STOP_AT`.

Reports `applied N` as it folds. With STOP_AT it stops itself (SIGSTOP) inside that commit to Kafka, when all
records of the transaction are sent and its end is not; 0: never.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.signals import routing
from tidegate.estimator.log_runner import LogRunner
from tidegate.events.clock import SystemClock
from tidegate.events.ids import IdSource
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.port import EventLog, Record, TopicPartition

PUBLISH_EVERY_S = 0.05
TRANSACTION_TIMEOUT_S = 3.0
SUBJECTS = 50
ROUTING = routing(SUBJECTS)


class Alarms:
    """Nothing in these tests is a dead letter or of the future."""

    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


def kafka_settings(bootstrap: str, prefix: str) -> KafkaSettings:
    return KafkaSettings(
        bootstrap,
        f"estimator-{os.getpid()}",
        prefix,
        replication=1,
        min_in_sync=1,
        ack_deadline_s=2.0,
        transaction_timeout_s=TRANSACTION_TIMEOUT_S,
    )


def made_runner(runner: str, where: list[str]) -> Any:
    clock = SystemClock()
    common = (clock, IdSource(clock, secrets.randbits), lambda: ROUTING, Alarms(), PUBLISH_EVERY_S)
    if len(where) == 1:
        from tidegate.events.log.sqlite import SqliteEventLog

        folder = Path(where[0])
        return LogRunner(lambda: SqliteEventLog.open(folder, frozenset({"estimator"}), clock), *common)
    from tidegate.events.log.kafka import KafkaEventLog

    settings = kafka_settings(*where)

    def open_log() -> EventLog:
        return KafkaEventLog(settings)

    if runner == "log":
        return LogRunner(open_log, *common, transaction_timeout_s=TRANSACTION_TIMEOUT_S)
    from tidegate.estimator.faust_app import FaustRunner

    return FaustRunner(open_log, settings, *common)


def stop_in_commit(number: int) -> None:
    """Make the process stop itself just before the end of its n-th transaction."""
    from aiokafka import AIOKafkaProducer

    commit: Callable[[Any], Any] = AIOKafkaProducer.commit_transaction
    left = number

    async def commit_transaction(self: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            print("stopping", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        await commit(self)

    AIOKafkaProducer.commit_transaction = commit_transaction  # type: ignore[method-assign]


async def main(runner: str, *where: str) -> None:
    *places, stop_at = where if len(where) == 3 else (*where, "0")
    if int(stop_at):
        stop_in_commit(int(stop_at))
    made = made_runner(runner, list(places))
    running = asyncio.ensure_future(made.run(lambda: False))
    told = -1
    while not running.done():
        applied = 0 if made.engine is None else made.engine.applied
        if applied != told:
            told = applied
            print("applied", told, flush=True)
        await asyncio.sleep(0.002)
    running.result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
