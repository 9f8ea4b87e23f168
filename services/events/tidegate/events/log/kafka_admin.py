# mypy: untyped-calls-exclude=aiokafka
"""Create the declared topics in a cluster, and say where the cluster is not as declared."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    TopicAlreadyExistsError,
    for_code,
)

from tidegate.events.errors import LogUnavailable, Refused
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_start import start_whole
from tidegate.events.log.kafka_topics import (
    Drift,
    Found,
    KafkaTopic,
    drifts,
    planned,
    positions_drift,
    unusable,
)
from tidegate.events.topics import TOPICS, Topic

_APPLY_DEADLINE_S = 60.0
_VISIBLE_POLL_S = 0.05


async def check_topics(settings: KafkaSettings, topics: Iterable[Topic] = TOPICS) -> list[Drift]:
    """Every difference between the declared topics and the cluster, and what its brokers are set to that
    would harm them; changes nothing. Raises LogUnavailable.
    """
    async with _administering(settings) as admin:
        found = await _found(admin, plan := _plan(settings, topics))
        return [*drifts(plan, found), *positions_drift(await _broker_config(admin))]


async def apply_topics(settings: KafkaSettings, topics: Iterable[Topic] = TOPICS) -> list[Drift]:
    """Create what is missing and report the drift of topics that is left: what exists is never changed,
    since a changed number of partitions moves keys and a shorter retention deletes facts.

    Raises LogUnavailable, and Refused with the broker's reason when it will not create a topic.
    """
    async with _administering(settings) as admin:
        plan = _plan(settings, topics)
        found = await _found(admin, plan)
        missing = [topic for topic in plan if topic.name not in found]
        if missing:
            await _create(admin, missing)
        while any(topic.name not in found for topic in plan):
            await asyncio.sleep(_VISIBLE_POLL_S)  # each broker learns of a topic in its own time
            found = await _found(admin, plan)
        return drifts(plan, found)


class DeclaredTopics:
    """Keeps every other client from naming a topic that is not there: naming it would create it, with the
    broker's own number of partitions, wherever `auto.create.topics.enable` is left as Kafka ships it."""

    def __init__(self, settings: KafkaSettings, topics: Iterable[Topic] = TOPICS) -> None:
        self._settings = settings
        self._plan = _plan(settings, topics)
        self._there = False
        self._asking = asyncio.Lock()

    async def require(self) -> None:
        """Return when the cluster has them all; asks until it has, then never again. Raises LogUnavailable."""
        async with self._asking:
            if not self._there:
                await self._ask()
                self._there = True

    async def _ask(self) -> None:
        async with _administering(self._settings, self._settings.query_deadline_s) as admin:
            described = await _described(admin)
        partitions = {name: len(topic["partitions"]) for name, topic in described.items()}
        wrong = unusable(self._plan, partitions)
        if wrong is not None:
            raise LogUnavailable(f"Kafka at {self._settings.bootstrap} {wrong}")


async def missing_topics(
    settings: KafkaSettings, deadline_s: float, topics: Iterable[Topic] = TOPICS
) -> list[str]:
    """Names of declared topics that the cluster does not have. Raises LogUnavailable."""
    async with _administering(settings, deadline_s) as admin:
        described = await _described(admin)
    return [topic.name for topic in _plan(settings, topics) if topic.name not in described]


def _plan(settings: KafkaSettings, topics: Iterable[Topic]) -> list[KafkaTopic]:
    return planned(
        topics, prefix=settings.prefix, replication=settings.replication, in_sync=settings.min_in_sync
    )


@asynccontextmanager
async def _administering(
    settings: KafkaSettings, deadline_s: float = _APPLY_DEADLINE_S
) -> AsyncGenerator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**settings.client_options())
    try:
        async with asyncio.timeout(deadline_s):
            await start_whole(admin)
            yield admin
    except (KafkaError, TimeoutError) as error:
        raise LogUnavailable(f"cannot administer Kafka at {settings.bootstrap}: {error!r}") from error
    finally:
        await admin.close()


async def _create(admin: AIOKafkaAdminClient, missing: Sequence[KafkaTopic]) -> None:
    new = [NewTopic(t.name, t.partitions, t.replication, topic_configs=dict(t.config)) for t in missing]
    answer = (await admin.create_topics(new)).to_object()
    for topic in answer["topic_errors"]:
        error = for_code(topic["error_code"])
        if topic["error_code"] and error is not TopicAlreadyExistsError:
            reason = topic.get("error_message") or error.__name__
            raise Refused(f"Kafka does not create {topic['topic']}: {reason}")


async def _found(admin: AIOKafkaAdminClient, plan: Sequence[KafkaTopic]) -> dict[str, Found]:
    """What exists of the plan, with a leader for every partition."""
    described = await _described(admin)
    there = [t for t in plan if t.name in described and _is_ready(described[t.name])]
    if not there:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, t.name, dict.fromkeys(t.config)) for t in there]
    configs = await _configs(admin, resources)
    return {
        topic.name: Found(
            partitions=len(described[topic.name]["partitions"]),
            replication=min(len(p["replicas"]) for p in described[topic.name]["partitions"]),
            config=configs[topic.name],
        )
        for topic in there
    }


async def _described(admin: AIOKafkaAdminClient) -> dict[str, Any]:
    """Every topic of the cluster, by name: a request that names one makes a stock broker create it.

    Any broker is asked, perhaps one that is down while the others are well: then another one, until the deadline.
    """
    while True:
        try:
            return {topic["topic"]: topic for topic in await admin.describe_topics()}
        except (NodeNotReadyError, KafkaConnectionError):
            await asyncio.sleep(_VISIBLE_POLL_S)


def _is_ready(described: Mapping[str, Any]) -> bool:
    partitions = described["partitions"]
    return described["error_code"] == 0 and bool(partitions) and all(p["leader"] >= 0 for p in partitions)


async def _broker_config(admin: AIOKafkaAdminClient) -> dict[str, str]:
    node = (await admin.describe_cluster())["brokers"][0]["node_id"]
    return (await _configs(admin, [ConfigResource(ConfigResourceType.BROKER, str(node))]))[str(node)]


async def _configs(admin: AIOKafkaAdminClient, resources: list[ConfigResource]) -> dict[str, dict[str, str]]:
    answers = await admin.describe_configs(resources)
    configs: dict[str, dict[str, str]] = {}
    for resource in (r for answer in answers for r in answer.to_object()["resources"]):
        if resource["error_code"]:
            raise for_code(resource["error_code"])(f"cannot describe {resource['resource_name']}")
        entries = resource["config_entries"]
        configs[resource["resource_name"]] = {e["config_names"]: e["config_value"] for e in entries}
    return configs
