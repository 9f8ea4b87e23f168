"""Both runners on a real broker: the same state, bit by bit, as a clean fold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.journals import make_ids
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from support.signals import records
from tidegate.estimator.engine import Engine
from tidegate.estimator.faust_app import FaustRunner
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.log_runner import LogRunner
from tidegate.estimator.state import State
from tidegate.events import codec
from tidegate.events.clock import SystemClock
from tidegate.events.config import Routing
from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.port import Record, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
COUNT = 4_000
ROUTING = Routing()


class Alarms:
    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


def clean_rows(count: int) -> dict[str, Any]:
    state = State()
    signals = []
    for record in records(count, pools=12):
        assert record.value is not None
        envelope = codec.decode_envelope(record.value)
        signals.append(Signal(record.partition, envelope, codec.decode_data(envelope)))
    fold(state, signals)
    return rows_of(state)


def rows_of(state: State) -> dict[str, Any]:
    rows = [state.target_row(target) for target in state.targets] + [
        state.pool_row(pool) for pool in state.pools
    ]
    for row in rows:
        row.version = 0
        for window in row.windows:
            window.status = 0
    return {row.subject: row for row in rows}


@pytest.mark.parametrize("runner", ["log", "faust"])
async def test_a_runner_restarted_in_the_middle_ends_with_the_state_of_a_clean_fold(
    kafka: Broker, runner: str
) -> None:
    settings = kafka_settings(kafka)
    async with kafka_event_log(kafka, settings) as log:
        written = records(COUNT, pools=12)
        await log.append(written[: COUNT // 2])
        for part in range(2):
            stopping = asyncio.Event()
            clock = SystemClock()
            common = (clock, make_ids(clock, start=part * 10**6), lambda: ROUTING, Alarms(), 0.1)
            made: Any
            if runner == "log":
                made = LogRunner(lambda: KafkaEventLog(settings), *common)
            else:
                made = FaustRunner(lambda: KafkaEventLog(settings), settings, *common)
            task = asyncio.ensure_future(made.run(stopping.is_set))
            async with asyncio.timeout(90):
                while made.engine is None or made.engine.applied < part_applied(written, part):
                    if task.done():
                        task.result()
                    await asyncio.sleep(0.05)
            stopping.set()
            await task
            if part == 0:
                await log.append(written[COUNT // 2 - 100 :])  # a hundred come twice
        restored = Engine(log, SystemClock(), make_ids(), Routing(), Alarms(), 1.0)
        await restored.open()
        assert rows_of(restored.state) == clean_rows(COUNT)
        await restored.close()


def part_applied(written: list[Any], part: int) -> int:
    half = written[: COUNT // 2] if part == 0 else written[COUNT // 2 :]
    kinds = (codec.decode_envelope(record.value).type for record in half)
    return sum(kind in {"UsageSettled", "AttemptFailed", "FirstTokenSeen", "DemandSeen"} for kind in kinds)
