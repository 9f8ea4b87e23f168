# mypy: untyped-calls-exclude=aiokafka
"""State and position stay together when engines and brokers are killed: nothing counted twice or never."""

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from support import kafka_counter
from support.kafka_counter import Counted, count_until, signals
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from tidegate.events.errors import Unavailable
from tidegate.events.log.port import EventLog

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]

TESTS = Path(__file__).parents[1]


async def start_counter(bootstrap: str, prefix: str, last: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, kafka_counter.__file__, bootstrap, prefix, str(last)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.nightly)])
async def test_an_engine_that_is_killed_again_and_again_counts_each_signal_once(
    kafka: Broker, kills: int
) -> None:
    rng = random.Random(kills)
    settings = kafka_settings(kafka)
    total = 6_000 * kills
    async with kafka_event_log(kafka, settings) as log:
        for first in range(0, total, 3_000):
            await log.append(signals(first, 3_000))
        for _ in range(kills):
            counter = await start_counter(kafka.bootstrap, settings.prefix, total - 1)
            assert counter.stdout is not None
            for _ in range(rng.randrange(1, 20)):
                assert not (await counter.stdout.readline()).startswith(b"total")
            await asyncio.sleep(rng.random() * 0.05)  # the moment of death is to be arbitrary
            counter.kill()
            await counter.communicate()
        counter = await start_counter(kafka.bootstrap, settings.prefix, total - 1)
        said, _ = await counter.communicate()
    assert said.splitlines()[-1] == b"total %d" % total


@pytest.mark.nightly
async def test_killed_brokers_cost_neither_signals_nor_exact_state(
    kafka_cluster: Callable[[int], Broker],
) -> None:
    broker = await asyncio.to_thread(kafka_cluster, 3)
    cluster = broker.require("multi_node", "kill", "restart")
    test_log = kafka_event_log(broker)
    relay_log, engine_log = await test_log(), await test_log()
    total = 30_000
    async with asyncio.TaskGroup() as tasks:
        relay = tasks.create_task(relay_until(relay_log, total))
        engine = tasks.create_task(engine_until(engine_log, total - 1))
        topic = test_log.settings.prefix + kafka_counter.SIGNAL.topic
        for _ in range(3):
            leader = await leader_of(broker.bootstrap, topic)
            cluster.kill(leader)
            await asyncio.sleep(3)  # let clients meet the dead node before it is back
            await asyncio.to_thread(cluster.restart, leader)
        node = await leader_of(broker.bootstrap, topic)
        cluster.suspend(node)
        await asyncio.sleep(8)  # past the session of the node: it comes back as a zombie
        cluster.resume(node)
    assert relay.result() >= total
    assert engine.result() == Counted(total, total - 1)
    await relay_log.close()
    await engine_log.close()


async def relay_until(log: EventLog, total: int) -> int:
    """Append all signals in order and repeat what was not acknowledged; returns how many were sent."""
    sent = first = 0
    while first < total:
        batch = signals(first, min(50, total - first))
        sent += len(batch)
        if await succeeds(lambda batch=batch: log.append(batch)):  # type: ignore[misc]
            first += len(batch)
        await asyncio.sleep(0.02)
    return sent


async def engine_until(log: EventLog, last: int) -> Counted:
    """The engine with a supervisor: after any failure a new writer goes on."""
    counted = Counted()

    async def once() -> None:
        nonlocal counted
        counted = await count_until(log, last, drop_repeated=True, report=lambda _: None)

    while not await succeeds(once):
        await asyncio.sleep(0.2)
    return counted


async def succeeds(attempt: Callable[[], Awaitable[None]]) -> bool:
    try:
        await attempt()
    except Unavailable:
        return False
    return True


async def leader_of(bootstrap: str, topic: str) -> int:
    """The node that leads the partition of the signals."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=5_000, retry_backoff_ms=200)
    await admin.start()
    try:
        (described,) = await admin.describe_topics([topic])
    finally:
        await admin.close()
    leaders = {p["partition"]: p["leader"] for p in described["partitions"]}
    return int(leaders[kafka_counter.SHARD])
