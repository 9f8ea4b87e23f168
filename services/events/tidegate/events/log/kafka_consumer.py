# mypy: untyped-calls-exclude=aiokafka
"""Kafka consumers without groups: positions of the log, and the newest record of each key."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPlace
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from tidegate.events.errors import LogUnavailable
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_start import start_whole
from tidegate.events.log.kafka_topics import read_origin
from tidegate.events.log.port import Record, TopicPartition

_FETCH_WAIT_MS = 100
# From a backlog a poll then gets a part of every partition, not all of a few.
_PARTITION_FETCH_BYTES = 256 << 10
_SCAN_WAIT_MS = 10
_SCAN_DEADLINE_S = 120.0


def record_of(message: ConsumerRecord[bytes, bytes], where: TopicPartition) -> Record:
    stands = read_origin(message.headers) if message.headers else None
    offset, append_ms = (message.offset, message.timestamp) if stands is None else stands
    return Record(where[0], where[1], offset, message.key or b"", message.value, append_ms * 1_000_000)


def hand_out_records(consumer: AIOKafkaConsumer, places: Mapping[KafkaPlace, TopicPartition]) -> None:
    """Let a started consumer make a `Record` of each message at once.

    Its own object of eleven fields for each, read once and thrown away, is a third of what reading costs.
    """
    # aiokafka is pinned to the version whose insides these are; there is no public way.
    fetcher: Any = consumer._fetcher  # pyright: ignore[reportPrivateUsage]
    fetch = fetcher._proc_fetch_request

    def made(place: KafkaPlace, message: ConsumerRecord[bytes, bytes]) -> Record:
        return record_of(message, places[place])

    async def fetch_and_prepare(*request: Any) -> bool:
        found: bool = await fetch(*request)
        for result in fetcher._records.values():
            unread: Any = getattr(result, "_partition_records", None)  # none of an error
            if unread is not None:
                unread._consumer_record = made
        return found

    fetcher._proc_fetch_request = fetch_and_prepare


def consumer_of(
    settings: KafkaSettings, *, fetch_wait_ms: int = _FETCH_WAIT_MS, reset: str = "none"
) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        **settings.client_options(),
        isolation_level="read_committed",
        auto_offset_reset=reset,
        enable_auto_commit=False,
        fetch_max_wait_ms=fetch_wait_ms,
        max_partition_fetch_bytes=_PARTITION_FETCH_BYTES,
    )


async def start(consumer: AIOKafkaConsumer, deadline_s: float) -> None:
    try:
        await start_whole(consumer, deadline_s)
    except (KafkaError, TimeoutError) as error:
        await stop(consumer)
        raise LogUnavailable(f"cannot reach Kafka: {error!r}") from error
    except BaseException:
        await stop(consumer)
        raise


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Disconnect, also while the broker is away."""
    stopping = asyncio.ensure_future(consumer.stop())
    await asyncio.wait([stopping])
    if stopping.cancelled():
        # A fetch that waits before its next try ends aiokafka's own stop with a CancelledError that nobody
        # asked for, half-way. Awaited directly, it would pass for the cancellation of our caller.
        await consumer._client.close()  # pyright: ignore[reportPrivateUsage]
    else:
        stopping.result()


async def offsets_of(
    ask: Callable[[list[KafkaPlace]], Awaitable[dict[KafkaPlace, int]]],
    places: list[KafkaPlace],
    settings: KafkaSettings,
) -> dict[KafkaPlace, int]:
    try:
        async with asyncio.timeout(settings.query_deadline_s):
            return await ask(places)
    except (KafkaError, TimeoutError) as error:
        raise LogUnavailable(f"cannot ask Kafka for offsets of {places[0].topic}: {error!r}") from error


async def scan(
    settings: KafkaSettings, places: Mapping[KafkaPlace, TopicPartition]
) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
    """Read compacted partitions from their beginnings to what was their ends after the call began."""
    consumer = consumer_of(settings, fetch_wait_ms=_SCAN_WAIT_MS, reset="earliest")
    await start(consumer, settings.query_deadline_s)
    newest: dict[bytes, Record] = {}
    try:
        async with asyncio.timeout(_SCAN_DEADLINE_S):
            consumer.assign(list(places))
            for place in places:
                consumer.seek(place, 0)
            targets: dict[KafkaPlace, int] = {}
            while not await _reached(consumer, places, targets):
                for place, messages in (await consumer.getmany(timeout_ms=_SCAN_WAIT_MS)).items():
                    _keep_newest(newest, messages, places[place])
            return newest, {where: await consumer.position(place) for place, where in places.items()}
    except (KafkaError, TimeoutError) as error:
        raise LogUnavailable(f"cannot read the latest records: {error!r}") from error
    finally:
        await stop(consumer)


async def _reached(
    consumer: AIOKafkaConsumer, places: Iterable[KafkaPlace], targets: dict[KafkaPlace, int]
) -> bool:
    # The high watermark, not the last stable offset: the commit marker of a transaction reaches the
    # history a moment before it reaches this topic, its records are below the watermark of both.
    for place in places:
        watermark = consumer.highwater(place)
        if watermark is not None:
            targets.setdefault(place, watermark)
    return all([place in targets and await consumer.position(place) >= targets[place] for place in places])


def _keep_newest(
    newest: dict[bytes, Record], messages: Iterable[ConsumerRecord[bytes, bytes]], where: TopicPartition
) -> None:
    for message in messages:
        record = record_of(message, where)
        newest.pop(record.key, None)  # re-inserted at the end: the dict stays in offset order
        if record.value is not None:
            newest[record.key] = record
