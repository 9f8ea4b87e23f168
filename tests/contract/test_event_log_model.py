"""Memory and SQLite logs answer alike to any sequence of calls, also across reopening."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.log_reading import read_all
from tidegate.events.clock import ManualClock
from tidegate.events.log.memory import MemoryEventLog, MemoryStore
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import ROLES, SIGNALS, SNAPSHOTS, STATE

PLACES = [TopicPartition(topic.name, p) for topic in (SIGNALS, SNAPSHOTS, STATE) for p in (0, 11)]
values = st.none() | st.binary(max_size=12)
keys = st.sampled_from([b"", b"a", b"\xff\x00"])


def records(*topics: str) -> st.SearchStrategy[list[Outgoing]]:
    places = st.sampled_from([where for where in PLACES if where.topic in topics])
    return st.lists(
        st.builds(lambda w, k, v: Outgoing(w.topic, w.partition, k, v), places, keys, values), max_size=5
    )


estimator = records(SNAPSHOTS.name, STATE.name)
positions = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 1 << 39), max_size=2)
steps = st.one_of(
    st.tuples(st.just("append"), records(SIGNALS.name)),
    st.tuples(st.just("append"), estimator),
    st.tuples(st.just("commit"), st.sampled_from(["x", "y"]), estimator, positions),
    st.tuples(st.just("delete"), st.sampled_from(PLACES), st.integers(0, 6)),
    st.tuples(st.just("reopen")),
)


def seen(record: Record) -> tuple[str, int, bytes, bytes | None]:
    return record.topic, record.partition, record.key, record.value


async def answers(log: Any) -> list[Any]:
    """Everything a reader can learn, without offsets: a transaction may leave a gap in one log only."""
    told: list[Any] = []
    for where in PLACES:
        kept = await read_all(log, [where])
        told.append([seen(record) for record in kept])
        begin = await log.begin(where)
        told.append(begin == kept[0].offset if kept else begin == await log.end(where))
    for topic in (SNAPSHOTS, STATE):
        newest, follow = await log.latest(topic.name)
        told.append(sorted(map(seen, newest.values())))
        told.append([follow[where] == await log.end(where) for where in follow])
    return told


async def apply(log: Any, step: tuple[Any, ...]) -> Any:
    match step:
        case ("append", batch):
            await log.append(batch)
        case ("commit", name, batch, at):
            writer = await log.writer(name)
            await writer.commit(batch, at)
            stored = dict(await writer.positions())
            await writer.close()
            return stored
        case ("delete", where, count):
            kept = await read_all(log, [where])
            if kept:
                await log.delete_before(where, kept[min(count, len(kept) - 1)].offset)
    return None


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=8))
def test_memory_and_sqlite_answer_alike(sequence: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), sequence))


async def compare(folder: Path, sequence: list[tuple[Any, ...]]) -> None:
    clock, store = ManualClock(), MemoryStore()
    memory = MemoryEventLog(clock, store)
    sqlite = SqliteEventLog.open(folder, frozenset(ROLES), clock)
    for step in sequence:
        if step == ("reopen",):
            await sqlite.close()
            sqlite = SqliteEventLog.open(folder, frozenset(ROLES), clock)
        assert await apply(memory, step) == await apply(sqlite, step)
    assert await answers(memory) == await answers(sqlite)
    await sqlite.close()
