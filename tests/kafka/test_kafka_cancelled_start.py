"""A client of Kafka cancelled while it connects leaves no connection behind, whenever the cancellation comes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable

import pytest
from aiokafka.conn import AIOKafkaConnection

from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.kafka_admin import missing_topics
from tidegate.events.log.kafka_writer import KafkaWriter
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import SIGNALS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def open_connections() -> int:
    gc.collect()
    return sum(isinstance(held, AIOKafkaConnection) and held.connected() for held in gc.get_objects())


async def cancelled(work: Awaitable[object], after_s: float) -> None:
    """Begin, and leave before the end."""
    working = asyncio.ensure_future(work)
    await asyncio.sleep(after_s)
    working.cancel()
    await asyncio.wait([working])


async def test_a_reader_cancelled_while_it_connects_leaves_no_connection(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        before = open_connections()
        for step in range(60):
            reader = log.reader({TopicPartition(SIGNALS.name, 0): 0})
            await cancelled(reader.poll(timeout_s=5), step * 0.0002)
            await reader.close()
        assert open_connections() == before


async def test_a_writer_cancelled_while_it_connects_leaves_no_connection(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    before = open_connections()
    for step in range(60):
        opening = asyncio.ensure_future(KafkaWriter.open(settings, f"{settings.prefix}writer"))
        await cancelled(opening, step * 0.0002)
        with contextlib.suppress(asyncio.CancelledError):
            await (await opening).close()
    assert open_connections() == before


async def test_a_question_about_topics_that_is_cancelled_leaves_no_connection(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    before = open_connections()
    for step in range(60):
        await cancelled(missing_topics(settings, 10), step * 0.0002)
    assert open_connections() == before


async def test_a_connection_that_takes_longer_than_it_may_is_none_that_is_forgotten(kafka: Broker) -> None:
    before = open_connections()
    for step in range(60):
        with contextlib.suppress(LogUnavailable):
            await missing_topics(kafka_settings(kafka), step * 0.0002)
    assert open_connections() == before
