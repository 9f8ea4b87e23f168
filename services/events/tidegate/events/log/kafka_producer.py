# mypy: untyped-calls-exclude=aiokafka
"""One Kafka producer, and records cut into batches for it."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata

from tidegate.events.errors import LogUnavailable, Refused
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_start import start_whole
from tidegate.events.log.port import Outgoing

_BATCH_BYTES = 256 << 10
# A broker takes 1 MiB by default, framing included.
_RECORD_BYTES_MAX = 1_000_000
_CANCEL_S = 0.2


class Entry(NamedTuple):
    """A record on its way into one Kafka topic."""

    topic: str
    record: Outgoing
    headers: tuple[tuple[str, bytes], ...] = ()


class Batch(NamedTuple):
    """`turn`: how many batches of its partition go before it."""

    topic: str
    partition: int
    turn: int
    builder: Any
    records: list[Outgoing]


class Session:
    """One producer, and the acknowledgements it still owes."""

    def __init__(self, settings: KafkaSettings, transactional_id: str | None = None) -> None:
        self.producer = AIOKafkaProducer(
            **settings.client_options(),
            enable_idempotence=True,
            acks="all",
            max_batch_size=_BATCH_BYTES,
            compression_type=settings.compression,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(settings.transaction_timeout_s * 1_000),
        )
        self._owed: set[asyncio.Future[RecordMetadata]] = set()
        self._turns: defaultdict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def start(self, deadline_s: float) -> None:
        """Connect; fences the predecessor of a transactional id. Raises LogUnavailable."""
        try:
            await start_whole(self.producer, deadline_s)
        except (KafkaError, TimeoutError) as error:
            await self.drop()
            raise LogUnavailable(f"cannot open a Kafka producer: {error!r}") from error
        except BaseException:
            await self.drop()
            raise

    async def send(
        self, batches: Sequence[Batch], acks: list[asyncio.Future[RecordMetadata]] | None = None
    ) -> list[RecordMetadata]:
        """Send batches in their turns, the order of `batches_of`, and wait for all. Raises KafkaError when one
        fails; then none of a later turn was sent, for what readers have of a partition has no hole.

        `acks` receives an item for each batch that was handed over: none, and nothing can have been sent.
        """
        acks = [] if acks is None else acks
        delivered: list[RecordMetadata] = []
        try:
            for _, turn in itertools.groupby(batches, key=_turn):
                handed = len(acks)
                for batch in turn:
                    acks.append(await self._hand_over(batch))
                # aiokafka sends the next batch also after a refusal, and a broker that refused the first of a
                # new producer takes it: readers drop what comes late by its `seq`.
                results = await asyncio.gather(*acks[handed:], return_exceptions=True)
                delivered += [_delivered(result) for result in results]
        finally:
            for ack in acks:
                ack.cancel()
                self._owed.discard(ack)
        return delivered

    async def _hand_over(self, batch: Batch) -> asyncio.Future[RecordMetadata]:
        # In turn: aiokafka wakes all that wait for a place in its queue and counts their time several times.
        async with self._turns[batch.topic, batch.partition]:
            ack: asyncio.Future[RecordMetadata] = await self.producer.send_batch(
                batch.builder, batch.topic, partition=batch.partition
            )
        self._owed.add(ack)
        return ack

    async def drop(self) -> None:
        """Close at once. The producer's own `stop` would first flush, which a broker that hangs never
        lets it, and what it flushed late could overtake what the caller sends again."""
        for ack in self._owed:
            ack.cancel()
        # aiokafka is pinned to the version whose insides these are; there is no public way.
        producer = self.producer
        producer._closed = True  # pyright: ignore[reportPrivateUsage]
        sender: asyncio.Task[None] | None = producer._sender.sender_task  # pyright: ignore[reportPrivateUsage]
        await producer.client.close()
        while sender is not None and not sender.done():
            sender.cancel()  # each time it waits for a request of its own first
            await asyncio.wait([sender], timeout=_CANCEL_S)
        await producer.client.close()  # what the sender opened meanwhile
        _hush(producer)


def _hush(producer: Any) -> None:
    """Take the errors that nobody will ask a dropped producer for, or asyncio logs each as forgotten."""
    batches = itertools.chain.from_iterable(producer._message_accumulator._batches.values())
    waiters = [batch._drain_waiter for batch in batches]
    transaction = producer._txn_manager.wait_for_transaction_end()
    for waiter in (*waiters, *([] if transaction is None else [transaction])):
        if waiter.done() and not waiter.cancelled():
            waiter.exception()


def _delivered(result: RecordMetadata | BaseException) -> RecordMetadata:
    if isinstance(result, KafkaError):
        raise result
    if isinstance(result, BaseException):
        raise KafkaError("the producer was closed") from result
    if result.offset < 0:
        raise KafkaError("the broker acknowledged a duplicate without its offset")
    return result


def check_sizes(records: Iterable[Outgoing]) -> None:
    """Raises Refused for a record that no broker would take."""
    for record in records:
        size = len(record.key) + len(record.value or b"")
        if size > _RECORD_BYTES_MAX:
            raise Refused(f"a record of {size} bytes for {record.topic}; at most {_RECORD_BYTES_MAX} fit")


def batches_of(session: Session, entries: Iterable[Entry]) -> list[Batch]:
    """Entries cut into batches, in order per partition: the first of each, then the second of each, and so on."""
    batches: list[Batch] = []
    open_batches: dict[tuple[str, int], Batch] = {}
    for entry in entries:
        _, partition, key, value = entry.record
        where = (entry.topic, partition)
        batch = open_batches.get(where)
        row = {"timestamp": None, "key": key, "value": value, "headers": list(entry.headers)}
        if batch is None or batch.builder.append(**row) is None:
            turn = 0 if batch is None else batch.turn + 1
            batch = open_batches[where] = Batch(*where, turn, session.producer.create_batch(), [])
            batches.append(batch)
            batch.builder.append(**row)
        batch.records.append(entry.record)
    for batch in batches:
        batch.builder.close()
    return sorted(batches, key=_turn)


def _turn(batch: Batch) -> int:
    return batch.turn
