"""The log runner: a log that fails is opened again from the stored state, and nothing of the last try stays open."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from support.journals import make_ids
from support.signals import records
from tidegate.estimator import engine, log_runner
from tidegate.estimator.log_runner import LogRunner
from tidegate.events.clock import ManualClock, SystemClock
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.errors import Fenced, LogUnavailable
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import EventLog, Outgoing, Reader, Record, TopicPartition, Writer
from tidegate.events.partition import PARTITIONS, partition_of
from tidegate.events.topics import SIGNALS, STATE
from tidegate.events.types import PoolId, WindowId

ROUTING = Routing()


class Alarms:
    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


class Opened:
    """What handles of the log have open now, by class."""

    def __init__(self, log: MemoryEventLog) -> None:
        self.log = log
        self.readers = self.writers = self.commits = 0
        self.failures = 2
        self.turns = 2
        """Turns of the loop that a commit needs."""
        self.polls_in_commit = self.most_polls_in_a_commit = 0

    def open_log(self) -> EventLog:
        return _Handle(self)  # type: ignore[return-value]


class _Handle:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.latest = opened.log.latest
        self.end = opened.log.end

    def reader(self, start: Mapping[TopicPartition, int]) -> Reader:
        self._opened.readers += 1
        return _Reader(self._opened, self._opened.log.reader(start))

    async def writer(self, transactional_id: str) -> Writer:
        self._opened.writers += 1
        return _Writer(self._opened, await self._opened.log.writer(transactional_id))

    async def close(self) -> None:
        """The log is the test's."""


class _Reader:
    """Fails at its second poll, while the first commit is under way, as long as failures are left."""

    def __init__(self, opened: Opened, inner: Reader) -> None:
        self._opened = opened
        self._inner = inner
        self._polls = 0
        self.positions = inner.positions
        self.seek = inner.seek

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        self._polls += 1
        if self._opened.commits:
            self._opened.polls_in_commit += 1
        if self._polls == 2 and self._opened.failures:
            self._opened.failures -= 1
            raise LogUnavailable("gone")
        return await self._inner.poll(max_records, timeout_s)

    async def close(self) -> None:
        self._opened.readers -= 1


class _Writer:
    def __init__(self, opened: Opened, inner: Writer) -> None:
        self._opened = opened
        self._inner = inner
        self.positions = inner.positions

    async def commit(
        self, records: Sequence[Outgoing], positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        opened = self._opened
        opened.commits += 1
        try:
            for _ in range(opened.turns):
                await asyncio.sleep(0)
            await self._inner.commit(records, positions)
        finally:
            opened.commits -= 1
        if not opened.commits:
            opened.most_polls_in_a_commit = max(opened.most_polls_in_a_commit, opened.polls_in_commit)
            opened.polls_in_commit = 0

    async def close(self) -> None:
        assert self._opened.commits == 0, "closed during its own commit"
        self._opened.writers -= 1


async def test_after_a_fault_of_the_log_nothing_stays_open_and_the_state_is_whole() -> None:
    opened = Opened(MemoryEventLog(SystemClock()))
    await opened.log.append(records(300, pools=5))
    runner = LogRunner(opened.open_log, SystemClock(), make_ids(), lambda: ROUTING, Alarms(), 0.01)
    stopping = asyncio.Event()
    running = asyncio.ensure_future(runner.run(stopping.is_set))
    async with asyncio.timeout(20):
        while runner.restarts < 2 or not (await opened.log.latest(STATE.name))[0]:
            assert not running.done()
            await asyncio.sleep(0.01)
        assert (opened.readers, opened.writers) in {(1, 12), (0, 12), (0, 0)}, "one engine at a time"
        stopping.set()
        await running
    assert (opened.readers, opened.writers, opened.commits) == (0, 0, 0)
    newest, _ = await opened.log.latest(STATE.name)
    assert {key.decode() for key in newest if key.startswith(b"target:")} == {
        f"target:target-{n}" for n in range(5)
    }


async def test_a_backlog_is_not_folded_past_a_commit_that_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (log_runner, engine):
        monkeypatch.setattr(module, "MAX_UNCOMMITTED", 100)
    monkeypatch.setattr(log_runner, "POLL_RECORDS", 50)
    opened = Opened(MemoryEventLog(SystemClock()))
    opened.failures, opened.turns = 0, 200
    await opened.log.append(records(3_000, pools=5))
    runner = LogRunner(opened.open_log, SystemClock(), make_ids(), lambda: ROUTING, Alarms(), 3_600)
    stopping = asyncio.Event()
    running = asyncio.ensure_future(runner.run(stopping.is_set))
    async with asyncio.timeout(30):
        while runner.engine is None or sum(s.position for s in runner.engine.shards.values()) < 3_000:
            await asyncio.sleep(0)
        stopping.set()
        await running
    assert opened.most_polls_in_a_commit <= 100 / 50


async def test_of_two_estimators_the_younger_stays_and_the_older_ends() -> None:
    opened = Opened(MemoryEventLog(SystemClock()))
    opened.failures = 0
    stopping = asyncio.Event()
    older, younger = (
        LogRunner(opened.open_log, SystemClock(), make_ids(), lambda: ROUTING, Alarms(), 0.01)
        for _ in range(2)
    )
    first = asyncio.ensure_future(older.run(stopping.is_set))
    written = records(900, pools=5)
    async with asyncio.timeout(30):
        await opened.log.append(written[:300])
        while older.engine is None or older.engine.applied < 200:
            await asyncio.sleep(0.01)
        second = asyncio.ensure_future(younger.run(stopping.is_set))
        while younger.engine is None or not younger.engine.commits:
            await asyncio.sleep(0.01)
        await opened.log.append(written[300:])
        with pytest.raises(Fenced):
            await first
        ends = [await opened.log.end(TopicPartition(SIGNALS.name, p)) for p in range(PARTITIONS)]
        while [younger.engine.shards[p].position for p in range(PARTITIONS)] != ends:
            await asyncio.sleep(0.01)
        stopping.set()
        await second
    assert (older.restarts, younger.restarts) == (0, 0)


IN_FIRST = next(
    Pool(
        id=PoolId(name),
        billing="flat",
        windows=(Window(id=WindowId("w"), unit="requests", limit=1, duration_s=60),),
    )
    for name in map(str, range(1_000))
    if partition_of(name) == 0
)
"""A pool whose window is published in partition 0."""


class _Aborting:
    """A log whose commits end as Kafka's do for a process that stood still past its transaction."""

    def __init__(self, clock: ManualClock, stood_s: list[float]) -> None:
        self.log = MemoryEventLog(clock)
        self.clock = clock
        self.stood_s = stood_s
        """Of commits to come: how long each stands still before it is refused."""

    def open_log(self) -> EventLog:
        return self  # type: ignore[return-value]

    def reader(self, start: Mapping[TopicPartition, int]) -> Reader:
        return self.log.reader(start)

    async def latest(self, topic: str, partitions: Sequence[int]) -> Any:
        return await self.log.latest(topic, partitions)

    async def writer(self, transactional_id: str) -> Writer:
        return self if transactional_id == "estimator-0" else await self.log.writer(transactional_id)  # type: ignore[return-value]

    async def positions(self) -> Mapping[TopicPartition, int]:
        return {}

    async def commit(self, *_written: object) -> None:
        if self.stood_s:
            self.clock.advance_ns(int(self.stood_s.pop(0) * 1e9))
            raise Fenced("a younger writer exists")

    async def close(self) -> None:
        """Nothing is open."""


async def stood(stood_s: list[float], pause_s: float = 0.0, timeout_s: float = 10.0) -> tuple[int, int]:
    """Restarts of a runner whose commits to partition 0 stand still so long, and commits refused until it
    ended; -1 when it did not end by itself."""
    clock = ManualClock(10**18)
    fake = _Aborting(clock, list(stood_s))
    wanted = Routing(pools=(IN_FIRST,))
    ended = False

    def stopping() -> bool:
        return not fake.stood_s and runner.engine is not None and runner.engine.commits > 0

    runner = LogRunner(
        fake.open_log, clock, make_ids(), lambda: wanted, Alarms(), 0.01, transaction_timeout_s=timeout_s
    )
    real_sleep = asyncio.sleep

    async def sleep(_delay_s: float, result: object = None) -> object:
        clock.advance_ns(int(pause_s * 1e9))
        return await real_sleep(0, result)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_runner.asyncio, "sleep", sleep)
        try:
            async with asyncio.timeout(30):
                await runner.run(stopping)
        except Fenced:
            ended = True
    return runner.restarts, len(stood_s) - len(fake.stood_s) if ended else -1


async def test_a_process_that_stood_still_in_a_commit_goes_on_but_not_twice_in_a_minute() -> None:
    assert await stood([11.0]) == (1, -1)
    assert await stood([11.0, 11.0], pause_s=61.0) == (2, -1)
    assert await stood([11.0, 11.0]) == (1, 2)


async def test_a_process_that_did_not_stand_still_leaves_the_partitions_to_the_other() -> None:
    assert await stood([9.0]) == (0, 1)
    assert await stood([1e6], timeout_s=math.inf) == (0, 1)
