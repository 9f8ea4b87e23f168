"""An attempt that stays open holds back a bounded part of its journal, and is settled exactly once all the same."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.journals import CONTEXT, make_ids, open_journal, settled, started
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.errors import JournalCorrupt, JournalUnwritable
from tidegate.events.journal import carry as carrying
from tidegate.events.journal import frames
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.orphans import find_orphans
from tidegate.events.journal.store import JournalStore
from tidegate.events.log.port import Outgoing
from tidegate.events.relay import Relay
from tidegate.events.requests import RequestRefused
from tidegate.events.signals import AttemptStarted
from tidegate.events.topics import REQUESTS
from tidegate.events.types import AttemptId, KeyId

MB = 1_000_000


class Kept:
    """A log that remembers the type and key of what it was given."""

    def __init__(self) -> None:
        self.signals: Counter[tuple[str, str]] = Counter()
        self.records = 0

    async def append(self, records: Sequence[Outgoing]) -> None:
        for record in records:
            self.records += 1
            assert record.value is not None
            self.signals[codec.decode_envelope(record.value).type, record.key.decode()] += 1

    def settled(self) -> set[str]:
        return {key for kind, key in self.signals if kind == "UsageSettled"}


def relay_of(folder: Path, log: Any) -> Relay:
    return Relay(folder, log, ManualClock(), make_ids())


async def relayed(journal: Journal, relay: Relay) -> None:
    """Everything is committed, synced and in the log."""
    journal.flush()
    await journal.wait_synced(journal.committed_seq)
    while await relay.step():
        pass


def refuse(journal: Journal, size: int = 300) -> None:
    journal.record(REQUESTS, 0, "r", RequestRefused(key=KeyId("k"), code="c" * size, status=400))


async def test_one_slow_stream_does_not_make_the_journal_refuse_what_the_relay_has_taken(
    tmp_path: Path,
) -> None:
    slot, log = tmp_path / "journals" / "gw-0", Kept()
    journal, relay = await open_journal(slot, max_bytes=5 * MB), relay_of(tmp_path, log)
    slow = started("slow")
    await journal.wait_committed(journal.start(3, slow, CONTEXT))
    for _ in range(60):
        for _ in range(500):
            refuse(journal)
        await relayed(journal, relay)
        while journal._tidy():
            pass
        assert journal.refusing is None
    assert journal._store.sizes()[0] < 4 * MB  # of 20
    await journal.wait_settled(journal.settle(3, settled(slow), CONTEXT))
    await relayed(journal, relay)
    assert log.records == 30_002
    assert log.signals["AttemptStarted", "slow"] == log.signals["UsageSettled", "slow"] == 1
    await journal.close()
    relay.close()


async def test_what_is_held_back_is_freed_without_any_new_event(tmp_path: Path) -> None:
    slot, log = tmp_path / "journals" / "gw-0", Kept()
    journal, relay = await open_journal(slot, max_bytes=2 * MB), relay_of(tmp_path, log)
    await journal.wait_committed(journal.start(3, started("slow"), CONTEXT))
    while journal.refusing is None:  # no relay runs
        for _ in range(500):
            refuse(journal)
        journal.flush()
        journal._tidy()
    await relayed(journal, relay)
    async with asyncio.timeout(20):
        while journal.refusing is not None:
            await asyncio.sleep(0.01)  # its own upkeep
    await journal.close()
    relay.close()


def open_in_copy(slot: Path, aside: Path) -> set[str]:
    """What the next owner would settle, were this one killed now: the files as they are."""
    shutil.copytree(slot, aside)
    store = JournalStore.open(aside)
    try:
        orphans = find_orphans(store)
    finally:
        store.close()
    return {orphan.started.attempt for orphan in orphans}


@pytest.mark.parametrize("seed", range(6))
async def test_a_kill_at_any_point_leaves_exactly_the_open_attempts_to_settle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(carrying, "PINNED_EVENTS", 6)
    monkeypatch.setattr(carrying, "PINNED_PER_OPEN", 0)
    monkeypatch.setattr(carrying, "CARRY_ATTEMPTS", 2)
    chance, log = random.Random(seed), Kept()
    slot = tmp_path / "journals" / "gw-0"
    journal, relay, held = await open_journal(slot), relay_of(tmp_path, log), dict[str, AttemptStarted]()
    in_file, carried = set[str](), 0

    def step() -> None:
        """A few events, of which some attempts go on for long."""
        for _ in range(chance.randint(1, 4)):
            if held and chance.random() < 0.45:
                ended = held.pop(chance.choice(list(held)[-3:]))
                journal.settle(chance.randrange(12), settled(ended), CONTEXT)
            elif chance.random() < 0.7:
                begun = started()
                held[begun.attempt] = begun
                journal.start(chance.randrange(12), begun, CONTEXT)
            else:
                refuse(journal, 5)

    for number in range(240):
        step()
        if chance.random() < 0.4:
            await relayed(journal, relay)
            in_file = set(held)
        elif chance.random() < 0.5:
            journal.flush()
            in_file = set(held)
        before = dict(journal._open)
        journal._tidy()
        carried += before != journal._open
        if number % 4 == 0:
            assert open_in_copy(slot, tmp_path / f"copy-{number}") == in_file, (
                "what waits for a row is not there"
            )
    assert carried > 5
    await relayed(journal, relay)
    await journal.close()

    heir = await open_journal(slot, start=900)
    assert heir.orphans_settled == len(held)
    await relayed(heir, relay)
    began = Counter(key for kind, key in log.signals.elements() if kind == "AttemptStarted")
    ended = Counter(key for kind, key in log.signals.elements() if kind == "UsageSettled")
    assert began == ended, "each once"
    assert set(began.values()) == {1}
    await heir.close()
    relay.close()


async def test_a_start_stays_until_its_settlement_is_in_the_file(tmp_path: Path) -> None:
    slot, log = tmp_path / "journals" / "gw-0", Kept()
    journal, relay = await open_journal(slot), relay_of(tmp_path, log)
    start = started("a")
    await journal.wait_committed(journal.start(3, start, CONTEXT))
    refuse(journal)
    await relayed(journal, relay)
    journal.settle(3, settled(start), CONTEXT)  # buffered only
    journal._tidy()
    assert open_in_copy(slot, tmp_path / "copy") == {"a"}
    journal.flush()
    assert open_in_copy(slot, tmp_path / "later") == set()
    await journal.close()
    relay.close()


async def with_much_held_back(slot: Path) -> tuple[Journal, list[AttemptId]]:
    journal = await open_journal(slot)
    slow = [started(f"slow-{n}") for n in range(3)]
    for each in slow:
        await journal.wait_committed(journal.start(3, each, CONTEXT))
    for _ in range(10):
        for _ in range(500):
            refuse(journal, 5)
        journal.flush()
    return journal, [each.attempt for each in slow]


async def test_what_is_carried_stays_though_a_younger_attempt_is_not_in_the_file_yet(tmp_path: Path) -> None:
    slot, relay = tmp_path / "journals" / "gw-0", relay_of(tmp_path, Kept())
    journal, slow = await with_much_held_back(slot)
    await relayed(journal, relay)
    young = started("young")
    journal.start(3, young, CONTEXT)  # buffered only
    journal._tidy()
    for _ in range(5):
        refuse(journal)
        await relayed(journal, relay)
        journal._tidy()
    assert open_in_copy(slot, tmp_path / "copy") == {*slow, young.attempt}
    await journal.close()
    relay.close()


async def test_a_full_disk_leaves_starts_where_they_are(tmp_path: Path) -> None:
    slot = tmp_path / "journals" / "gw-0"
    journal, _ = await with_much_held_back(slot)
    store: Any = journal._store

    def full(*_values: object) -> None:
        raise JournalUnwritable("disk full")

    before, real = dict(journal._open), store.extend_newest
    store.extend_newest = full
    with pytest.raises(JournalUnwritable):
        carrying.carry(store, before, journal.committed_seq + 1)
    store.extend_newest = real
    moved = carrying.carry(store, before, journal.committed_seq + 1)
    assert moved == dict.fromkeys(before, store.last_row().first_seq)
    await journal.close()
    assert open_in_copy(slot, tmp_path / "copy") == set(before)


async def test_a_start_that_is_not_where_it_should_be_is_a_damage(tmp_path: Path) -> None:
    journal, (first, *_) = await with_much_held_back(tmp_path / "journals" / "gw-0")
    with pytest.raises(JournalCorrupt, match=f"event 9 does not start attempt {first}"):
        carrying.carry(journal._store, {first: 9}, journal.committed_seq + 1)
    await journal.close()


async def test_nothing_is_carried_into_the_row_it_is_in(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "journals" / "gw-0")
    slow = started("slow")
    journal.start(3, slow, CONTEXT)
    for _ in range(5_000):
        refuse(journal, 5)
    journal.flush()
    assert carrying.carry(journal._store, journal._open, journal.committed_seq + 1) is None
    await journal.close()


async def test_a_carried_start_is_carried_again(tmp_path: Path) -> None:
    slot = tmp_path / "journals" / "gw-0"
    journal, slow = await with_much_held_back(slot)
    held: dict[AttemptId, int] = dict(journal._open)
    for _ in range(2):
        for _ in range(5_000):
            refuse(journal, 5)
        journal.flush()
        found = carrying.carry(journal._store, held, journal.committed_seq + 1)
        assert found is not None
        held = found
        journal._store.delete_below(min(held.values()), 1 << 30)
    await journal.close()
    flags = [frame.flag for row in kept_rows(slot) for frame in frames.unpack(row.frames) if frame.flag]
    assert flags == [frames.CARRIED] * 3
    assert open_in_copy(slot, tmp_path / "copy") == set(slow)


def kept_rows(slot: Path) -> list[Any]:
    store = JournalStore.open(slot)
    try:
        return list(store.rows())
    finally:
        store.close()
