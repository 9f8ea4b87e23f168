# mypy: untyped-calls-exclude=aiokafka
"""One append in many batches, before a producer whose broker refuses some: no partition ever gets a hole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as KafkaPlace

from tidegate.events.log.kafka_producer import Entry, Session, batches_of
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.port import Outgoing

SETTINGS = KafkaSettings("127.0.0.1:1", "test", replication=1, min_in_sync=1, compression=None)
BIG = 100_000
"""Two records of this size fill a batch."""


class Builder:
    """As aiokafka's: full at a size."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def append(self, *, value: bytes, **_: object) -> object:
        if sum(map(len, self.values)) + len(value) > 256 << 10:
            return None
        self.values.append(value)
        return self

    def close(self) -> None: ...


class Producer:
    """Sends what it was given after a while, refusing batches that hold `refused`; goes on after a refusal."""

    def __init__(self, refused: bytes = b"none") -> None:
        self.refused = refused
        self.stored: dict[int, list[bytes]] = {}
        self.rounds: list[int] = []

    def create_batch(self) -> Builder:
        return Builder()

    async def send_batch(self, builder: Builder, topic: str, *, partition: int) -> asyncio.Future[Any]:
        ack: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.rounds.append(partition)
        asyncio.get_running_loop().call_later(0.001, self._store, builder, topic, partition, ack)
        return ack

    def _store(self, builder: Builder, topic: str, partition: int, ack: asyncio.Future[Any]) -> None:
        if any(value.startswith(self.refused) for value in builder.values):
            ack.set_exception(MessageSizeTooLargeError())
            return
        stored = self.stored.setdefault(partition, [])
        where = KafkaPlace(topic, partition)
        ack.set_result(RecordMetadata(topic, partition, where, len(stored), 1, 1, 0))
        stored += [value.rstrip(b"x") for value in builder.values]


def session_over(producer: Producer) -> Session:
    session = Session(SETTINGS)
    session.producer._closed = True  # it was never started
    session.producer = producer  # type: ignore[assignment]
    return session


def entries(partition: int, names: Iterable[bytes]) -> list[Entry]:
    return [Entry("t", Outgoing("t", partition, b"k", name.ljust(BIG, b"x"))) for name in names]


async def test_a_refused_batch_keeps_all_later_ones_of_its_append_from_being_sent() -> None:
    producer = Producer(refused=b"c")
    session = session_over(producer)
    batches = batches_of(session, [*entries(1, [b"a", b"b", b"c", b"d", b"e"]), *entries(2, [b"v", b"w"])])
    acks: list[Any] = []
    with pytest.raises(MessageSizeTooLargeError):
        await session.send(batches, acks)
    assert producer.stored == {1: [b"a", b"b"], 2: [b"v", b"w"]}
    assert len(acks) == 3, "the third batch of the first partition was never handed over"


async def test_batches_go_side_by_side_in_turns_and_each_has_its_own_answer() -> None:
    producer = Producer()
    session = session_over(producer)
    batches = batches_of(session, [*entries(1, [b"a", b"b", b"c"]), *entries(2, [b"v", b"w", b"y"])])
    answers = await session.send(batches)
    assert producer.stored == {1: [b"a", b"b", b"c"], 2: [b"v", b"w", b"y"]}
    assert producer.rounds == [1, 2, 1, 2]
    assert [(answer.partition, answer.offset) for answer in answers] == [(1, 0), (2, 0), (1, 2), (2, 2)]
    assert [(batch.partition, len(batch.records)) for batch in batches] == [(1, 2), (2, 2), (1, 1), (2, 1)]


async def test_an_acknowledgement_without_an_offset_is_none() -> None:
    producer = Producer()
    session = session_over(producer)
    (batch,) = batches_of(session, entries(1, [b"a"]))
    ack: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ack.set_result(RecordMetadata("t", 1, KafkaPlace("t", 1), -1, 1, 1, 0))

    async def duplicate(*_: object, **__: object) -> Any:
        return ack

    producer.send_batch = duplicate  # type: ignore[method-assign]
    with pytest.raises(KafkaError, match="duplicate without its offset"):
        await session.send([batch])
