# mypy: untyped-calls-exclude=aiokafka
"""A reader over a consumer that finds a fault in one partition while it has records of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition as KafkaPlace
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from tidegate.events.errors import LogCorrupt, LogUnavailable
from tidegate.events.log.kafka_reader import KafkaReader
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import SIGNALS

SETTINGS = KafkaSettings("127.0.0.1:1", "test", replication=1, min_in_sync=1)
WHOLE, SHORT = (TopicPartition(SIGNALS.name, partition) for partition in (1, 2))
AT: dict[TopicPartition, KafkaPlace] = {where: KafkaPlace(*where) for where in (WHOLE, SHORT)}


HANGS: Any = "no answer comes"


def message(where: TopicPartition, offset: int) -> Any:
    return ConsumerRecord(where.topic, where.partition, offset, 1, 1, b"k", b"v", None, 1, 1, ())


class Consumer:
    """Gives what it was told to, as aiokafka does: records it gave are behind it."""

    def __init__(self, *answers: list[Any] | KafkaError, begin: int = 0) -> None:
        self._answers: Iterator[list[Any] | KafkaError] = iter(answers)
        self._begin = begin
        self.hanging = asyncio.Event()
        self.at = dict.fromkeys(AT.values(), 0)

    async def getmany(self, **_: object) -> dict[KafkaPlace, list[Any]]:
        answer = next(self._answers, [])
        if answer is HANGS:
            self.hanging.set()
            await asyncio.sleep(3_600)
        if isinstance(answer, KafkaError):
            raise answer
        found: dict[KafkaPlace, list[Any]] = {}
        for one in answer:
            place = KafkaPlace(one.topic, one.partition)
            found.setdefault(place, []).append(one)
            self.at[place] = one.offset + 1
        return found

    async def position(self, place: KafkaPlace) -> int:
        return self.at[place]

    def last_stable_offset(self, _place: KafkaPlace) -> int:
        return 100

    def last_poll_timestamp(self, _place: KafkaPlace) -> int:
        return 1

    async def beginning_offsets(self, places: list[KafkaPlace]) -> dict[KafkaPlace, int]:
        return dict.fromkeys(places, self._begin)

    def seek(self, place: KafkaPlace, position: int) -> None:
        self.at[place] = position


def reader_over(consumer: Consumer) -> KafkaReader:
    reader = KafkaReader(SETTINGS, dict.fromkeys(AT, 0), None)  # type: ignore[arg-type]
    reader._consumer = consumer  # type: ignore[assignment]
    return reader


async def test_records_that_came_before_a_fault_are_handed_out_and_the_fault_is_raised_next() -> None:
    broken = KafkaError("broken")
    reader = reader_over(Consumer([message(WHOLE, 0)], broken, broken, [message(WHOLE, 1)]))
    assert [record.offset for record in await reader.poll()] == [0]
    with pytest.raises(LogUnavailable, match="broken"):
        await reader.poll()
    assert reader.positions() == {WHOLE: 1, SHORT: 0}
    assert [record.offset for record in await reader.poll()] == [1]


async def test_a_partition_that_begins_later_than_its_position_costs_no_record_of_another() -> None:
    outside = OffsetOutOfRangeError({AT[SHORT]: 0})
    consumer = Consumer([message(WHOLE, 0)], outside, outside, [message(SHORT, 7)], begin=7)
    reader = reader_over(consumer)
    assert [(record.partition, record.offset) for record in await reader.poll()] == [(WHOLE.partition, 0)]
    assert await reader.poll() == ()
    assert [(record.partition, record.offset) for record in await reader.poll()] == [(SHORT.partition, 7)]


async def test_what_a_cancelled_poll_had_taken_comes_again() -> None:
    consumer = Consumer([message(WHOLE, 0), message(SHORT, 0)], HANGS)
    reader = reader_over(consumer)
    polling = asyncio.ensure_future(reader.poll())
    await consumer.hanging.wait()
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert reader.positions() == {WHOLE: 0, SHORT: 0}
    assert len(await reader.poll()) == 2
    assert reader.positions() == {WHOLE: 1, SHORT: 1}


async def test_what_was_lost_with_a_damaged_record_is_asked_for_again() -> None:
    consumer = Consumer(CorruptRecordException("crc"))
    reader = reader_over(consumer)
    consumer.at[AT[WHOLE]] = 5  # of another partition, in the same call
    with pytest.raises(LogCorrupt, match="crc"):
        await reader.poll()
    assert set(consumer.at.values()) == {0}
