# mypy: untyped-calls-exclude=aiokafka
"""EventLog over Kafka through aiokafka."""

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPlace
from aiokafka.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from aiokafka.structs import RecordMetadata

from tidegate.events.errors import AckUnknown, Fenced, LogUnavailable
from tidegate.events.log.kafka_admin import DeclaredTopics
from tidegate.events.log.kafka_consumer import consumer_of, offsets_of, scan, start, stop
from tidegate.events.log.kafka_producer import Entry, Session, batches_of, check_sizes
from tidegate.events.log.kafka_reader import KafkaReader
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import history_name, is_copied, latest_name
from tidegate.events.log.kafka_writer import KafkaWriter
from tidegate.events.log.places import latest_topic, partitions_asked, role_of, topic_at
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.topics import BY_NAME

# With nothing handed over these say nothing about the producer, which others may be using.
_BEFORE_SENDING = (TimeoutError, KafkaTimeoutError, UnknownTopicOrPartitionError)


class KafkaEventLog:
    """The log in a Kafka cluster; one handle serves a process. Topics are created by `apply_topics`: before
    they are all there, every call is LogUnavailable and names what is missing.

    Records of a topic that keeps both history and latest go into both of its Kafka topics in one
    transaction, also by `append`: otherwise a crash could leave a record in one of them for good.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._declared = DeclaredTopics(settings)
        self._open = True
        self._session: Session | None = None
        self._pair_writer: KafkaWriter | None = None
        self._query: AIOKafkaConsumer | None = None
        self._opening = asyncio.Lock()
        self._pairs = asyncio.Lock()

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Append a batch; see `EventLog.append`."""
        role_of(records)
        check_sizes(records)
        self._check()
        if any(is_copied(BY_NAME[record.topic]) for record in records):
            await self._append_pairs(records)
        elif records:
            await self._append_plain(records)

    def reader(self, start: Mapping[TopicPartition, int]) -> KafkaReader:
        """A reader from the given positions; it connects at its first poll."""
        self._check()
        return KafkaReader(self._settings, start, self._declared)

    async def begin(self, where: TopicPartition) -> int:
        """Oldest offset still kept."""
        consumer, place = await self._asked(where)
        return (await offsets_of(consumer.beginning_offsets, [place], self._settings))[place]

    async def end(self, where: TopicPartition) -> int:
        """Position after the last committed record: no open transaction lies below it."""
        consumer, place = await self._asked(where)
        return (await offsets_of(consumer.end_offsets, [place], self._settings))[place]

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        """Newest record per key and the positions to follow from; reads the whole compacted topic.

        A record has the offset and the append time it has in the history, where there is one.
        """
        declared = latest_topic(topic)
        places = partitions_asked(declared, partitions)
        self._check()
        await self._declared.require()
        # Before the scan: what is committed by now, the scan will reach.
        ends = {where: await self.end(where) for where in places} if declared.keeps_history else {}
        name = latest_name(declared, self._settings.prefix)
        newest, reached = await scan(self._settings, {KafkaPlace(name, w.partition): w for w in places})
        return newest, ends or reached

    async def writer(self, transactional_id: str) -> KafkaWriter:
        """A transactional writer; fences its predecessor and aborts what that left open."""
        self._check()
        await self._declared.require()
        return await KafkaWriter.open(self._settings, self._settings.prefix + transactional_id)

    async def close(self) -> None:
        """Disconnect at once; appends under way raise AckUnknown."""
        self._open = False
        session, self._session = self._session, None
        writer, self._pair_writer = self._pair_writer, None
        query, self._query = self._query, None
        if session is not None:
            await session.drop()
        if writer is not None:
            await writer.close()
        if query is not None:
            await stop(query)

    async def _append_plain(self, records: Sequence[Outgoing]) -> None:
        session = await self._idempotent_session()
        prefix = self._settings.prefix
        batches = batches_of(session, (Entry(history_name(BY_NAME[r.topic], prefix), r) for r in records))
        acks: list[asyncio.Future[RecordMetadata]] = []
        try:
            async with asyncio.timeout(self._settings.ack_deadline_s):
                await session.send(batches, acks)
        except (KafkaError, TimeoutError) as error:
            if acks or not isinstance(error, _BEFORE_SENDING):
                await self._drop_session(session)
            if not acks:
                raise LogUnavailable(f"Kafka takes no records: {error!r}") from error
            raise AckUnknown(f"no acknowledgement of {len(records)} records: {error!r}") from error

    async def _append_pairs(self, records: Sequence[Outgoing]) -> None:
        async with self._pairs:
            if self._pair_writer is None:
                await self._declared.require()
                name = f"{self._settings.prefix}{self._settings.client_id}.append"
                self._pair_writer = await KafkaWriter.open(self._settings, name)
            writer = self._pair_writer
            try:
                await writer.commit(records)
            except Fenced as error:
                raise LogUnavailable(
                    f"another process has the client id {self._settings.client_id}"
                ) from error
            finally:
                if writer.ended:
                    self._pair_writer = None

    async def _idempotent_session(self) -> Session:
        async with self._opening:
            if self._session is None:
                await self._declared.require()
                session = Session(self._settings)
                await session.start(self._settings.query_deadline_s)
                self._session = session
            return self._session

    async def _drop_session(self, session: Session) -> None:
        if self._session is session:
            self._session = None
        await session.drop()

    async def _asked(self, where: TopicPartition) -> tuple[AIOKafkaConsumer, KafkaPlace]:
        name = history_name(topic_at(where), self._settings.prefix)
        self._check()
        async with self._opening:
            if self._query is None:
                await self._declared.require()
                query = consumer_of(self._settings)
                await start(query, self._settings.query_deadline_s)
                self._query = query
            return self._query, KafkaPlace(name, where.partition)

    def _check(self) -> None:
        if not self._open:
            raise LogUnavailable("this handle of the Kafka log is closed")
