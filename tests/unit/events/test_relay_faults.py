"""A damaged or unreadable journal stops only itself: it is reported, tried again, and loses nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.journals import CONTEXT, make_ids, open_journal, settled, started
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.envelope import Draft
from tidegate.events.errors import JournalCorrupt, LogUnavailable, Refused
from tidegate.events.ids import settlement_id
from tidegate.events.journal import frames
from tidegate.events.journal.store import DB, JournalStore
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.relay import FAULT_RETRY_MAX_S, FAULT_RETRY_S, Relay
from tidegate.events.topics import INDEX, SIGNALS


class Watched:
    """A relay over a data folder, and what it reported."""

    def __init__(self, folder: Path, log: MemoryEventLog | None = None) -> None:
        self.clock = ManualClock()
        self.log = MemoryEventLog(self.clock) if log is None else log
        self.told: list[tuple[str, Exception | None]] = []
        self.relay = Relay(
            folder, self.log, self.clock, make_ids(start=9_000), orphan_after_s=1.0, report=self._report
        )

    def _report(self, folder: Path, error: Exception | None) -> None:
        self.told.append((folder.name, error))

    async def events(self) -> list[tuple[str, str, int]]:
        """Slot, type and seq of what the log holds, in order per partition."""
        reader = self.log.reader({TopicPartition(SIGNALS.name, p): 0 for p in range(PARTITIONS)})
        found = []
        while records := await reader.poll():
            for record in records:
                assert record.value is not None
                envelope = codec.decode_envelope(record.value)
                found.append((envelope.source.split("@")[0], envelope.type, envelope.seq))
        await reader.close()
        return found

    async def until(self, slot: str, kind: str) -> None:
        """Run, the clock going on, until an event of the slot is in the log."""
        running = asyncio.ensure_future(self.relay.run(lambda: False))
        async with asyncio.timeout(20):
            while not any((at, what) == (slot, kind) for at, what, _ in await self.events()):
                assert not running.done(), running
                self.clock.advance_ns(10**8)
                await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def attempts(slot: Path, count: int, start: int) -> None:
    journal = await open_journal(slot, start=start)
    for _ in range(count):
        begun = started()
        journal.start(4, begun, CONTEXT)
        await journal.wait_settled(journal.settle(4, settled(begun), CONTEXT))
    await journal.close()


async def two_slots(folder: Path) -> tuple[Path, Path]:
    slots = folder / "journals" / "gw-0", folder / "journals" / "gw-1"
    for index, slot in enumerate(slots):
        await attempts(slot, 20, start=index * 1_000)
    return slots


def damage(slot: Path) -> bytes:
    """Overwrite all but the first page; returns what was there."""
    whole = (slot / DB).read_bytes()
    (slot / DB).write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    return whole


async def test_a_damaged_journal_does_not_keep_the_others_from_the_log(tmp_path: Path) -> None:
    bad, _ = await two_slots(tmp_path)
    whole = damage(bad)
    watched = Watched(tmp_path)
    await watched.until("gw-1", "SourceClosed")
    assert {slot for slot, _, _ in await watched.events()} == {"gw-1"}
    assert {slot for slot, _ in watched.told} == {"gw-0"}
    assert all(isinstance(error, JournalCorrupt) for _, error in watched.told)
    assert watched.relay.failing() == 1

    (bad / DB).write_bytes(whole)  # an operator brought it back
    await watched.until("gw-0", "SourceClosed")
    assert [seq for slot, _, seq in await watched.events() if slot == "gw-0"] == list(range(1, 42))
    assert watched.told[-1] == ("gw-0", None)
    assert watched.relay.failing() == 0
    watched.relay.close()


async def test_a_journal_that_cannot_be_opened_is_reported_and_no_obstacle(tmp_path: Path) -> None:
    _, good = await two_slots(tmp_path)
    (tmp_path / "journals" / "gw-a" / DB).mkdir(parents=True)  # before the others, in name order
    watched = Watched(tmp_path)
    while await watched.relay.step():
        pass
    assert {slot for slot, _, _ in await watched.events()} == {"gw-0", good.name}
    assert {slot for slot, _ in watched.told} == {"gw-a"}
    watched.relay.close()


async def test_a_fault_is_tried_again_at_growing_intervals(tmp_path: Path) -> None:
    bad, _ = await two_slots(tmp_path)
    damage(bad)
    watched = Watched(tmp_path)
    tries = []
    for _ in range(1_000):
        await watched.relay.step()
        tries.append(len(watched.told))
        watched.clock.advance_ns(int(FAULT_RETRY_S * 1e9))
    after = [tries.index(n) * FAULT_RETRY_S for n in range(1, 12)]
    gaps = [later - sooner for sooner, later in itertools.pairwise(after)]
    assert gaps[:4] == [0.5, 1.0, 2.0, 4.0]
    assert gaps[-3:] == [FAULT_RETRY_MAX_S] * 3
    watched.relay.close()


async def test_what_stands_before_a_damaged_row_goes_to_the_log(tmp_path: Path) -> None:
    slot, _ = await two_slots(tmp_path)
    store = JournalStore.open(slot)
    store._db.execute("UPDATE flushes SET crc = crc + 1 WHERE first_seq = 15")
    store.close()
    watched = Watched(tmp_path)
    while await watched.relay.step():
        pass
    found = await watched.events()
    assert [seq for name, _, seq in found if name == "gw-0"] == list(range(1, 15))
    assert len([seq for name, _, seq in found if name == "gw-1"]) == 40
    assert "flush 15-16" in str(watched.told[0][1])
    assert watched.relay.lag() == 26
    watched.relay.close()


async def test_a_record_that_the_log_refuses_stops_only_its_own_journal(tmp_path: Path) -> None:
    class Picky(MemoryEventLog):
        async def append(self, records: Sequence[Outgoing]) -> None:
            if any(b'"gw-0@' in (record.value or b"") for record in records):
                raise Refused("a record is too large")
            await super().append(records)

    await two_slots(tmp_path)
    watched = Watched(tmp_path, Picky(ManualClock()))
    while await watched.relay.step():
        pass
    assert len(await watched.events()) == 40
    assert {slot for slot, _ in watched.told} == {"gw-0"}
    watched.relay.close()


async def test_a_topic_that_is_not_known_here_is_a_fault_of_that_journal(tmp_path: Path) -> None:
    _, good = await two_slots(tmp_path)
    store = JournalStore.open(tmp_path / "journals" / "gw-2")
    store.insert(1, 2, "gw-2@x", 1, frames.pack(200, 0, frames.PLAIN, b"k", b"{}"))
    store.close()
    watched = Watched(tmp_path)
    await watched.until(good.name, "SourceClosed")
    assert {slot for slot, _ in watched.told} == {"gw-2"}
    assert "names topic 200" in str(watched.told[0][1])
    watched.relay.close()


async def test_a_start_that_cannot_be_read_does_not_keep_other_orphans_from_being_settled(
    tmp_path: Path,
) -> None:
    store = JournalStore.open(tmp_path / "journals" / "gw-0")
    store.insert(1, 1, "gw-0@x", 1, frames.pack(INDEX[SIGNALS.name], 0, frames.STARTED, b"k", b"no envelope"))
    store.close()
    journal = await open_journal(tmp_path / "journals" / "gw-1")
    await journal.wait_synced(journal.start(4, started(), CONTEXT).seq)
    await journal.close()
    watched = Watched(tmp_path)
    await watched.until("gw-1", "UsageSettled")
    assert ("gw-1", "UsageSettled", 2) in await watched.events()
    assert {slot for slot, _ in watched.told} == {"gw-0"}
    watched.relay.close()


async def test_draining_drains_all_it_can_and_then_names_what_it_could_not(tmp_path: Path) -> None:
    bad, _ = await two_slots(tmp_path)
    damage(bad)
    watched = Watched(tmp_path)
    with pytest.raises(JournalCorrupt, match="gw-0"):
        await watched.relay.drain()
    assert ("gw-1", "SourceClosed", 41) in await watched.events()
    watched.relay.close()


async def test_draining_names_a_journal_that_is_still_owned_and_drains_the_others(tmp_path: Path) -> None:
    owner = await open_journal(tmp_path / "journals" / "gw-0")
    await attempts(tmp_path / "journals" / "gw-1", 1, start=500)
    watched = Watched(tmp_path)
    with pytest.raises(LogUnavailable, match="gw-0 is still owned"):
        await watched.relay.drain()
    assert ("gw-1", "SourceClosed", 3) in await watched.events()
    await owner.close()
    watched.relay.close()


def committed_but_not_synced(slot: Path) -> int:
    """What a process leaves that was killed right after it had committed the start of an attempt."""
    store, start = JournalStore.open(slot), started("left")
    seq = store.next_seq
    value = codec.encode(
        Draft(settlement_id(start.attempt), "AttemptStarted", 1, 1, "gw-0@killed", seq, start, "acme", "r1")
    )
    frame = frames.pack(INDEX[SIGNALS.name], 4, frames.STARTED, start.attempt.encode(), value)
    store.insert(1, seq, "gw-0@killed", 1, frame)
    store.close()
    return seq


@pytest.mark.parametrize("was_closed", [True, False])
async def test_what_a_dead_owner_committed_and_never_synced_is_settled_after_its_time(
    tmp_path: Path, was_closed: bool
) -> None:
    slot = tmp_path / "journals" / "gw-0"
    await attempts(slot, 1, start=1)
    watched = Watched(tmp_path)
    await watched.relay.step()
    if was_closed:
        await watched.until("gw-0", "SourceClosed")
    seq = committed_but_not_synced(slot)
    assert watched.relay.lag() == 0  # by the synced mark nothing is missing
    ((relay, *_),) = watched.relay._slots.values()
    assert not await relay.drain_if_orphaned()  # its time begins now
    watched.clock.advance_ns(10**9 - 1)
    assert not await relay.drain_if_orphaned()
    watched.clock.advance_ns(1)
    assert await relay.drain_if_orphaned()
    kinds = [(kind, at) for _, kind, at in await watched.events() if at >= seq]
    assert kinds[-4:] == [
        ("AttemptStarted", seq), ("SourceClosed", seq + 1), ("UsageSettled", seq + 1), ("SourceClosed", seq + 2)
    ]  # fmt: skip
    before = len(await watched.events())
    assert await relay.drain_if_orphaned()
    assert len(await watched.events()) == before
    watched.relay.close()


async def test_an_owner_that_came_and_went_unseen_gives_its_successor_the_whole_time(tmp_path: Path) -> None:
    slot = tmp_path / "journals" / "gw-0"
    await attempts(slot, 1, start=1)
    watched = Watched(tmp_path)
    await watched.relay.step()
    ((relay, *_),) = watched.relay._slots.values()
    for life in range(5):  # every look meets the slot between two lives
        assert not await relay.drain_if_orphaned()
        watched.clock.advance_ns(9 * 10**8)
        await (await open_journal(slot, start=100 + life)).close()
    assert not await relay.drain_if_orphaned()
    watched.clock.advance_ns(10**9)
    assert await relay.drain_if_orphaned()
    watched.relay.close()


async def test_a_journal_that_holds_nothing_is_done(tmp_path: Path) -> None:
    JournalStore.open(tmp_path / "journals" / "gw-0").close()
    watched = Watched(tmp_path)
    await watched.relay.step()
    ((relay, *_),) = watched.relay._slots.values()
    assert await relay.drain_if_orphaned()
    assert await watched.events() == []
    watched.relay.close()
