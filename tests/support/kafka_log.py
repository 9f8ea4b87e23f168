# mypy: untyped-calls-exclude=aiokafka
"""The Kafka adapter of the event log on a test broker, with topics of its own."""

import contextlib
import itertools
from dataclasses import replace

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

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


class KafkaTestLog:
    """A log that starts empty. A call opens one more handle on it, as another process would; as a context
    manager it gives one handle and removes the topics at the end."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._numbers = itertools.count()
        self._handles: list[KafkaEventLog] = []

    async def __call__(self) -> KafkaEventLog:
        number = next(self._numbers)
        if number == 0:
            await apply_topics(self.settings)
        handle = KafkaEventLog(replace(self.settings, client_id=f"{self.settings.client_id}-{number}"))
        self._handles.append(handle)
        return handle

    async def __aenter__(self) -> KafkaEventLog:
        return await self()

    async def __aexit__(self, *_: object) -> None:
        for handle in self._handles:
            await handle.close()
        await _delete_topics(self.settings)


def kafka_event_log(broker: Broker, settings: KafkaSettings | None = None) -> KafkaTestLog:
    """An empty log on `broker`, under a prefix that nobody else uses."""
    return KafkaTestLog(settings or kafka_settings(broker))


async def _delete_topics(settings: KafkaSettings) -> None:
    plan = planned(
        TOPICS, prefix=settings.prefix, replication=settings.replication, in_sync=settings.min_in_sync
    )
    admin = AIOKafkaAdminClient(**settings.client_options())
    try:
        # Brokers that a test killed may be in no state for it; the prefix is nobody else's.
        with contextlib.suppress(TimeoutError, KafkaError):
            await admin.start()
            await admin.delete_topics([topic.name for topic in plan])
    finally:
        await admin.close()
