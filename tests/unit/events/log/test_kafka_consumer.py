# mypy: untyped-calls-exclude=aiokafka
"""Ending a consumer whose broker is away: aiokafka's own stop gives up half-way with a cancellation of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from tidegate.events.log.kafka_consumer import stop


class Client:
    closed = 0

    async def close(self) -> None:
        self.closed += 1


class Fetcher:
    """As aiokafka's with a fetch that has failed and waits: `close` cancels it and then awaits it."""

    def __init__(self) -> None:
        self._pending = asyncio.ensure_future(asyncio.sleep(3_600))

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._pending.cancel()
        await self._pending


async def consumer_without_broker() -> tuple[Any, Client]:
    consumer: Any = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    client = Client()
    consumer._client = client
    consumer._coordinator = None
    consumer._fetcher = Fetcher()
    return consumer, client


async def test_aiokafka_still_ends_its_stop_with_a_cancellation() -> None:
    consumer, client = await consumer_without_broker()
    with pytest.raises(asyncio.CancelledError):
        await consumer.stop()
    assert client.closed == 0


async def test_stopping_without_a_broker_disconnects_and_cancels_nobody() -> None:
    consumer, client = await consumer_without_broker()
    await stop(consumer)
    assert client.closed == 1
