# mypy: untyped-calls-exclude=aiokafka
"""The Kafka adapter of the event log on a test broker, with topics of its own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient

from support.kafka_providers import Broker
from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.kafka_admin import apply_topics
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import planned
from tidegate.events.topics import TOPICS


def kafka_settings(broker: Broker, **changes: object) -> KafkaSettings:
    """Settings for a log of its own; as many copies of a record as the broker has nodes."""
    nodes = broker.bootstrap.count(",") + 1
    values: dict[str, object] = {
        "bootstrap": broker.bootstrap,
        "client_id": "test",
        "prefix": broker.prefix(),
        "replication": nodes,
        "min_in_sync": min(2, nodes),
    }
    return KafkaSettings(**{**values, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def kafka_event_log(
    broker: Broker, settings: KafkaSettings | None = None
) -> AsyncGenerator[KafkaEventLog]:
    """An empty log. Further handles on the same log: `KafkaEventLog(settings)` with the settings given."""
    settings = settings or kafka_settings(broker)
    await apply_topics(settings)
    log = KafkaEventLog(settings)
    try:
        yield log
    finally:
        await log.close()
        await _delete_topics(settings)


async def _delete_topics(settings: KafkaSettings) -> None:
    plan = planned(
        TOPICS, prefix=settings.prefix, replication=settings.replication, in_sync=settings.min_in_sync
    )
    admin = AIOKafkaAdminClient(**settings.client_options())
    try:
        await admin.start()
        await admin.delete_topics([topic.name for topic in plan])
    finally:
        await admin.close()
