"""That a journal is whole can be told from the log alone, whoever wrote in it; and what is not whole is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.audit import check_nothing_is_lost, read_book
from support.journals import CONTEXT, make_ids, open_journal, settled, started
from support.losses import EVERYTHING
from tidegate.events.clock import ManualClock
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.relay import Relay
from tidegate.events.topics import SIGNALS

PLACE = TopicPartition(SIGNALS.name, 4)


async def one_life(slot: Path, life: int) -> None:
    """An owner that settles one attempt and leaves another open."""
    journal = await open_journal(slot, start=life)
    begun = started()
    journal.start(PLACE.partition, begun, CONTEXT)
    journal.settle(PLACE.partition, settled(begun), CONTEXT)
    await journal.wait_synced(journal.start(PLACE.partition, started(), CONTEXT).seq)
    await journal.close()


async def lives_in_turn(data_dir: Path) -> MemoryEventLog:
    """Owners that each leave an attempt open, settled by the log role or by the next owner."""
    clock = ManualClock()
    log = MemoryEventLog(clock)
    relay = Relay(data_dir, log, clock, make_ids(start=9_000))
    for life, is_taken_over in enumerate((True, False, False, True)):
        await one_life(data_dir / "journals" / "gw-0", life)
        if is_taken_over:
            await relay.drain()
    relay.close()
    return log


async def test_a_journal_that_the_log_role_took_over_between_two_owners_is_whole(tmp_path: Path) -> None:
    log = await lives_in_turn(tmp_path / "data")
    book = await read_book(log)
    check_nothing_is_lost(book, {"gw-0": 16}, tmp_path / "data")
    assert len({event.envelope.source for event in book.events}) == 6
    assert {data.outcome for (data,) in book.settled.values()} == {"completed", "orphaned"}


async def test_events_that_are_not_in_the_log_are_told_with_all_that_is_known(tmp_path: Path) -> None:
    book = await read_book(await lives_in_turn(tmp_path / "data"))
    book.events = [event for event in book.events if event.envelope.seq not in {5, 6}]
    with pytest.raises(AssertionError) as failed:
        check_nothing_is_lost(book, {}, tmp_path / "data")
    told = str(failed.value)
    assert "journal gw-0: wrong are seqs 5-6" in told
    neighbours = [event for event in book.events if event.envelope.seq in {4, 7}]
    assert {event.envelope.type for event in neighbours} == {"UsageSettled", "SourceClosed", "AttemptStarted"}
    assert all(f"  {event}\n" in told for event in neighbours)
    assert f"at {PLACE.topic}/{PLACE.partition} offset " in str(neighbours[0])
    assert 'synced to 16; the relay says {"position":17' in told
    assert "row 5-7 of gw-0@" in told
    assert f"seq 6: UsageSettled for {PLACE.topic}/{PLACE.partition}" in told
    assert len((tmp_path / EVERYTHING).read_text().splitlines()) == len(book.events)


async def test_durable_events_that_never_came_are_missed(tmp_path: Path) -> None:
    book = await read_book(await lives_in_turn(tmp_path / "data"))
    with pytest.raises(AssertionError, match="wrong are seqs 17-18"):
        check_nothing_is_lost(book, {"gw-0": 18})
    with pytest.raises(AssertionError, match="journal gw-1: wrong are seqs 1\n"):
        check_nothing_is_lost(book, {"gw-1": 1}, tmp_path / "data")


class Slow(MemoryEventLog):
    """Takes nothing until it may."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def append(self, records: Sequence[Outgoing]) -> None:
        self.asked.set()
        await self.may.wait()
        await super().append(records)


@pytest.mark.parametrize("writes", [True, False])
async def test_a_log_that_does_not_answer_keeps_no_new_owner_from_a_slot_that_is_taken_over(
    tmp_path: Path, writes: bool
) -> None:
    slot, clock = tmp_path / "journals" / "gw-0", ManualClock()
    await one_life(slot, 1)
    log = Slow(clock)
    relay = Relay(tmp_path, log, clock, make_ids(start=9_000))
    draining = asyncio.ensure_future(relay.drain())
    await log.asked.wait()
    owner = await open_journal(slot, start=2)
    if writes:
        await owner.wait_synced(owner.start(PLACE.partition, started(), CONTEXT).seq)
    log.may.set()
    await draining
    await owner.wait_synced(owner.start(PLACE.partition, started(), CONTEXT).seq)
    await owner.close()
    await relay.drain()
    relay.close()
    book = await read_book(log)
    check_nothing_is_lost(book, {"gw-0": 8 if writes else 6}, tmp_path)
    closed = [event.envelope.source for event in book.events if event.envelope.type == "SourceClosed"]
    assert len(closed) == len({event.envelope.source for event in book.events}) == 4
    assert not book.repeated


class Hasty(MemoryEventLog):
    """Takes the end of the first batch before its beginning, as a broker may that refused the beginning."""

    async def append(self, records: Sequence[Outgoing]) -> None:
        if not self.hasty:
            await super().append(records)
            return
        self.hasty = False
        await super().append(records[-1:])
        raise LogUnavailable("refused")

    hasty = True


async def test_events_that_a_later_one_has_overtaken_are_told_as_lost(tmp_path: Path) -> None:
    await one_life(tmp_path / "journals" / "gw-0", 1)
    clock = ManualClock()
    log = Hasty(clock)
    relay = Relay(tmp_path, log, clock, make_ids(start=9_000))
    with pytest.raises(LogUnavailable):
        await relay.step()
    while await relay.step():
        pass
    relay.close()
    book = await read_book(log)
    assert [event.envelope.seq for event in book.overtaken] == [1, 2]
    with pytest.raises(AssertionError, match="dropped by every reader:\n  seq 1: AttemptStarted") as failed:
        check_nothing_is_lost(book, {})
    assert "wrong are seqs 1-2" in str(failed.value)
