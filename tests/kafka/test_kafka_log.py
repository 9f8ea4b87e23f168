# mypy: untyped-calls-exclude=aiokafka
"""What the Kafka adapter promises beyond the contract of every log: behaviour when brokers fail or drift."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import TopicPartition as KafkaPlace

from support.kafka_clients import producing
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from tidegate.events.errors import AckUnknown, Fenced, LogCorrupt, LogUnavailable, Refused
from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.kafka_admin import check_topics
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import latest_name
from tidegate.events.log.port import Outgoing, Reader, Record, TopicPartition
from tidegate.events.topics import CONTROL, SIGNALS, SNAPSHOTS, STATE

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SIGNAL = TopicPartition(SIGNALS.name, 3)
MAX_BYTES = "max.message.bytes"
NOWHERE = KafkaSettings("127.0.0.1:1", "test", replication=1, min_in_sync=1)


def signals(*values: str) -> list[Outgoing]:
    return [Outgoing(*SIGNAL, b"key", value.encode()) for value in values]


def states(*values: str) -> list[Outgoing]:
    return [Outgoing(STATE.name, 3, b"key", value.encode()) for value in values]


async def read_all(log: KafkaEventLog, where: TopicPartition = SIGNAL) -> list[Record]:
    reader = log.reader({where: 0})
    try:
        return await read_until_end(log, reader, where)
    finally:
        await reader.close()


async def read_until_end(log: KafkaEventLog, reader: Reader, where: TopicPartition) -> list[Record]:
    records: list[Record] = []
    while reader.positions()[where] < await log.end(where):
        records += await reader.poll(timeout_s=0.5)
    return records


async def poll_for_ever(reader: Reader) -> None:
    while True:
        await reader.poll(timeout_s=0.2)


def values(records: Sequence[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


@contextmanager
def hanging(broker: Broker) -> Generator[None]:
    """The only node hangs: its connections stay open and nothing answers."""
    cluster = broker.require("kill")
    cluster.suspend(1)
    try:
        yield
    finally:
        cluster.resume(1)


@asynccontextmanager
async def impatient_log(broker: Broker) -> AsyncGenerator[tuple[KafkaEventLog, KafkaEventLog]]:
    """Two handles on one log; the first gives a broker little time."""
    settings = kafka_settings(broker)
    async with kafka_event_log(broker, settings) as calm:
        log = KafkaEventLog(replace(settings, ack_deadline_s=3.0, query_deadline_s=3.0, stalled_s=1.0))
        try:
            yield log, calm
        finally:
            await log.close()


async def test_a_latest_record_says_where_it_stands_in_the_history(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        control = TopicPartition(CONTROL.name, 5)
        await log.append([Outgoing(*control, b"k%d" % (n % 3), b"first-%d" % n) for n in range(5)])
        await log.append([Outgoing(*control, b"k1", b"second"), Outgoing(*control, b"k0", None)])
        newest, positions = await log.latest(CONTROL.name)
        history = await read_all(log, control)
    assert newest == {record.key: record for record in history if record.value in {b"first-2", b"second"}}
    assert positions[control] > history[-1].offset
    assert len(positions) == CONTROL.partitions


async def test_records_are_spread_over_many_batches_in_order(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        sent = [f"{n}-{'x' * 2_000}" for n in range(1_000)]
        await log.append(signals(*sent))
        assert values(await read_all(log)) == sent


async def test_many_appends_wait_their_turn_in_the_order_they_came(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        sent = [str(n) for n in range(200)]
        await asyncio.gather(*(log.append(signals(value)) for value in sent))
        assert values(await read_all(log)) == sent


async def set_max_message_bytes(settings: KafkaSettings, topic: str, size: int) -> None:
    """Change the largest batch that a topic takes, and return once its broker knows."""
    place = (ConfigResourceType.TOPIC, settings.prefix + topic)
    admin = AIOKafkaAdminClient(**settings.client_options())
    await admin.start()
    await admin.alter_configs([ConfigResource(*place, configs={MAX_BYTES: str(size)})])
    found = None
    while found != str(size):
        (answer,) = await admin.describe_configs([ConfigResource(*place, configs={MAX_BYTES: None})])
        found = answer.to_object()["resources"][0]["config_entries"][0]["config_value"]
    await admin.close()


async def test_what_follows_a_refused_batch_is_not_sent_before_it(kafka: Broker) -> None:
    settings = kafka_settings(kafka, compression=None)
    sent = [f"{n}-{'x' * size}" for n, size in enumerate((100_000, 100_000, 100_000, 10))]
    async with kafka_event_log(kafka, settings) as log:
        await set_max_message_bytes(settings, SIGNAL.topic, 150_000)  # between the two batches of this append
        with pytest.raises(AckUnknown, match="MessageSizeTooLarge"):
            await log.append(signals(*sent))
        assert await log.end(SIGNAL) == 0
        await set_max_message_bytes(settings, SIGNAL.topic, 1_000_000)
        await log.append(signals(*sent))
        assert values(await read_all(log)) == sent


async def test_a_record_too_large_for_a_broker_is_refused_before_anything_is_sent(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        with pytest.raises(Refused, match="at most 1000000 fit"):
            await log.append(signals("small", "x" * 1_000_001))
        assert await log.end(SIGNAL) == 0


async def test_an_append_to_a_hanging_broker_is_unknown_and_never_overtakes_its_repetition(
    kafka: Broker,
) -> None:
    async with impatient_log(kafka) as (log, calm):
        await log.append(signals("one"))
        with hanging(kafka), pytest.raises(AckUnknown, match="1 records"):
            await log.append(signals("two"))
        await calm.append(signals("two", "three"))
        found = values(await read_all(calm))
    assert found in (["one", "two", "three"], ["one", "two", "two", "three"])


async def test_appends_under_way_learn_of_the_end_of_the_log(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        await log.append(signals("one"))
        with hanging(kafka):
            under_way = asyncio.ensure_future(log.append(signals("two")))
            await asyncio.sleep(0.1)
            await log.close()
            with pytest.raises(AckUnknown):
                await under_way
        with pytest.raises(LogUnavailable, match="closed"):
            await log.append(signals("three"))


async def test_a_commit_to_a_hanging_broker_leaves_the_truth_to_the_next_writer(kafka: Broker) -> None:
    async with impatient_log(kafka) as (log, calm):
        writer = await log.writer("estimator-3")
        await writer.commit(states("one"), {SIGNAL: 1})
        with hanging(kafka), pytest.raises((LogUnavailable, AckUnknown)) as caught:
            await writer.commit(states("two"), {SIGNAL: 2})
        with pytest.raises(LogUnavailable, match="open a new one"):
            await writer.commit(states("never"), {SIGNAL: 3})
        heir = await calm.writer("estimator-3")
        newest, _ = await calm.latest(STATE.name)
        position = (await heir.positions())[SIGNAL]
        assert (values([newest[b"key"]]), position) in ((["one"], 1), (["two"], 2))
        if caught.type is LogUnavailable:
            assert position == 1
        await heir.close()


async def test_a_fenced_writer_is_of_no_more_use(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        old, young = await log.writer("w"), await log.writer("w")
        for _ in range(2):
            with pytest.raises(Fenced):
                await old.commit(states("old"))
        await young.commit(states("young"))
        newest, _ = await log.latest(STATE.name)
        assert values([newest[b"key"]]) == ["young"]
        await old.close()
        await young.close()


async def test_a_refused_commit_leaves_the_writer_usable(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        writer = await log.writer("w")
        with pytest.raises(Refused):
            await writer.commit(states("x" * 1_000_001), {SIGNAL: 1})
        await writer.commit(states("small"), {SIGNAL: 2})
        assert await writer.positions() == {SIGNAL: 2}
        await writer.close()


async def test_the_end_lies_before_an_open_transaction_and_latest_waits_for_it(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    async with kafka_event_log(kafka, settings) as log:
        name = latest_name(STATE, settings.prefix)
        async with producing(kafka.bootstrap, transactional_id=settings.prefix + "other") as other:
            await other.begin_transaction()
            await other.send_and_wait(name, b"value", key=b"key", partition=3)
            assert await log.end(TopicPartition(STATE.name, 3)) == 0
            latest = asyncio.ensure_future(log.latest(STATE.name))
            done, _ = await asyncio.wait([latest], timeout=0.3)
            assert not done
            await other.commit_transaction()
            newest, _ = await latest
        assert values([newest[b"key"]]) == ["value"]


async def test_positions_of_every_partition_are_renewed_with_each_commit(kafka: Broker) -> None:
    other = TopicPartition(SIGNALS.name, 4)
    async with kafka_event_log(kafka) as log:
        first = await log.writer("w")
        await first.commit([], {SIGNAL: 1, other: 7})
        second = await log.writer("w")
        await second.commit(states("s"), {SIGNAL: 2})
        third = await log.writer("w")
        assert await third.positions() == {SIGNAL: 2, other: 7}
        for writer in (first, second, third):
            await writer.close()


async def delete_below(settings: KafkaSettings, where: TopicPartition, offset: int) -> None:
    """What retention does."""
    admin = AIOKafkaAdminClient(**settings.client_options())
    await admin.start()
    place = KafkaPlace(settings.prefix + where.topic, where.partition)
    await admin.delete_records({place: RecordsToDelete(before_offset=offset)})
    await admin.close()


async def test_a_position_below_the_oldest_record_moves_up_to_it(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    async with kafka_event_log(kafka, settings) as log:
        await log.append(signals("one", "two", "three"))
        await delete_below(settings, SIGNAL, 2)
        assert await log.begin(SIGNAL) == 2
        assert values(await read_all(log)) == ["three"]


async def test_partitions_that_retention_has_shortened_cost_no_record_of_the_others(kafka: Broker) -> None:
    settings = kafka_settings(kafka)
    places = [TopicPartition(SIGNALS.name, partition) for partition in range(SIGNALS.partitions)]
    async with kafka_event_log(kafka, settings) as log:
        await log.append([Outgoing(*where, b"k", b"%d" % n) for n in range(40) for where in places])
        for where in places[::3]:
            await delete_below(settings, where, 30)
        reader = log.reader(dict.fromkeys(places, 0))
        found: dict[int, list[int]] = {where.partition: [] for where in places}
        while any(position < 40 for position in reader.positions().values()):
            for record in await reader.poll(timeout_s=0.5):
                found[record.partition].append(int(record.value or b"-1"))
        await reader.close()
    for partition, numbers in found.items():
        assert numbers == list(range(30 if partition % 3 == 0 else 0, 40))


async def test_a_position_beyond_the_end_is_reported_as_loss(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        await log.append(signals("one"))
        reader = log.reader({SIGNAL: 5})
        with pytest.raises(LogCorrupt, match=r"position 5 .* beyond its end"):
            await poll_for_ever(reader)
        await reader.close()


async def test_a_reader_follows_and_can_go_back(kafka: Broker) -> None:
    async with kafka_event_log(kafka) as log:
        reader = log.reader({SIGNAL: 0})
        assert await reader.poll() == []
        await log.append(signals("one", "two"))
        assert values(await read_until_end(log, reader, SIGNAL)) == ["one", "two"]
        reader.seek(SIGNAL, 1)
        assert values(await read_until_end(log, reader, SIGNAL)) == ["two"]
        with pytest.raises(Refused, match="does not follow"):
            reader.seek(TopicPartition(SIGNALS.name, 4), 0)
        await reader.close()


async def test_a_reader_notices_that_nobody_answers(kafka: Broker) -> None:
    async with impatient_log(kafka) as (log, calm):
        await calm.append(signals("one"))
        reader = log.reader({SIGNAL: 0, TopicPartition(SIGNALS.name, 4): 0})
        assert values(await read_until_end(calm, reader, SIGNAL)) == ["one"]
        with hanging(kafka), pytest.raises(LogUnavailable, match="no broker has answered"):
            await poll_for_ever(reader)
        await calm.append(signals("two"))
        records: list[Record] = []
        while not records:
            with suppress(LogUnavailable):  # the broker may need a while to answer again
                records += await reader.poll(timeout_s=0.5)
        assert values(records) == ["two"]
        await reader.close()


async def test_an_unreachable_cluster_is_unavailable_in_every_call() -> None:
    log = KafkaEventLog(NOWHERE)
    reader = log.reader({SIGNAL: 0})
    for call in (
        lambda: log.append(signals("one")),
        lambda: log.append([Outgoing(CONTROL.name, 0, b"k", b"v")]),
        lambda: log.end(SIGNAL),
        lambda: log.latest(SNAPSHOTS.name),
        lambda: log.writer("w"),
        reader.poll,
        lambda: check_topics(NOWHERE),
    ):
        with pytest.raises(LogUnavailable):
            await call()
    await reader.close()
    await log.close()
