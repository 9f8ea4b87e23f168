"""A Kafka for one demo: a node of our own beside its data, or the user's, with topics under a new prefix."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from tidegate.events.errors import Broken, Refused
from tidegate.events.log.kafka_admin import apply_topics
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.runtime.demo.config import LogChoice
from tidegate.runtime.kafka_dev.cluster import KafkaCluster
from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.installation import from_environment, install
from tidegate.runtime.kafka_dev.ports import free_ports


class KafkaMissing(Refused):
    """No Kafka can be had here; the message says what to install."""

    code = "kafka_missing"


@contextlib.asynccontextmanager
async def kafka_log(
    bootstrap: str | None, folder: Path, say: Callable[[str], object]
) -> AsyncGenerator[LogChoice]:
    """Topics ready to use; a node that was started here is stopped at the end. Raises KafkaMissing, Broken."""
    if bootstrap is not None:
        yield await _with_topics(bootstrap)
        return
    say("starting a Kafka node")
    cluster = await asyncio.to_thread(_start, folder)
    try:
        yield await _with_topics(cluster.bootstrap)
    finally:
        await asyncio.to_thread(cluster.close)


def _start(folder: Path) -> KafkaCluster:
    try:
        cluster = KafkaCluster(install(from_environment()), folder, free_ports(1))
        cluster.__enter__()
    except DevKafkaError as error:
        raise KafkaMissing(f"{error} (or name a running one with --bootstrap)") from error
    return cluster


async def _with_topics(bootstrap: str) -> LogChoice:
    brokers = len(bootstrap.split(","))
    choice = LogChoice(bootstrap, f"demo-{secrets.token_hex(4)}.", min(3, brokers))
    settings = KafkaSettings(
        bootstrap=bootstrap,
        client_id="tidegate-demo",
        prefix=choice.prefix,
        replication=choice.replication,
        min_in_sync=min(2, choice.replication),
    )
    drift = await apply_topics(settings)
    if drift:
        raise Broken("topics that were just made are not as declared: " + "; ".join(map(str, drift)))
    return choice
