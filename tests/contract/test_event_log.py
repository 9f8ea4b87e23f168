"""What every event log promises: one suite for memory, SQLite and Kafka."""

import asyncio
import time

import pytest

from support.log_reading import OpenLog, drain, numbers, outgoing, read_all, read_from
from tidegate.events.errors import Fenced, LogUnavailable, Refused
from tidegate.events.log.port import EventLog, Outgoing, TopicPartition
from tidegate.events.topics import CONTROL, REQUESTS, SIGNALS, SNAPSHOTS, STATE, Topic

A = TopicPartition(SIGNALS.name, 3)
B = TopicPartition(SIGNALS.name, 7)
C = TopicPartition(REQUESTS.name, 3)
SNAP = TopicPartition(SNAPSHOTS.name, 2)
KEPT = TopicPartition(STATE.name, 2)
WAIT_S = 20.0


async def test_what_was_acknowledged_is_read_back_in_order_per_key(log: EventLog) -> None:
    for start in range(0, 60, 20):
        mixed = [
            outgoing(where, [n], key=f"k{n % 3}")[0] for n in range(start, start + 20) for where in (A, B, C)
        ]
        await log.append(mixed)

    records = await read_all(log, [A, B, C])

    for where in (A, B, C):
        mine = [r for r in records if (r.topic, r.partition) == where]
        assert numbers(mine) == list(range(60))
        assert [r.key for r in mine] == [b"k%d" % (n % 3) for n in range(60)]


async def test_offsets_rise_strictly_also_over_transactions(log: EventLog) -> None:
    writer = await log.writer("rising")
    for n in range(5):
        await writer.commit(outgoing(SNAP, [n]))

    records = await read_all(log, [SNAP])

    offsets = [r.offset for r in records]
    assert offsets == sorted(set(offsets))
    assert numbers(records) == list(range(5))
    await writer.close()


async def test_a_reader_that_is_caught_up_stands_at_or_after_the_end(log: EventLog) -> None:
    writer = await log.writer("caught-up")
    await writer.commit(outgoing(SNAP, range(3)))
    reader = log.reader({SNAP: 0})

    assert len(await drain(log, reader)) == 3

    assert reader.positions()[SNAP] >= await log.end(SNAP)
    await reader.close()
    await writer.close()


async def test_a_waiting_reader_sees_what_is_appended_later(
    log: EventLog, event_log_factory: OpenLog
) -> None:
    other = await event_log_factory()
    reader = other.reader({A: 0, B: 0})
    assert await reader.poll(timeout_s=0.05) == []

    for n in range(3):
        waiting = asyncio.ensure_future(reader.poll(timeout_s=WAIT_S))
        await asyncio.sleep(0)
        await log.append(outgoing(B, [n]))
        assert numbers(await waiting) == [n]
    await reader.close()


async def test_a_poll_returns_no_more_than_asked_and_the_rest_comes_next(log: EventLog) -> None:
    await log.append([*outgoing(A, range(30)), *outgoing(B, range(30))])
    reader = log.reader({A: 0, B: 0})
    seen: dict[int, list[int]] = {A.partition: [], B.partition: []}
    while sum(map(len, seen.values())) < 60:
        part = await reader.poll(max_records=7, timeout_s=WAIT_S)
        assert 0 < len(part) <= 7
        for record in part:
            seen[record.partition] += numbers([record])
    assert list(seen.values()) == [list(range(30))] * 2
    await reader.close()


async def test_reading_goes_on_exactly_where_stored_positions_say(log: EventLog) -> None:
    await log.append(outgoing(A, range(10)))
    first = log.reader({A: 0})
    taken = list(await first.poll(max_records=4, timeout_s=WAIT_S))
    stored = first.positions()
    await first.close()

    rest = await read_from(log, stored)

    assert numbers([*taken, *rest]) == list(range(10))


async def test_a_reader_can_seek_back_and_forth(log: EventLog) -> None:
    await log.append(outgoing(A, range(5)))
    reader = log.reader({A: 0})
    records = await drain(log, reader)

    reader.seek(A, records[3].offset)
    assert numbers(await drain(log, reader)) == [3, 4]
    reader.seek(A, 0)
    assert numbers(await drain(log, reader)) == list(range(5))
    reader.seek(A, await log.end(A))
    await log.append(outgoing(A, [5]))
    assert numbers(await reader.poll(timeout_s=WAIT_S)) == [5]
    await reader.close()


async def test_a_seek_forgets_what_was_read_ahead_of_that_partition_only(log: EventLog) -> None:
    await log.append([*outgoing(A, range(5)), *outgoing(B, range(5))])
    reader = log.reader({A: 0, B: 0})
    first = list(await reader.poll(max_records=2, timeout_s=WAIT_S))
    assert sum(reader.positions().values()) == 2

    reader.seek(A, 3)
    rest = [*first, *await drain(log, reader)]

    taken_of_a = [r for r in first if r.partition == A.partition]
    assert numbers([r for r in rest if r.partition == A.partition]) == [*numbers(taken_of_a), 3, 4]
    assert numbers([r for r in rest if r.partition == B.partition]) == list(range(5))
    await reader.close()


async def test_a_partition_never_written_reads_as_empty(log: EventLog) -> None:
    assert await log.begin(A) == 0
    assert await log.end(A) == 0
    assert await read_all(log, [A]) == []
    assert await log.latest(CONTROL.name) == ({}, {TopicPartition(CONTROL.name, p): 0 for p in range(12)})


async def test_begin_is_the_oldest_record_and_end_lies_behind_the_newest(log: EventLog) -> None:
    await log.append(outgoing(A, range(4)))

    records = await read_all(log, [A])

    assert await log.begin(A) == records[0].offset
    assert await log.end(A) > records[-1].offset


@pytest.mark.parametrize("topic", [SNAPSHOTS, STATE, CONTROL], ids=lambda topic: topic.name)
async def test_latest_is_the_newest_record_of_each_key_without_tombstones(
    log: EventLog, topic: Topic
) -> None:
    where, other = TopicPartition(topic.name, 1), TopicPartition(topic.name, 2)
    await log.append([*outgoing(where, range(3), key="a"), *outgoing(where, [7], key="gone")])
    await log.append([Outgoing(*where, b"gone", None), *outgoing(other, [9], key="b")])
    await log.append(outgoing(where, [8], key="a"))

    latest, _ = await log.latest(topic.name)
    only, positions = await log.latest(topic.name, [2])

    assert {key: numbers([record])[0] for key, record in latest.items()} == {b"a": 8, b"b": 9}
    assert list(only) == [b"b"]
    assert list(positions) == [other]


async def test_a_key_can_come_back_after_its_tombstone(log: EventLog) -> None:
    where = TopicPartition(CONTROL.name, 0)
    await log.append(outgoing(where, [1], key="a"))
    await log.append([Outgoing(*where, b"a", None)])
    await log.append(outgoing(where, [2], key="a"))

    latest, _ = await log.latest(CONTROL.name)

    assert numbers(latest.values()) == [2]


async def test_following_from_the_positions_of_latest_misses_nothing(
    log: EventLog, event_log_factory: OpenLog
) -> None:
    other = await event_log_factory()
    places = [TopicPartition(SNAPSHOTS.name, p) for p in range(12)]

    async def write() -> None:
        for n in range(40):
            await log.append([outgoing(where, [n], key=f"s{where.partition}-{n % 4}")[0] for where in places])

    writing = asyncio.ensure_future(write())
    while not (await other.latest(SNAPSHOTS.name))[0]:
        await asyncio.sleep(0.001)
    latest, positions = await other.latest(SNAPSHOTS.name)
    await writing

    view = {key: record.offset for key, record in latest.items()}
    for record in await read_from(other, positions):
        view[record.key] = max(view.get(record.key, -1), record.offset)
    truth, _ = await log.latest(SNAPSHOTS.name)
    assert view == {key: record.offset for key, record in truth.items()}
    assert len(view) == 48


async def test_a_topic_that_keeps_only_latest_can_be_followed_from_its_ends(log: EventLog) -> None:
    await log.append(outgoing(KEPT, range(5), key="a"))
    _, positions = await log.latest(STATE.name, [KEPT.partition])
    assert positions == {KEPT: await log.end(KEPT)}

    await log.append([*outgoing(KEPT, [5], key="a"), *outgoing(KEPT, [6], key="b")])

    assert numbers(await read_from(log, positions)) == [5, 6]


async def test_records_and_positions_are_committed_together(
    log: EventLog, event_log_factory: OpenLog
) -> None:
    writer = await log.writer("together")
    await writer.commit([*outgoing(SNAP, [1]), *outgoing(KEPT, [1])], {A: 11, B: 3})
    await writer.commit(outgoing(SNAP, [2]), {A: 12})
    await writer.close()

    other = await event_log_factory()
    successor = await other.writer("together")

    assert dict(await successor.positions()) == {A: 12, B: 3}
    assert numbers(await read_all(other, [SNAP])) == [1, 2]
    assert numbers((await other.latest(STATE.name))[0].values()) == [1]
    await successor.close()


async def test_positions_can_be_committed_alone_and_go_back(log: EventLog) -> None:
    writer = await log.writer("alone")
    await writer.commit([], {A: 9})
    await writer.commit([], {A: 4})
    assert dict(await writer.positions()) == {A: 4}
    await writer.close()


async def test_readers_see_all_of_a_transaction_or_nothing(log: EventLog, event_log_factory: OpenLog) -> None:
    other = await event_log_factory()
    writer = await log.writer("whole")
    places = [TopicPartition(SNAPSHOTS.name, p) for p in range(3)]

    async def write() -> None:
        for n in range(30):
            await writer.commit([record for where in places for record in outgoing(where, [n] * 4)])

    writing = asyncio.ensure_future(write())
    reader = other.reader(dict.fromkeys(places, 0))
    seen: dict[int, list[int]] = {where.partition: [] for where in places}
    while len(seen[0]) < 120:
        ends = {where: await other.end(where) for where in places}
        while any(reader.positions()[where] < end for where, end in ends.items()):
            for record in await reader.poll(timeout_s=0.05):
                seen[record.partition] += numbers([record])
        whole = min(len(part) for part in seen.values())
        assert whole % 4 == 0  # caught up with a committed end: no transaction is there by half
        await asyncio.sleep(0)
    await writing
    assert {tuple(part) for part in seen.values()} == {tuple(n for n in range(30) for _ in range(4))}
    await reader.close()
    await writer.close()


async def test_a_younger_writer_fences_the_older_for_good(log: EventLog, event_log_factory: OpenLog) -> None:
    other = await event_log_factory()
    older = await log.writer("shard-1")
    bystander = await log.writer("shard-2")
    await older.commit(outgoing(SNAP, [1]), {A: 1})

    younger = await other.writer("shard-1")
    for _ in range(2):
        with pytest.raises(Fenced):
            await older.commit(outgoing(SNAP, [666]), {A: 666})

    await younger.commit(outgoing(SNAP, [2]), {A: 2})
    await bystander.commit(outgoing(SNAP, [3]), {A: 33})
    assert dict(await younger.positions()) == {A: 2}
    assert sorted(numbers(await read_all(other, [SNAP]))) == [1, 2, 3]
    for writer in (older, bystander, younger):
        await writer.close()


async def test_two_handles_append_side_by_side_without_losing_or_mixing(
    log: EventLog, event_log_factory: OpenLog
) -> None:
    other = await event_log_factory()

    async def write(handle: EventLog, key: str) -> None:
        for n in range(0, 60, 3):
            await handle.append(outgoing(A, range(n, n + 3), key=key))

    await asyncio.gather(write(log, "left"), write(other, "right"))

    records = await read_all(log, [A])
    offsets = [r.offset for r in records]
    assert offsets == sorted(set(offsets))
    for key in (b"left", b"right"):
        assert numbers(r for r in records if r.key == key) == list(range(60))


async def test_appends_that_overlap_all_arrive_once(log: EventLog) -> None:
    await asyncio.gather(*(log.append(outgoing(A, [n])) for n in range(20)))
    assert sorted(numbers(await read_all(log, [A]))) == list(range(20))


async def test_places_that_do_not_exist_are_refused_and_nothing_is_appended(log: EventLog) -> None:
    for bad in (
        TopicPartition("tidegate.nothing.v1", 0),
        TopicPartition(A.topic, 12),
        TopicPartition(A.topic, -1),
    ):
        with pytest.raises(Refused):
            await log.append([*outgoing(A, [1]), *outgoing(bad, [1])])
        with pytest.raises(Refused):
            log.reader({bad: 0})
        with pytest.raises(Refused):
            await log.begin(bad)
        with pytest.raises(Refused):
            await log.end(bad)
    with pytest.raises(Refused):
        await log.latest(SIGNALS.name)
    with pytest.raises(Refused):
        await log.latest(SNAPSHOTS.name, [12])
    assert await read_all(log, [A]) == []


async def test_an_empty_batch_changes_nothing(log: EventLog) -> None:
    writer = await log.writer("empty")
    await log.append([])
    await writer.commit([])
    assert await log.end(A) == 0
    assert dict(await writer.positions()) == {}
    await writer.close()


async def test_keys_and_values_are_any_bytes_and_no_value_is_not_an_empty_value(log: EventLog) -> None:
    every = bytes(range(256))
    written: list[tuple[bytes, bytes | None]] = [
        (every, every[::-1]),
        (b"\x00", b""),
        (b"none", None),
        ("schlüssel".encode(), b"x" * 300_000),
    ]
    await log.append([Outgoing(*A, key, value) for key, value in written])
    assert [(r.key, r.value) for r in await read_all(log, [A])] == written


async def test_each_record_carries_the_time_of_its_append(log: EventLog) -> None:
    before_ns = time.time_ns()
    for n in range(3):
        await log.append(outgoing(A, [n]))
    after_ns = time.time_ns()

    times_ns = [r.append_ns for r in await read_all(log, [A])]

    tolerance_ns = 2_000_000  # a broker keeps milliseconds
    assert times_ns == sorted(times_ns)
    assert before_ns - tolerance_ns <= times_ns[0] <= times_ns[-1] <= after_ns + tolerance_ns


async def test_records_outlive_their_handle(event_log_factory: OpenLog) -> None:
    first = await event_log_factory()
    await first.append(outgoing(A, range(3)))
    await first.close()

    second = await event_log_factory()
    await second.append(outgoing(A, [3]))

    assert numbers(await read_all(second, [A])) == [0, 1, 2, 3]


async def test_a_closed_log_says_that_it_is_unavailable(log: EventLog) -> None:
    await log.close()
    with pytest.raises(LogUnavailable):
        await log.append(outgoing(A, [1]))
    with pytest.raises(LogUnavailable):
        await log.end(A)


async def test_a_poll_that_is_cancelled_loses_no_record(log: EventLog) -> None:
    reader = log.reader({A: 0, B: 0})
    await log.append([*outgoing(A, range(600)), *outgoing(B, range(600))])
    seen: dict[int, list[int]] = {A.partition: [], B.partition: []}
    for pause_s in [0, 0.0001, 0.001, 0.01] * 5:
        waiting = asyncio.ensure_future(reader.poll(timeout_s=WAIT_S))
        await asyncio.sleep(pause_s)
        if waiting.done() or not waiting.cancel():
            for record in waiting.result():
                seen[record.partition] += numbers([record])
            continue
        with pytest.raises(asyncio.CancelledError):
            await waiting
    for record in await drain(log, reader):
        seen[record.partition] += numbers([record])
    assert list(seen.values()) == [list(range(600))] * 2
    await reader.close()
