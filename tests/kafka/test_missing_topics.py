"""Kafka without the topics: said in a line by every role, and no role hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.fleet import Process, until
from support.kafka_log import kafka_settings
from support.kafka_providers import Broker
from tidegate.events.log.kafka_admin import apply_topics, missing_topics
from tidegate.events.topics import TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def config(folder: Path, broker: Broker, prefix: str) -> Path:
    path = folder / "tidegate.toml"
    path.write_text(
        f'data_dir = "data"\n[gateway]\nport = 0\n[admin]\nport = 0\n[log]\nkind = "kafka"\n'
        f'bootstrap = "{broker.bootstrap}"\ntopic_prefix = "{prefix}"\n'
    )
    return path


def process(name: str, path: Path) -> Process:
    command = [sys.executable, "-m", "tidegate.runtime", name, "--config", path]
    return Process(name, command, dict(os.environ), path.parent)


@pytest.mark.parametrize("role", ["serve", "log", "estimator", "projector", "admin"])
async def test_a_role_without_topics_ends_and_says_which_and_what_to_do(
    kafka: Broker, tmp_path: Path, role: str
) -> None:
    prefix = kafka.prefix()
    started = process(role, config(tmp_path, kafka, prefix))
    started.start()
    try:
        assert await started.ended() == 2
    finally:
        started.end()
    said = started.failure("")
    assert f"{prefix}tidegate.signals.v1" in said
    assert "create them with `tidegate topics apply`" in said
    assert "Traceback" not in said
    assert "listens on" not in said


async def test_a_gateway_without_topics_says_so_and_serves(kafka: Broker, tmp_path: Path) -> None:
    started = process("gateway", config(tmp_path, kafka, kafka.prefix()))
    started.start()
    try:
        await until(lambda: "gateway serves" in started.failure(""), lambda: started.failure("to serve"))
        assert "topics are missing" in started.failure("")
        started.signal(signal.SIGTERM)
        assert await started.ended() == 0
    finally:
        started.end()


async def test_missing_topics_are_those_that_are_not_there(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    missing = await missing_topics(settings, 30.0)
    assert len(missing) == len(TOPICS) + sum(topic.keeps_history and topic.keeps_latest for topic in TOPICS)
    # Asking has made none, also where the broker makes what is named.
    assert await missing_topics(settings, 30.0) == missing
    await apply_topics(settings)
    async with asyncio.timeout(30):
        while await missing_topics(settings, 30.0):
            await asyncio.sleep(0.05)
