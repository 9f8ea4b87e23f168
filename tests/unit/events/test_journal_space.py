"""A journal's files stay as large as what is not yet relayed, and the cap speaks of that alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from support.journals import CONTEXT, make_ids, open_journal, started
from tidegate.events.clock import ManualClock
from tidegate.events.errors import JournalCorrupt, JournalUnwritable
from tidegate.events.journal import sync, upkeep
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.receipt import Receipt
from tidegate.events.journal.store import DB, JournalStore, JournalTail, open_checkpointer
from tidegate.events.log.port import Outgoing
from tidegate.events.relay import Relay
from tidegate.events.requests import RequestRefused
from tidegate.events.topics import REQUESTS
from tidegate.events.types import KeyId

MB = 1_000_000


class Sink:
    """A log that takes everything and keeps nothing."""

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Take them."""


def relay_of(folder: Path) -> Relay:
    log: Any = Sink()
    return Relay(folder, log, ManualClock(), make_ids())


def write(journal: Journal, size: int, count: int = 1) -> Receipt:
    for _ in range(count - 1):
        journal.record(REQUESTS, 0, "r", RequestRefused(key=KeyId("k"), code="c" * size, status=400))
    return journal.record(REQUESTS, 0, "r", RequestRefused(key=KeyId("k"), code="c" * size, status=400))


def sizes(folder: Path) -> tuple[int, int]:
    """Bytes of the file and of its WAL."""
    return (folder / DB).stat().st_size, (folder / (DB + "-wal")).stat().st_size


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not reached():
            await asyncio.sleep(0.01)


async def test_the_files_stay_small_over_100_mb_while_relay_and_upkeep_keep_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = 0, sync.SyncThread._checkpoint

    def counted(thread: sync.SyncThread) -> None:
        nonlocal looks
        look(thread)
        looks += 1

    monkeypatch.setattr(sync.SyncThread, "_checkpoint", counted)
    monkeypatch.setattr(sync, "LOOK_S", 0.0)
    monkeypatch.setattr(sync, "IDLE_SYNC_S", 0.001)
    folder = tmp_path / "journals" / "gw-0"
    journal, relay, largest = await open_journal(folder), relay_of(tmp_path), (0, 0)
    for _ in range(100):
        await journal.wait_synced(write(journal, 20_000, 50).seq)
        while await relay.step():
            pass
        journal._tidy()
        seen = looks + 1  # one may be under way
        await until(lambda seen=seen: looks > seen)
        largest = max(largest[0], sizes(folder)[0]), max(largest[1], sizes(folder)[1])
    assert relay.sent() == 5_000
    assert largest[0] < 24 * MB
    assert largest[1] < 24 * MB
    await journal.close()
    relay.close()


async def test_the_wal_starts_over_though_a_commit_is_always_ahead_of_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, start_over = 0, sync.SyncThread._start_over

    def counted(thread: sync.SyncThread) -> None:
        nonlocal starts
        start_over(thread)
        starts += thread._checkpoint_at_pages == sync.CHECKPOINT_PAGES

    monkeypatch.setattr(sync.SyncThread, "_start_over", counted)
    monkeypatch.setattr(sync, "CHECKPOINT_PAGES", 64)
    monkeypatch.setattr(sync, "LOOK_S", 0.01)
    folder = tmp_path / "journals" / "gw-0"
    journal, relay = await open_journal(folder), relay_of(tmp_path)
    reading = asyncio.ensure_future(relay.run(lambda: False))
    for _ in range(6_000):
        await journal.wait_committed(write(journal, 6_000))
        await asyncio.sleep(
            0
        )  # a lone writer's rows are committed at once: relay and upkeep must have their turns
    # How long it grows between two looks is the disk's affair.
    assert starts >= 2
    assert sizes(folder)[1] < 60 * MB  # of 70
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await journal.close()
    relay.close()


async def test_the_cap_counts_rows_not_yet_relayed_and_clears_when_the_relay_has_caught_up(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "journals" / "gw-0"
    journal, relay = await open_journal(folder, max_bytes=3 * MB), relay_of(tmp_path)
    for _ in range(3):
        async with asyncio.timeout(20):
            while journal.refusing is None:
                await journal.wait_synced(write(journal, 5_000, 20).seq)
                journal._tidy()
        assert "the cap is 3000000" in journal.refusing
        while await relay.step():
            pass
        await until(lambda: journal.refusing is None)
        assert sizes(folder)[0] < 5 * MB  # freed pages are filled again
    await journal.close()
    relay.close()


async def test_a_cap_that_is_reached_survives_a_restart_and_clears_there_too(tmp_path: Path) -> None:
    folder = tmp_path / "journals" / "gw-0"
    journal = await open_journal(folder)
    await journal.wait_synced(write(journal, 5_000, 500).seq)
    await journal.close()
    journal, relay = await open_journal(folder, start=9, max_bytes=MB), relay_of(tmp_path)
    assert journal.refusing is not None
    while await relay.step():
        pass
    await journal.wait_synced(write(journal, 10).seq)  # the newest row always stays: let it be a small one
    await relay.step()
    await until(lambda: journal.refusing is None)
    await journal.close()
    relay.close()


async def test_after_an_outage_the_file_shrinks_when_it_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SHRINK_FREE_BYTES", 2 * MB)
    monkeypatch.setattr(sync, "CHECKPOINT_PAGES", 256)  # what is written here reaches the file
    folder = tmp_path / "journals" / "gw-0"
    journal, relay = await open_journal(folder), relay_of(tmp_path)
    for _ in range(100):
        await journal.wait_synced(write(journal, 5_000, 20).seq)
    await until(lambda: sizes(folder)[0] > 4 * MB)
    last = write(journal, 10)
    await journal.wait_synced(last.seq)
    while await relay.step():
        pass
    await until(lambda: sizes(folder)[0] < MB)
    again = write(journal, 10)
    await journal.wait_synced(again.seq)
    assert again.seq == last.seq + 1
    assert await relay.step() == 1
    await journal.close()
    relay.close()


async def test_a_shrink_that_fails_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "SHRINK_FREE_BYTES", -1)
    tries: list[str] = []

    def full(_store: JournalStore) -> None:
        tries.append("")
        raise JournalUnwritable("disk full")

    monkeypatch.setattr(JournalStore, "shrink", full)
    journal = await open_journal(tmp_path / "gw-0")
    for _ in range(3):
        journal._maintain()
    assert tries == [""]  # and not ten times a second
    await journal.wait_settled(write(journal, 10))
    assert journal.refusing is None
    await journal.close()


async def test_commits_wait_beside_the_loop_while_the_file_is_held(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    journal._sync.holding = True
    receipt = write(journal, 10)
    for _ in range(5):
        await asyncio.sleep(0)
    assert journal.committed_seq == receipt.seq - 1
    late = write(journal, 10)
    journal._sync.holding = False
    journal._released_in_thread()
    async with asyncio.timeout(5):
        await journal.wait_committed(late)
    assert journal.committed_seq == late.seq
    await journal.close()


async def test_the_end_does_not_wait_for_a_held_file_to_be_let_go(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    journal._sync.holding = True
    write(journal, 10)
    await journal.close()
    assert JournalTail(tmp_path / "gw-0").last_seq() == 1


async def test_a_checkpointer_knows_from_the_start_that_there_is_a_wal(tmp_path: Path) -> None:
    store = JournalStore.open(tmp_path / "gw-0")
    store.insert(1, 1, "s", 1, b"x" * 9_000)
    checkpointer = open_checkpointer(tmp_path / "gw-0" / DB)
    pages, copied = checkpointer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    assert pages == copied > 0
    checkpointer.close()
    store.close()


async def test_a_checkpoint_that_a_reader_keeps_from_ending_is_no_success(tmp_path: Path) -> None:
    store = JournalStore.open(tmp_path / "gw-0")
    store.insert(1, 1, "s", 1, b"x")
    reader = apsw.Connection(str(tmp_path / "gw-0" / DB))
    held = iter(reader.execute("SELECT * FROM flushes"))
    next(held)
    store.insert(1, 2, "s", 1, b"x")
    store._db.set_busy_timeout(0)
    with pytest.raises(JournalUnwritable):
        store.checkpoint()
    del held
    reader.close()
    store.checkpoint()
    store.close()


async def test_a_reader_that_met_a_damage_does_not_keep_the_wal_from_starting_over(tmp_path: Path) -> None:
    store = JournalStore.open(tmp_path / "gw-0")
    for _ in range(4):
        store.insert(1, 1, "s", 1, b"x")
    store._db.execute("UPDATE flushes SET frames = x'00' WHERE first_seq = 2")
    tail = JournalTail(tmp_path / "gw-0")
    assert [row.first_seq for row in tail.rows(1, 4, 10)] == [1]  # what stands before the damage goes on
    with pytest.raises(JournalCorrupt, match="flush 2-2") as kept:
        tail.rows(2, 4, 10)
    store.insert(1, 1, "s", 1, b"x")
    store._db.set_busy_timeout(0)
    store.checkpoint()
    assert kept.value is not None
    tail.close()
    store.close()


async def test_an_open_attempt_keeps_its_rows_however_far_the_relay_is(tmp_path: Path) -> None:
    folder = tmp_path / "journals" / "gw-0"
    journal, relay = await open_journal(folder), relay_of(tmp_path)
    await journal.wait_synced(write(journal, 10).seq)
    begun = journal.start(0, started(), CONTEXT)
    await journal.wait_synced(begun.seq)
    for _ in range(3):
        await journal.wait_synced(write(journal, 10).seq)
    while await relay.step():
        pass
    for _ in range(3):
        journal._maintain()
    tail = JournalTail(folder)
    assert tail.rows(0, 1 << 60, -1)[0].first_seq == begun.seq
    tail.close()
    await journal.close()
    relay.close()
