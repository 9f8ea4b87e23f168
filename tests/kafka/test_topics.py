# mypy: untyped-calls-exclude=aiokafka
"""Topics: created on purpose only, also by a broker that makes whatever is named; drift is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from support.kafka_clients import create_topic
from support.kafka_log import kafka_settings
from support.kafka_providers import Broker
from tidegate.events.errors import LogUnavailable, Refused
from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.kafka_admin import apply_topics, check_topics
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import Drift
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.topics import CONTROL, SIGNALS, SNAPSHOTS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SIGNAL = TopicPartition(SIGNALS.name, 3)
CALLS: dict[str, Callable[[KafkaEventLog], Awaitable[object]]] = {
    "append": lambda log: log.append([Outgoing(*SIGNAL, b"key", b"value")]),
    "append with a latest": lambda log: log.append([Outgoing(CONTROL.name, 0, b"k", b"v")]),
    "begin": lambda log: log.begin(SIGNAL),
    "end": lambda log: log.end(SIGNAL),
    "latest": lambda log: log.latest(SNAPSHOTS.name),
    "writer": lambda log: log.writer("w"),
    "poll": lambda log: log.reader({SIGNAL: 0}).poll(timeout_s=0.1),
}


async def topics_of(settings: KafkaSettings) -> set[str]:
    """The topics under this prefix, once the broker has made one that is named here: whatever was named
    before has been made by then."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
    await admin.start()
    try:
        named = f"{settings.prefix}named-last"
        async with asyncio.timeout(20):
            while named not in await admin.list_topics():
                await admin.describe_topics([named])
        return {name for name in await admin.list_topics() if name.startswith(settings.prefix)} - {named}
    finally:
        await admin.close()


@pytest.fixture(autouse=True)
def makes_what_is_named(kafka: Broker) -> None:
    kafka.require("restart")  # one of ours, which in this is as a stock Kafka; another may not be


async def test_a_check_of_an_empty_cluster_creates_nothing(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    assert {drift.setting for drift in await check_topics(settings)} == {"topic"}
    assert await topics_of(settings) == set()


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_before_the_topics_are_applied_names_what_is_missing_and_creates_nothing(
    kafka: Broker, name: str
) -> None:
    settings = kafka_settings(kafka)
    log = KafkaEventLog(settings)
    with pytest.raises(LogUnavailable, match=rf"lacks topics, run `tidegate topics apply`: .*{SIGNALS.name}"):
        await CALLS[name](log)
    await log.close()
    assert await topics_of(settings) == set()


async def test_a_handle_that_waited_for_its_topics_works_once_they_are_applied(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    log = KafkaEventLog(settings)
    with pytest.raises(LogUnavailable):
        await log.append([Outgoing(*SIGNAL, b"key", b"value")])
    assert await apply_topics(settings) == []
    await log.append([Outgoing(*SIGNAL, b"key", b"value")])
    assert await log.end(SIGNAL) == 1
    await log.close()


async def test_a_topic_that_something_else_made_with_too_few_partitions_is_named_not_used(
    kafka: Broker,
) -> None:
    settings = kafka_settings(kafka)
    await create_topic(kafka.bootstrap, settings.prefix + SIGNALS.name, partitions=1)
    await apply_topics(settings)
    log = KafkaEventLog(settings)
    with pytest.raises(
        LogUnavailable, match=rf"does not change: .*{SIGNALS.name} has 1 partitions instead of 12"
    ):
        await log.append([Outgoing(SIGNALS.name, 0, b"key", b"value")])
    await log.close()


async def test_topics_are_created_once_and_drift_is_reported_not_repaired(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    name = settings.prefix + SIGNALS.name
    await create_topic(kafka.bootstrap, name, partitions=3, retention_ms="1000")
    expected = {
        Drift(name, "partitions", "12", "3"),
        Drift(name, "retention.ms", "1209600000", "1000"),
        Drift(name, "message.timestamp.type", "LogAppendTime", "CreateTime"),
    }
    for _ in range(2):
        assert set(await apply_topics(settings)) == expected
    assert set(await check_topics(settings)) == expected


async def test_a_cluster_too_small_for_the_replication_is_refused_with_its_reason(kafka: Broker) -> None:
    settings = kafka_settings(kafka, replication=9, min_in_sync=2)
    with pytest.raises(Refused, match="Kafka does not create"):
        await apply_topics(settings)
