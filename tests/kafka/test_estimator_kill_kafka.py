# mypy: untyped-calls-exclude=aiokafka
"""The estimator is exact on a real broker: after kill -9, and after it stood still past its own transaction."""

from __future__ import annotations

import asyncio
import signal

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPlace

from support.audit import check_state
from support.estimator_kills import Estimator, append, killed_while_fed
from support.estimator_process import ROUTING, SUBJECTS
from support.fleet import until
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from support.signals import records
from support.snapshot_audit import check_snapshots
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import latest_name
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.topics import STATE

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize(
    ("runner", "events", "kills"),
    [
        ("log", 60_000, 10),
        pytest.param("log", 240_000, 40, marks=pytest.mark.nightly),
        pytest.param("faust", 60_000, 10, marks=pytest.mark.nightly),
    ],
)
async def test_an_estimator_killed_again_and_again_is_exact(
    kafka: Broker, runner: str, events: int, kills: int
) -> None:
    settings = kafka_settings(kafka)
    async with kafka_event_log(kafka, settings) as log:
        arguments = (runner, settings.bootstrap, settings.prefix)
        await killed_while_fed(log, arguments, events=events, kills=kills, seed=kills)
        async with Estimator(*arguments):
            assert await check_state(log, ROUTING) >= 2 * SUBJECTS
            assert await check_snapshots(log, ROUTING) >= 2 * SUBJECTS


async def open_transactions(settings: KafkaSettings, log: EventLog) -> int:
    """Partitions of the state topic in which a transaction is open: committed readers end before the rest."""
    name = latest_name(STATE, settings.prefix)
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap)
    await consumer.start()
    try:
        ends = await consumer.end_offsets([KafkaPlace(name, p) for p in range(PARTITIONS)])
    finally:
        await consumer.stop()
    committed = [await log.end(TopicPartition(STATE.name, p)) for p in range(PARTITIONS)]
    return sum(ends[KafkaPlace(name, p)] > committed[p] for p in range(PARTITIONS))


@pytest.mark.parametrize("overtaken", [False, pytest.param(True, marks=pytest.mark.nightly)])
async def test_an_estimator_that_stood_still_past_its_transaction_timeout_is_exact(
    kafka: Broker, *, overtaken: bool
) -> None:
    settings = kafka_settings(kafka)
    async with kafka_event_log(kafka, settings) as log:
        arguments = ("log", settings.bootstrap, settings.prefix)
        written = records(12_000, pools=SUBJECTS)
        async with Estimator(*arguments, "20") as stopped:
            await stopped.applied(0)
            feeding = asyncio.ensure_future(append(log, written[:6_000], pause_s=0.05))
            while await stopped.report() != b"stopping\n":
                pass
            await feeding
            assert await open_transactions(settings, log) > 0
            if overtaken:
                async with Estimator(*arguments) as successor:
                    await append(log, written[6_000:9_000])
                    await successor.applied(1_000)
                    stopped.process.send_signal(signal.SIGCONT)
                    await append(log, written[9_000:])
                    # They fence each other: the one that finds the other alive ends, and may not be the only one.
                    done, _ = await asyncio.wait(
                        [asyncio.ensure_future(each.process.wait()) for each in (stopped, successor)],
                        timeout=90,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    assert done, "two estimators run the same partitions"
            else:
                await append(log, written[6_000:])

                async def aborted() -> bool:
                    return await open_transactions(settings, log) == 0

                await until(aborted, "the broker to abort the transaction")
                stopped.process.send_signal(signal.SIGCONT)
            if not overtaken:
                await check_exact(log)
        if overtaken:
            async with Estimator(*arguments):  # as a supervisor starts one that has ended
                await check_exact(log)


async def check_exact(log: EventLog) -> None:
    with_windows = sum(bool(pool.windows) for pool in ROUTING.pools)
    assert await check_state(log, ROUTING) >= SUBJECTS + with_windows
    assert await check_snapshots(log, ROUTING) >= 2 * SUBJECTS
