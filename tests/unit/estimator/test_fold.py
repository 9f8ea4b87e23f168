"""Fold: cuts do not matter, duplicates do not count, windows are exact, restarts lose nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.journals import make_ids
from support.signals import START_NS, records, stream
from tidegate.estimator.engine import Engine
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.state import Row, State, StateVersionUnknown
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.config import Pool, Routing, Target, Window
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.snapshots import Applied, RateSnapshot
from tidegate.events.topics import SIGNALS, SNAPSHOTS, STATE
from tidegate.events.types import PoolId, TargetId, WindowId


def signals(count: int, pools: int = 9, seed: int = 3) -> list[Signal]:
    found = []
    for record in records(count, pools=pools, seed=seed):
        assert record.value is not None
        envelope = codec.decode_envelope(record.value)
        found.append(Signal(record.partition, envelope, codec.decode_data(envelope)))
    return found


def rows(state: State) -> dict[str, bytes]:
    found = [state.target_row(target) for target in state.targets] + [
        state.pool_row(pool) for pool in state.pools
    ]
    return {row.subject: msgspec.json.encode(row) for row in found}


ALL = signals(1_500)


def folded(cuts: Sequence[int]) -> dict[str, bytes]:
    state, at = State(), 0
    for cut in [*sorted(cuts), len(ALL)]:
        fold(state, ALL[at:cut])
        at = cut
    return rows(state)


WHOLE = folded([])


@pytest.mark.unmeasured
@given(st.lists(st.integers(0, len(ALL)), max_size=12))
@settings(max_examples=15, deadline=None)
def test_the_state_does_not_depend_on_how_records_are_cut(cuts: list[int]) -> None:
    assert folded(cuts) == WHOLE


def test_one_by_one_equals_all_at_once() -> None:
    assert folded(range(0, len(ALL), 1)) == WHOLE


def test_a_state_survives_its_rows_bit_by_bit() -> None:
    state = State()
    fold(state, ALL[:900])
    restored = State()
    for target, index in state.targets.items():
        restored.load(
            msgspec.json.decode(msgspec.json.encode(state.target_row(target)), type=Row),
            state.target_partition[index],
        )
    for pool, index in state.pools.items():
        restored.load(
            msgspec.json.decode(msgspec.json.encode(state.pool_row(pool)), type=Row),
            state.pool_partition[index],
        )
    fold(restored, ALL[900:])
    assert rows(restored) == WHOLE


def test_window_use_is_exact() -> None:
    state = State()
    fold(state, ALL)
    spent: dict[tuple[str, str, int], int] = {}
    for signal in ALL:
        if signal.envelope.type == "UsageSettled":
            for use in signal.data.windows:
                key = (signal.data.pool, use.window, use.period_start_ns)
                spent[key] = spent.get(key, 0) + use.units
    for (pool, window), place in {
        (name, w): (p, w) for name, p in state.pools.items() for w in (WindowId("5h"), WindowId("week"))
    }.items():
        if place not in state.windows:
            continue
        start, used, *_ = state.ledger.row(state.windows[place])
        assert used == spent[pool, window, start]


def test_a_row_of_another_fold_version_is_refused_by_name() -> None:
    state = State()
    fold(state, ALL[:50])
    row = state.target_row(next(iter(state.targets)))
    row.fold = 99
    with pytest.raises(StateVersionUnknown, match="version 99"):
        State().load(row, 0)


class Alarms:
    def __init__(self) -> None:
        self.dead: list[str] = []
        self.stops: list[TopicPartition] = []

    def dead_letter(self, record: Record, error: str) -> None:
        self.dead.append(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        self.stops.append(where)


ROUTING = Routing(
    pools=tuple(
        Pool(
            id=PoolId(f"pool-{n}"),
            billing="flat",
            windows=(
                Window(id=WindowId("5h"), unit="requests", limit=400, duration_s=18_000),
                Window(id=WindowId("week"), unit="tokens", limit=10**8, duration_s=604_800),
            ),
        )
        for n in range(1, 9, 2)
    ),
    targets=tuple(
        Target(
            id=TargetId(f"target-{n}"),
            dialect="openai",
            base_url="https://x.test",
            model="m",
            pool=PoolId(f"pool-{n}"),
        )
        for n in range(9)
    ),
)


def new_engine(log: MemoryEventLog, clock: ManualClock, alarms: Alarms | None = None) -> Engine:
    return Engine(log, clock, make_ids(clock), ROUTING, alarms or Alarms(), 0.25)


async def drive(engine: Engine, log: MemoryEventLog, *, commits_every: int) -> None:
    reader = log.reader(await engine.open())
    while batch := await reader.poll(commits_every):
        engine.take(batch)
        await engine.commit()


async def latest_rows(log: MemoryEventLog) -> dict[bytes, bytes]:
    rows, _ = await log.latest(STATE.name)
    found: dict[bytes, bytes] = {}
    for key, record in rows.items():
        assert record.value is not None
        if not key.startswith(b"marks"):
            row = msgspec.json.decode(record.value, type=Row)
            row.version = 0
            for window in row.windows:
                window.status = 0
            found[key] = msgspec.json.encode(row)
    return found


async def test_any_restart_points_give_the_state_of_a_clean_run() -> None:
    clock = ManualClock(START_NS + 10**12)
    written = records(1_200, pools=9)
    clean, torn = MemoryEventLog(clock), MemoryEventLog(clock)
    await clean.append(written)
    await torn.append(written)
    await drive(new_engine(clean, clock), clean, commits_every=10_000)
    for taken in (100, 333, 7, 400):
        engine = new_engine(torn, clock)
        reader = torn.reader(await engine.open())
        engine.take(await reader.poll(taken))
        await engine.commit()
        engine.take(await reader.poll(50))  # folded, never committed: as after a kill
    await drive(new_engine(torn, clock), torn, commits_every=90)
    assert await latest_rows(torn) == await latest_rows(clean)


async def test_duplicates_by_source_and_seq_change_nothing() -> None:
    clock = ManualClock(START_NS + 10**12)
    written = records(600, pools=9)
    once, twice = MemoryEventLog(clock), MemoryEventLog(clock)
    await once.append(written)
    await twice.append(written[:400])
    await twice.append(written[200:])
    engine = new_engine(twice, clock)
    await drive(engine, twice, commits_every=130)
    await drive(new_engine(once, clock), once, commits_every=130)
    assert engine.duplicates == 200
    assert await latest_rows(once) == await latest_rows(twice)


async def test_snapshots_have_dense_versions_and_applied_says_what_they_include() -> None:
    clock = ManualClock(START_NS + 10**12)
    log = MemoryEventLog(clock)
    await log.append(records(800, pools=9))
    await drive(new_engine(log, clock), log, commits_every=200)
    await log.append(records(100, pools=9, seed=8, source="gw-1@2"))
    await drive(new_engine(log, clock), log, commits_every=200)
    reader = log.reader({TopicPartition(SNAPSHOTS.name, p): 0 for p in range(PARTITIONS)})
    versions: dict[str, int] = {}
    marks: dict[int, dict[str, int]] = {}
    while batch := await reader.poll():
        for record in batch:
            assert record.value is not None
            data = codec.decode_data(codec.decode_envelope(record.value))
            if isinstance(data, RateSnapshot):
                assert data.version == versions.get(data.subject, 0) + 1
                versions[data.subject] = data.version
                for window in data.pool.windows if data.pool else ():
                    assert window.shadow_nanousd > 0
            elif isinstance(data, Applied):
                marks[data.partition] = data.marks
    assert max(seen.get("gw-0@1", 0) for seen in marks.values()) == 800
    assert max(seen.get("gw-1@2", 0) for seen in marks.values()) == 100
    assert {f"target:target-{n}" for n in range(9)} | {f"pool:pool-{n}" for n in range(1, 9, 2)} <= set(
        versions
    )


async def test_bytes_that_are_no_envelope_go_to_the_dead_letter_and_unknown_events_stop_their_partition() -> (
    None
):
    clock, alarms = ManualClock(START_NS), Alarms()
    log = MemoryEventLog(clock)
    written = records(40, pools=3)
    await log.append(written)
    where = written[0].partition
    await log.append([written[0]._replace(value=b"\xff not json")])
    await log.append(
        [
            written[0]._replace(
                value=b'{"id":"x","type":"FromTheFuture","v":1,"ts":1,"source":"z","seq":1,"data":{}}'
            )
        ]
    )
    await log.append([record._replace(value=record.value) for record in records(5, pools=3, source="gw-9@9")])
    engine = new_engine(log, clock, alarms)
    await drive(engine, log, commits_every=1_000)
    assert len(alarms.dead) == 1
    assert [stop.partition for stop in alarms.stops] == [where]
    end = await log.end(TopicPartition(SIGNALS.name, where))
    assert engine.shards[where].position < end
    for partition, shard in engine.shards.items():
        caught_up = shard.position == await log.end(TopicPartition(SIGNALS.name, partition))
        assert caught_up != (partition == where)


def test_the_stream_of_the_tests_is_seeded() -> None:
    assert list(stream(20)) == list(stream(20))
