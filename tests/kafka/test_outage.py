"""Kafka away under load: requests go on, the relay catches up by itself, snapshots resume, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.structs import TopicPartition

from support.audit import audit
from support.fleet import Fleet, kafka_table, until
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from support.traffic import Traffic
from tidegate.events import codec
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.partition import PARTITIONS
from tidegate.events.topics import SNAPSHOTS, TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]
ROLES = ("gateway", "log", "estimator", "projector")
STALE_S = 2.0


async def snapshots_resume(fleet: Fleet, since_ns: int) -> None:
    """Until the estimator publishes and the gateway follows again."""

    async def fresh() -> bool:
        log = fleet.machine.open_log()
        try:
            newest, _ = await log.latest(SNAPSHOTS.name)
        finally:
            await log.close()
        published = [codec.decode_envelope(record.value or b"") for record in newest.values()]
        return max((e.ts for e in published if e.type == "RateSnapshot"), default=0) > since_ns

    async def followed() -> bool:
        staleness_s = (await fleet.numbers("gw-0")).get("view_staleness_s", -1)
        return 0 <= staleness_s < STALE_S

    await until(fresh, "a snapshot from after the outage")
    await until(followed, "the gateway to follow the log again")


async def check_all_run(fleet: Fleet) -> None:
    for role in ROLES:
        assert fleet.is_running(role), fleet.processes[role].failure("ended during the outage")


async def held_by(settings: KafkaSettings, node: int) -> tuple[set[tuple[str, int]], set[str]]:
    """Partitions of the log that a node leads, and transactional ids of the estimator that it coordinates."""
    client = AIOKafkaClient(bootstrap_servers=settings.bootstrap)
    await client.bootstrap()
    try:
        await client.set_topics([settings.prefix + topic.name for topic in TOPICS])
        led = {
            (where.topic, where.partition)
            for topic in TOPICS
            for where in (TopicPartition(settings.prefix + topic.name, p) for p in range(topic.partitions))
            if client.cluster.leader_for_partition(where) == node
        }
        ids = [f"{settings.prefix}estimator-{partition}" for partition in range(PARTITIONS)]
        found = [await client.coordinator_lookup(CoordinationType.TRANSACTION, each) for each in ids]
        return led, {each for each, coordinator in zip(ids, found, strict=True) if coordinator == node}
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("how", "outage_s"),
    [
        ("kill", 10),
        pytest.param("kill", 60, marks=pytest.mark.nightly),
        pytest.param("suspend", 60, marks=pytest.mark.nightly),
    ],
)
async def test_requests_go_on_while_kafka_is_away_and_everything_catches_up(
    kafka: Broker, tmp_path: Path, how: str, outage_s: int
) -> None:
    cluster = kafka.require("kill", "restart")
    settings = kafka_settings(kafka)
    (node,) = cluster.node_ids
    async with kafka_event_log(kafka, settings), Fleet(tmp_path, log=kafka_table(settings)) as fleet:
        await fleet.start(*ROLES)
        async with Traffic(fleet.url, clients=3) as traffic:
            await traffic.more(20, "before the outage")
            await asyncio.to_thread(getattr(cluster, how), node)
            try:
                await asyncio.sleep(outage_s)  # the length of the outage is what is promised
                await traffic.more(20, "without Kafka")
            finally:
                if how == "kill":
                    await asyncio.to_thread(cluster.restart, node)
                else:
                    cluster.resume(node)
            back_ns = fleet.machine.clock.wall_ns()
            await traffic.more(20, "after the outage")
            await snapshots_resume(fleet, back_ns)
        await check_all_run(fleet)
        assert traffic.of("unknown") == []
        await audit(fleet, traffic, [], {})


@pytest.mark.nightly
async def test_each_of_three_brokers_is_killed_and_nothing_is_lost_or_doubled(
    kafka_cluster: Callable[[int], Broker], tmp_path: Path
) -> None:
    broker = await asyncio.to_thread(kafka_cluster, 3)
    cluster = broker.require("multi_node", "kill", "restart")
    settings = kafka_settings(broker)
    async with kafka_event_log(broker, settings), Fleet(tmp_path, log=kafka_table(settings)) as fleet:
        await fleet.start(*ROLES)
        async with Traffic(fleet.url, clients=3) as traffic:
            struck: set[str] = set()
            for node in cluster.node_ids:
                await traffic.more(20, f"before node {node} is killed")
                led, coordinated = await held_by(settings, node)
                assert led, f"node {node} leads no partition"
                struck |= coordinated
                await asyncio.to_thread(cluster.kill, node)
                await traffic.more(60, f"without node {node}")
                lost_ns = fleet.machine.clock.wall_ns()
                await snapshots_resume(fleet, lost_ns)  # two of three are enough
                await asyncio.to_thread(cluster.restart, node)
            await traffic.more(20, "after the last kill")
        assert struck, "no kill met the coordinator of a transaction"
        await check_all_run(fleet)
        assert traffic.of("unknown") == []
        await audit(fleet, traffic, [], {})
