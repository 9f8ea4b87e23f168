# mypy: untyped-calls-exclude=aiokafka
"""Records and positions in one Kafka transaction."""

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka import TopicPartition as KafkaPlace
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import IllegalOperation, KafkaError, ProducerFenced, for_code
from aiokafka.protocol.commit import OffsetFetchRequest

from tidegate.events.errors import AckUnknown, Fenced, LogUnavailable
from tidegate.events.log.kafka_producer import Entry, Session, batches_of, check_sizes
from tidegate.events.log.kafka_settings import RETRY_BACKOFF_MS, KafkaSettings
from tidegate.events.log.kafka_topics import history_name, is_copied, latest_name, origin
from tidegate.events.log.places import role_of, topic_at
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.topics import BY_NAME

_ABORT_DEADLINE_S = 2.0


class KafkaWriter:
    """A transactional producer; its positions are those of a consumer group named like the writer.

    After Fenced, AckUnknown, or a LogUnavailable that could not be rolled back it is of no more use: only
    opening a new one may fence others, so it never reconnects by itself.
    """

    def __init__(self, settings: KafkaSettings, session: Session, name: str) -> None:
        self._settings = settings
        self._session = session
        self._name = name
        self._positions: dict[TopicPartition, int] = {}
        self._ended: str | None = None

    @classmethod
    async def open(cls, settings: KafkaSettings, name: str) -> "KafkaWriter":
        """Fence and abort the predecessor, then read its positions."""
        session = Session(settings, name)
        await session.start(settings.query_deadline_s)
        writer = cls(settings, session, name)
        try:
            async with asyncio.timeout(settings.query_deadline_s):
                writer._positions = await writer._stored_positions()
        except (KafkaError, TimeoutError) as error:
            await session.drop()
            raise LogUnavailable(f"cannot read the positions of {name}: {error!r}") from error
        except BaseException:
            await session.drop()
            raise
        return writer

    @property
    def ended(self) -> bool:
        """Whether a new writer is needed."""
        return self._ended is not None

    async def positions(self) -> Mapping[TopicPartition, int]:
        """Positions of the last commit under this id."""
        return dict(self._positions)

    async def commit(
        self, records: Sequence[Outgoing], positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Append and store positions in one Kafka transaction (25–45 ms whatever its size)."""
        role_of(records)
        check_sizes(records)
        if self._ended is not None:
            raise (Fenced if self._ended == "fenced" else LogUnavailable)(
                f"the writer {self._name} is {self._ended}: open a new one"
            )
        if not records and not positions:
            return
        # All of them every time: the broker forgets positions that are not renewed for too long.
        stored = {**self._positions, **(positions or {})}
        prefix = self._settings.prefix
        await self._transact(
            records,
            {KafkaPlace(history_name(topic_at(w), prefix), w.partition): p for w, p in stored.items()},
        )
        self._positions = stored

    async def close(self) -> None:
        """Disconnect; an open transaction is left to time out or to be aborted by the next writer."""
        await self._end("closed")

    async def _transact(self, records: Sequence[Outgoing], offsets: Mapping[KafkaPlace, int]) -> None:
        decided = False
        try:
            async with asyncio.timeout(self._settings.ack_deadline_s):
                await self._session.producer.begin_transaction()
                await self._put(records)
                if offsets:
                    await self._session.producer.send_offsets_to_transaction(offsets, self._name)
                decided = True
                await self._session.producer.commit_transaction()
        except ProducerFenced as error:
            await self._end("fenced")
            raise Fenced(f"a younger writer {self._name} exists") from error
        except (KafkaError, TimeoutError) as error:
            if decided:
                await self._end("in an unknown state")
                raise AckUnknown(f"no answer to the commit of {self._name}: {error!r}") from error
            await self._roll_back()
            raise LogUnavailable(f"Kafka did not take the records of {self._name}: {error!r}") from error
        except BaseException:
            await self._end("interrupted")
            raise

    async def _put(self, records: Sequence[Outgoing]) -> None:
        prefix = self._settings.prefix
        entries = (Entry(history_name(BY_NAME[r.topic], prefix), r) for r in records)
        batches = batches_of(self._session, entries)
        # The copies follow, so that each can say where the original stands.
        acknowledged = zip(batches, await self._session.send(batches), strict=True)
        copies = [
            Entry(latest_name(topic, prefix), record, (origin(ack.offset + index, ack.timestamp or 0),))
            for batch, ack in acknowledged
            if is_copied(topic := BY_NAME[batch.records[0].topic])
            for index, record in enumerate(batch.records)
        ]
        await self._session.send(batches_of(self._session, copies))

    async def _stored_positions(self) -> dict[TopicPartition, int]:
        # By hand: aiokafka's admin client takes a coordinator's refusal for "no positions".
        client = self._session.producer.client
        while True:
            try:
                node = await client.coordinator_lookup(CoordinationType.GROUP, self._name)
                request = OffsetFetchRequest(self._name, None)
                answer = await client.send(node, request, group=ConnectionGroup.COORDINATION)
                for code in (answer.error_code, *(p[3] for _, parts in answer.topics for p in parts)):
                    if code:
                        raise for_code(code)
            except KafkaError as error:
                if not error.retriable:
                    raise
                await client.force_metadata_update()
                await asyncio.sleep(RETRY_BACKOFF_MS / 1_000)
                continue
            return {
                TopicPartition(topic.removeprefix(self._settings.prefix), partition): offset
                for topic, parts in answer.topics
                for partition, offset, *_ in parts
            }

    async def _roll_back(self) -> None:
        try:
            async with asyncio.timeout(_ABORT_DEADLINE_S):
                await self._session.producer.abort_transaction()
        except (KafkaError, TimeoutError, IllegalOperation, AssertionError):
            await self._end("not rolled back")

    async def _end(self, why: str) -> None:
        if self._ended is None:
            self._ended = why
            await self._session.drop()
