# mypy: untyped-calls-exclude=aiokafka
"""Plain aiokafka clients for tests that look at a broker itself."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import ConsumerRecord, TopicPartition

# aiokafka retries a refused connection at once unless told to wait.
RETRY_BACKOFF_MS = 200


async def create_topic(
    bootstrap: str, name: str, *, partitions: int = 1, replication: int = 1, **config: str
) -> None:
    """Create a topic and wait until every partition has a leader; `config` with `_` for `.`."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, retry_backoff_ms=RETRY_BACKOFF_MS)
    await admin.start()
    try:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        answer = await admin.create_topics([NewTopic(name, partitions, replication, topic_configs=settings)])
        errors = [error for error in answer.to_object()["topic_errors"] if error["error_code"] != 0]
        if errors:
            raise AssertionError(f"topics were not created: {errors}")
    finally:
        await admin.close()


@asynccontextmanager
async def producing(
    bootstrap: str, *, transactional_id: str | None = None, request_timeout_ms: int = 5_000
) -> AsyncGenerator[AIOKafkaProducer]:
    """An idempotent producer with full acknowledgements."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        transactional_id=transactional_id,
        transaction_timeout_ms=10_000,
        request_timeout_ms=request_timeout_ms,
        metadata_max_age_ms=5_000,
        retry_backoff_ms=RETRY_BACKOFF_MS,
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(
    bootstrap: str, topic: str, *, partitions: int = 1, committed_only: bool = True
) -> AsyncGenerator[AIOKafkaConsumer]:
    """A consumer at the beginning of every partition of `topic`."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed" if committed_only else "read_uncommitted",
        metadata_max_age_ms=5_000,
        retry_backoff_ms=RETRY_BACKOFF_MS,
    )
    await consumer.start()
    try:
        where = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(where)
        await consumer.seek_to_beginning(*where)
        yield consumer
    finally:
        await consumer.stop()


async def read_to_end(consumer: AIOKafkaConsumer) -> Sequence[ConsumerRecord[bytes, bytes]]:
    """Everything from the consumer's positions to the ends its isolation level shows now."""
    where = list(consumer.assignment())
    ends = await consumer.end_offsets(where)
    records: list[ConsumerRecord[bytes, bytes]] = []
    while any([await consumer.position(tp) < ends[tp] for tp in where]):
        for batch in (await consumer.getmany(timeout_ms=500)).values():
            records.extend(batch)
    return records
