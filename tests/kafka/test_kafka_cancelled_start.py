"""A reader cancelled while it connects leaves no connection behind, whenever the cancellation comes."""

from __future__ import annotations

import asyncio
import gc

import pytest
from aiokafka.conn import AIOKafkaConnection

from support.kafka_log import kafka_event_log
from support.kafka_providers import Broker
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import SIGNALS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def open_connections() -> int:
    gc.collect()
    return sum(isinstance(held, AIOKafkaConnection) and held.connected() for held in gc.get_objects())


async def test_a_reader_cancelled_while_it_connects_leaves_no_connection(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        before = open_connections()
        for step in range(60):
            reader = log.reader({TopicPartition(SIGNALS.name, 0): 0})
            polling = asyncio.ensure_future(reader.poll(timeout_s=5))
            await asyncio.sleep(step * 0.0002)
            polling.cancel()
            await asyncio.wait([polling])
            await reader.close()
        assert open_connections() == before
