# mypy: untyped-calls-exclude=aiokafka
"""What we believe about the broker itself: each fact that the Kafka adapter is built on."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition

from support.kafka_clients import consuming, create_topic, producing, read_to_end
from support.kafka_providers import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


async def values_of(bootstrap: str, topic: str, *, partitions: int = 1) -> list[bytes]:
    async with consuming(bootstrap, topic, partitions=partitions) as consumer:
        return [record.value or b"" for record in await read_to_end(consumer)]


async def test_an_idempotent_producer_gets_back_what_it_sent_in_order(kafka: Broker) -> None:
    topic = kafka.prefix() + "round-trip"
    await create_topic(kafka.bootstrap, topic, partitions=3, message_timestamp_type="LogAppendTime")
    sent = [(n % 3, b"key-%d" % (n % 7), b"value-%d" % n) for n in range(900)]
    async with producing(kafka.bootstrap) as producer:
        acks = [await producer.send(topic, value, key=key, partition=p) for p, key, value in sent]
        for ack in acks:
            await ack
    async with consuming(kafka.bootstrap, topic, partitions=3) as consumer:
        records = await read_to_end(consumer)
    for partition in range(3):
        there = [r for r in records if r.partition == partition]
        assert [(r.partition, r.key, r.value) for r in there] == [s for s in sent if s[0] == partition]
        assert [r.offset for r in there] == list(range(300))
        assert all(r.timestamp_type == 1 for r in there)  # the broker's clock, not ours


async def test_readers_of_committed_data_see_whole_transactions_only(kafka: Broker) -> None:
    prefix = kafka.prefix()
    topic = prefix + "transactions"
    await create_topic(kafka.bootstrap, topic)
    async with producing(kafka.bootstrap, transactional_id=prefix + "writer") as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"given up", partition=0)
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"still open", partition=0)
        assert await values_of(kafka.bootstrap, topic) == [b"kept"]
        await producer.commit_transaction()
    assert await values_of(kafka.bootstrap, topic) == [b"kept", b"still open"]


async def test_a_younger_writer_fences_the_older_and_ends_its_transaction(kafka: Broker) -> None:
    prefix = kafka.prefix()
    topic, writer = prefix + "fencing", prefix + "writer"
    await create_topic(kafka.bootstrap, topic)
    async with producing(kafka.bootstrap, transactional_id=writer) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"zombie", partition=0)
        async with producing(kafka.bootstrap, transactional_id=writer) as heir, heir.transaction():
            await heir.send_and_wait(topic, b"heir", partition=0)
        with pytest.raises(ProducerFenced):
            await zombie.commit_transaction()
    assert await values_of(kafka.bootstrap, topic) == [b"heir"]


async def test_positions_in_a_transaction_arrive_with_it_or_not_at_all(kafka: Broker) -> None:
    prefix = kafka.prefix()
    topic, group = prefix + "positions", prefix + "group"
    where = TopicPartition(topic, 0)
    await create_topic(kafka.bootstrap, topic)
    async with producing(kafka.bootstrap, transactional_id=prefix + "writer") as producer:
        for position, commits in ((11, True), (22, False)):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({where: position}, group)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
    assert await committed_position(kafka.bootstrap, group, where) == 11


async def committed_position(bootstrap: str, group: str, where: TopicPartition) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return (await admin.list_consumer_group_offsets(group, partitions=[where]))[where].offset
    finally:
        await admin.close()


async def test_compaction_leaves_the_newest_record_of_each_key(kafka: Broker) -> None:
    topic = kafka.prefix() + "compacted"
    await create_topic(
        kafka.bootstrap,
        topic,
        cleanup_policy="compact",
        segment_bytes=str(1 << 20),
        segment_ms="1000",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="1000",
    )
    async with producing(kafka.bootstrap) as producer:
        for n in range(2_000):
            await producer.send(topic, b"%d" % n, key=b"key-%d" % (n % 10), partition=0)
        await producer.flush()
        newest = [b"%d" % n for n in range(1_990, 2_000)]
        # The active segment is never cleaned: a record now and then makes the broker roll it.
        async with asyncio.timeout(60):
            while True:
                await producer.send_and_wait(topic, b"roll", key=b"roll", partition=0)
                left = [value for value in await values_of(kafka.bootstrap, topic) if value != b"roll"]
                if left == newest:
                    break
                await asyncio.sleep(0.25)


async def test_a_killed_node_comes_back_with_every_acknowledged_record(kafka: Broker) -> None:
    cluster = kafka.require("kill", "restart")
    topic = kafka.prefix() + "crash"
    await create_topic(kafka.bootstrap, topic)
    async with producing(kafka.bootstrap) as producer:
        before = [b"before-%d" % n for n in range(500)]
        for ack in [await producer.send(topic, value, partition=0) for value in before]:
            await ack
        cluster.kill(1)
        during = asyncio.ensure_future(producer.send_and_wait(topic, b"while down", partition=0))
        await asyncio.to_thread(cluster.restart, 1)
        await during  # the same producer goes on by itself
        await producer.send_and_wait(topic, b"after", partition=0)
    assert await values_of(kafka.bootstrap, topic) == [*before, b"while down", b"after"]


@pytest.mark.nightly
async def test_three_nodes_lose_and_double_nothing_when_leaders_are_killed(
    kafka_cluster: Callable[[int], Broker],
) -> None:
    broker = await asyncio.to_thread(kafka_cluster, 3)
    cluster = broker.require("multi_node", "kill", "restart")
    topic = broker.prefix() + "failover"
    await create_topic(broker.bootstrap, topic, partitions=3, replication=3)
    stop = asyncio.Event()
    async with producing(broker.bootstrap) as producer:
        load = asyncio.ensure_future(send_until(producer, topic, stop))
        for _ in range(3):
            leader = await leader_of(producer, topic)
            cluster.kill(leader)
            acknowledged_by_others = await producer.send_and_wait(topic, b"proof of failover", partition=0)
            assert acknowledged_by_others.offset >= 0
            assert await leader_of(producer, topic) != leader
            await asyncio.to_thread(cluster.restart, leader)
        stop.set()
        acknowledged = await load
    found = Counter(await values_of(broker.bootstrap, topic, partitions=3))
    found.pop(b"proof of failover")
    assert len(acknowledged) > 5_000
    assert found == Counter(acknowledged)


async def send_until(producer: AIOKafkaProducer, topic: str, stop: asyncio.Event) -> list[bytes]:
    """About 1,000 records a second, spread over three partitions; returns those acknowledged."""
    sent: list[tuple[bytes, asyncio.Future[object]]] = []
    while not stop.is_set():
        for _ in range(20):
            value = b"%d" % len(sent)
            sent.append((value, await producer.send(topic, value, partition=len(sent) % 3)))
        await asyncio.sleep(0.02)
    return [value for value, ack in sent if await ack]


async def leader_of(producer: AIOKafkaProducer, topic: str) -> int:
    await producer.client.force_metadata_update()
    leader = producer.client.cluster.leader_for_partition(TopicPartition(topic, 0))
    return -1 if leader is None else leader
