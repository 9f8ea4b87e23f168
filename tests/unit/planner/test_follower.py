"""The follower: what the log says is in force, at once as a whole; without the log the last view stays."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from support.planning import NOW_NS, S, ask, of_pool, of_target, plan, priced, routing, target
from support.virtual_time import in_virtual_time
from tidegate.events.causes import Consequence
from tidegate.events.clock import ManualClock
from tidegate.events.codec import encode
from tidegate.events.config import Routing
from tidegate.events.control import ConfigPublished, TargetDisabled, TargetEnabled
from tidegate.events.decision import NOTHING_LOCAL
from tidegate.events.envelope import Draft
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.memory import MemoryEventLog, MemoryReader, MemoryStore
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.snapshots import Applied
from tidegate.events.topics import CONTROL, SIGNALS, SNAPSHOTS, Topic
from tidegate.events.types import EventId, PoolId, TargetId
from tidegate.planner.follower import RETRY_S, Follower
from tidegate.planner.overlay import Overlay
from tidegate.planner.places import places_of

A = TargetId("a")
CONFIG = routing([target("a", priced(1, 1)), target("b", priced(2, 2))])
DEARER_A = routing([target("a", priced(3, 3)), target("b", priced(2, 2))])


class OutageReader(MemoryReader):
    def __init__(self, log: "OutageLog", start: Mapping[TopicPartition, int]) -> None:
        super().__init__(log.store, start)
        self._log = log

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        if self._log.down:
            raise LogUnavailable("the log is down")
        return await super().poll(max_records, timeout_s)


class OutageLog(MemoryEventLog):
    """A log in memory that can be down for readers."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, MemoryStore())
        self.down = False

    def reader(self, start: Mapping[TopicPartition, int]) -> OutageReader:
        return OutageReader(self, start)

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        if self.down:
            raise LogUnavailable("the log is down")
        return await super().latest(topic, partitions)


class World:
    """A log, a follower of it, and short ways to write to it."""

    def __init__(self, config: Routing = CONFIG) -> None:
        self.clock = ManualClock(NOW_NS)
        self.log = OutageLog(self.clock)
        self.overlay = Overlay("gw@1")
        self.follower = Follower(self.log, config, self.overlay, self.clock)

    async def write(self, topic: Topic, key: str, data: Any, partition: int | None = None) -> None:
        kind, version = type_of(data)
        draft = Draft(id=EventId("e"), type=kind, v=version, ts=NOW_NS, source="x", seq=1, data=data)
        await self.write_bytes(topic, key, encode(draft), partition)

    async def write_bytes(self, topic: Topic, key: str, value: bytes, partition: int | None = None) -> None:
        self.clock.advance_ns(1)
        where = partition_of(key) if partition is None else partition
        await self.log.append([Outgoing(topic.name, where, key.encode(), value)])

    async def publish(self, config: Routing) -> None:
        digest = config.digest()
        await self.write(
            CONTROL,
            digest,
            ConfigPublished(digest=digest, routing=config, actor="op"),
            partition_of("config"),
        )

    async def switch(self, data: TargetEnabled | TargetDisabled) -> None:
        await self.write(CONTROL, data.target, data)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.follower.run())
        try:
            await self.follower.wait_loaded()
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, promise: Callable[[], bool]) -> None:
        async with asyncio.timeout(60.0):
            while not promise():
                await asyncio.sleep(0.01)

    def chosen(self) -> str | None:
        places = places_of((TargetId(name), PoolId(name)) for name in "ab")
        switches = self.follower.view.switches
        views = self.overlay.locals_of(places, "s", NOW_NS, switches, self.clock.mono_ns(), 0)
        return plan(self.follower.view, ask(), dict(zip("ab", views, strict=True))).chosen


@in_virtual_time
async def test_what_the_log_held_before_the_start_is_in_force_after_loading() -> None:
    world = World()
    await world.write(SNAPSHOTS, "target:a", of_target("a", version=1))
    await world.write(SNAPSHOTS, "target:a", of_target("a", version=2, circuit="refusing"))
    await world.switch(TargetDisabled(target=TargetId("b"), actor="op"))
    async with world.following():
        assert world.chosen() is None
        status = world.follower.status()
        assert (status.snapshots, status.newest_snapshot_ns, status.problem) == (1, NOW_NS, None)


@in_virtual_time
async def test_the_newest_belief_held_is_never_an_older_one() -> None:
    world = World()
    async with world.following():
        assert world.follower.status().newest_snapshot_ns is None
        late = msgspec.structs.replace(of_target("a"), at_ns=NOW_NS + 5)
        await world.write(SNAPSHOTS, "target:a", late, 0)
        await world.write(SNAPSHOTS, "target:b", of_target("b"), 0)
        await world.until(lambda: world.follower.status().snapshots == 2)
        await world.write(SNAPSHOTS, "target:b", of_target("b", version=2), 0)
        await world.until(lambda: world.follower.view.snapshots["target:b"].version == 2)
        assert world.follower.status().newest_snapshot_ns == NOW_NS + 5


@in_virtual_time
async def test_a_snapshot_written_later_is_in_force_soon() -> None:
    world = World()
    async with world.following():
        assert world.chosen() == "a"
        await world.write(SNAPSHOTS, "target:a", of_target("a", circuit="refusing"))
        await world.until(lambda: world.chosen() == "b")
        await world.write(SNAPSHOTS, "target:a", of_target("a", version=1, circuit="admitting"))
        await world.write(SNAPSHOTS, "pool:b", of_pool("b", cooldown_until_ns=NOW_NS + S))
        await world.until(lambda: world.chosen() is None)


@in_virtual_time
async def test_a_kill_switch_acts_within_a_second_and_is_reversed_by_its_opposite() -> None:
    world = World()
    async with world.following():
        began_s = asyncio.get_running_loop().time()
        await world.switch(TargetDisabled(target=A, actor="op"))
        await world.until(lambda: world.chosen() == "b")
        assert asyncio.get_running_loop().time() - began_s < 1.0
        await world.switch(TargetEnabled(target=A, actor="op"))
        await world.until(lambda: world.chosen() == "a")


@in_virtual_time
async def test_what_was_published_or_switched_last_holds_though_the_clock_was_ahead_before() -> None:
    world = World(DEARER_A)
    world.clock.jump_wall_ns(600 * S)
    await world.publish(CONFIG)
    await world.switch(TargetDisabled(target=A, actor="op"))
    world.clock.jump_wall_ns(-600 * S)
    await world.publish(DEARER_A)
    await world.switch(TargetEnabled(target=A, actor="op"))
    async with world.following():
        assert world.follower.view.digest == DEARER_A.digest()
        assert world.follower.view.switches == {A: False}
        await world.publish(CONFIG)
        await world.until(lambda: world.follower.view.digest == CONFIG.digest())


@in_virtual_time
async def test_enabling_a_target_voids_what_this_worker_held_against_it() -> None:
    world = World()
    async with world.following():
        world.overlay.failed(A, PoolId("a"), Consequence("failover", "target_disable"), seq=1)
        assert world.chosen() == "b"
        await world.switch(TargetEnabled(target=A, actor="op"))
        await world.until(lambda: world.chosen() == "a")


@in_virtual_time
async def test_the_overlay_drops_what_the_snapshots_cover_never_before_their_view_is_in_force() -> None:
    world = World()
    pool = PoolId("a")
    where = partition_of(pool)
    world.overlay.failed(A, pool, Consequence("failover", "target_cooldown", NOW_NS + 99 * S), seq=5)
    mark = Applied(topic=SIGNALS.name, partition=where, position=9, marks={"gw@1": 5})
    async with world.following():
        # One batch: the snapshot that says `refusing` and the mark that says it includes our evidence.
        await world.write(SNAPSHOTS, "target:a", of_target("a", circuit="refusing"), where)
        await world.write(SNAPSHOTS, f"applied:{where}", mark, where)
        await world.until(
            lambda: world.overlay.locals_of(places_of([(A, pool)]), "s", NOW_NS, {}, 0, 0) == [NOTHING_LOCAL]
        )
        assert world.chosen() == "b"


@in_virtual_time
async def test_marks_of_other_topics_cover_nothing() -> None:
    world = World()
    pool = PoolId("a")
    world.overlay.failed(A, pool, Consequence("failover", "target_cooldown", NOW_NS + 99 * S), seq=5)
    where = partition_of(pool)
    other = Applied(topic="tidegate.spend.v1", partition=where, position=9, marks={"gw@1": 5})
    async with world.following():
        await world.write(SNAPSHOTS, "applied", other, where)
        await world.write(SNAPSHOTS, "target:b", of_target("b"), where)
        await world.until(lambda: world.follower.status().snapshots == 1)
        assert world.overlay.locals_of(places_of([(A, pool)]), "s", NOW_NS, {}, 0, 0)[0] is not NOTHING_LOCAL


@in_virtual_time
async def test_a_published_config_replaces_the_one_in_force_and_keeps_beliefs_and_switches() -> None:
    world = World()
    async with world.following():
        await world.write(SNAPSHOTS, "target:b", of_target("b", version=8))
        await world.switch(TargetDisabled(target=TargetId("z"), actor="op"))
        await world.publish(DEARER_A)
        await world.until(lambda: world.chosen() == "b" and world.follower.view.switches == {"z": True})
        assert world.follower.view.digest == DEARER_A.digest()
        assert world.follower.view.snapshots["target:b"].version == 8


@in_virtual_time
async def test_the_config_in_force_published_again_recompiles_nothing() -> None:
    world = World()
    before = world.follower.view
    async with world.following():
        await world.publish(CONFIG)
        await world.write(SNAPSHOTS, "target:zzz", of_target("zzz"))
        await world.until(lambda: world.follower.status().snapshots == 1)
        assert world.follower.view.routes["code"] is before.routes["code"]


@in_virtual_time
async def test_a_file_whose_config_was_published_yields_to_the_newest_in_the_log() -> None:
    world = World(CONFIG)
    await world.publish(DEARER_A)
    await world.publish(CONFIG)
    await world.publish(DEARER_A)
    async with world.following():
        assert world.follower.view.digest == DEARER_A.digest()


@in_virtual_time
async def test_a_file_with_a_new_config_stays_until_the_log_says_more() -> None:
    world = World(CONFIG)
    await world.publish(DEARER_A)
    async with world.following():
        assert world.follower.view.digest == CONFIG.digest()
        await world.publish(DEARER_A)
        await world.until(lambda: world.follower.view.digest == DEARER_A.digest())


@in_virtual_time
async def test_a_config_that_cannot_be_honoured_is_named_and_the_old_one_stays() -> None:
    world = World()
    bad = msgspec.structs.replace(DEARER_A, targets=())
    async with world.following():
        await world.publish(bad)
        await world.until(lambda: world.follower.status().problem is not None)
        assert "names target 'a', which is not declared" in (world.follower.status().problem or "")
        assert world.chosen() == "a"
        await world.publish(DEARER_A)
        await world.until(lambda: world.chosen() == "b")
        assert world.follower.status().problem is None


@in_virtual_time
async def test_a_config_that_reads_differently_here_is_not_used() -> None:
    world = World()
    async with world.following():
        await world.write(
            CONTROL,
            "x",
            ConfigPublished(digest="sha256:newer", routing=DEARER_A, actor="op"),
            partition_of("c"),
        )
        await world.until(lambda: "too old" in (world.follower.status().problem or ""))
        assert world.chosen() == "a"


@in_virtual_time
async def test_without_the_log_the_last_view_stays_and_its_age_shows() -> None:
    world = World()
    async with world.following():
        await world.write(SNAPSHOTS, "target:a", of_target("a", circuit="refusing"))
        await world.until(lambda: world.chosen() == "b")
        world.log.down = True
        await world.until(lambda: world.follower.status().problem is not None)
        world.clock.advance_ns(30 * S)
        status = world.follower.status()
        assert (status.problem, status.staleness_s) == ("the log is down", 30.0)
        assert world.chosen() == "b"


@in_virtual_time
async def test_when_the_log_is_back_nothing_is_missed_and_no_old_switch_acts_again() -> None:
    world = World()
    async with world.following():
        await world.switch(TargetEnabled(target=A, actor="op"))
        await world.until(lambda: A in world.follower.view.switches)
        world.log.down = True
        await world.until(lambda: world.follower.status().problem is not None)
        world.overlay.failed(
            A, PoolId("a"), Consequence("failover", "target_cooldown", NOW_NS + 9 * S), seq=1
        )
        await world.write(SNAPSHOTS, "target:b", of_target("b", version=3))
        world.log.down = False
        await asyncio.sleep(2 * RETRY_S)
        assert world.follower.status().problem is None
        assert world.follower.view.snapshots["target:b"].version == 3
        assert world.chosen() == "b"


@in_virtual_time
async def test_a_record_that_is_no_envelope_is_counted_and_skipped() -> None:
    world = World()
    async with world.following():
        await world.write_bytes(SNAPSHOTS, "target:a", b"not json", 0)
        await world.write(SNAPSHOTS, "target:a", of_target("a", circuit="refusing"), 0)
        await world.until(lambda: world.chosen() == "b")
        assert world.follower.status().damaged == 1


@in_virtual_time
async def test_a_version_unknown_here_stops_its_partition_and_says_so() -> None:
    world = World()
    newer = Draft(
        id=EventId("e"), type="RateSnapshot", v=99, ts=NOW_NS, source="x", seq=1, data={"subject": "target:a"}
    )
    async with world.following():
        await world.write_bytes(SNAPSHOTS, "target:a", encode(newer), 0)
        await world.write(SNAPSHOTS, "target:a", of_target("a", circuit="refusing"), 0)
        await world.write(SNAPSHOTS, "target:b", of_target("b"), 1)
        await world.until(lambda: world.follower.status().snapshots == 1)
        assert "stopped: event e is RateSnapshot v99" in (world.follower.status().problem or "")
        assert world.chosen() == "a"


@in_virtual_time
async def test_events_of_no_interest_here_are_passed_over_whatever_their_version() -> None:
    world = World()
    other = Draft(id=EventId("e"), type="TenantSnapshot", v=7, ts=NOW_NS, source="x", seq=1, data={})
    async with world.following():
        await world.write_bytes(SNAPSHOTS, "tenant:t", encode(other), 0)
        await world.write(SNAPSHOTS, "target:a", of_target("a", circuit="refusing"), 0)
        await world.until(lambda: world.chosen() == "b")
        assert world.follower.status().problem is None
