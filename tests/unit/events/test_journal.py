"""The journal: batches, receipts, open attempts, orphans, marks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.journals import CONTEXT, open_journal, settled, started
from tidegate.events import codec
from tidegate.events.errors import AlreadySettled, JournalCorrupt, JournalUnwritable, SlotTaken
from tidegate.events.journal import frames
from tidegate.events.journal.store import JournalStore, Row
from tidegate.events.requests import RequestRefused
from tidegate.events.topics import REQUESTS
from tidegate.events.types import KeyId


def rows_of(folder: Path) -> list[Row]:
    store = JournalStore.open(folder)
    try:
        return list(store.rows())
    finally:
        store.close()


def events_of(folder: Path) -> list[tuple[str, int, str]]:
    found = []
    for row in rows_of(folder):
        for offset, frame in enumerate(frames.unpack(row.frames)):
            envelope = codec.decode_envelope(frame.value)
            assert envelope.seq == row.first_seq + offset
            found.append((envelope.type, envelope.seq, envelope.source))
    return found


async def test_events_of_one_turn_become_one_row_and_seqs_are_gap_free(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    receipts = [
        journal.record(REQUESTS, 3, f"r{n}", RequestRefused(key=KeyId("k"), code="x", status=404))
        for n in range(5)
    ]
    await journal.wait_committed(receipts[-1])
    last = journal.record(REQUESTS, 3, "r9", RequestRefused(key=KeyId("k"), code="x", status=404))
    await journal.wait_synced(last.seq)
    await journal.close()
    assert [row.last_seq - row.first_seq + 1 for row in rows_of(tmp_path / "gw-0")] == [5, 1]
    assert [seq for _, seq, _ in events_of(tmp_path / "gw-0")] == [1, 2, 3, 4, 5, 6]


async def test_a_lone_attempt_waits_for_no_turn_of_the_loop_and_several_share_a_row(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    turns: list[str] = []
    asyncio.get_running_loop().call_soon(turns.append, "other work")

    async def begin(name: str) -> None:
        await journal.wait_committed(journal.start(0, started(name), CONTEXT))

    await begin("a1")
    assert turns == []
    await asyncio.gather(*(begin(f"b{n}") for n in range(4)))
    await journal.close()
    assert [row.last_seq - row.first_seq + 1 for row in rows_of(tmp_path / "gw-0")] == [1, 4]


async def test_seq_never_restarts_and_every_lifetime_is_a_new_source(tmp_path: Path) -> None:
    for life in range(3):
        journal = await open_journal(tmp_path / "gw-0", start=life * 1000)
        journal.record(REQUESTS, 0, "r", RequestRefused(key=KeyId("k"), code="x", status=404))
        await journal.close()
    events = events_of(tmp_path / "gw-0")
    assert [seq for _, seq, _ in events] == [1, 2, 3]
    assert len({source for _, _, source in events}) == 3


async def test_deleting_relayed_rows_keeps_the_newest_so_that_seq_goes_on(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    for _ in range(3):
        receipt = journal.record(REQUESTS, 0, "r", RequestRefused(key=KeyId("k"), code="x", status=404))
        await journal.wait_committed(receipt)
    journal._store.delete_below(1_000, 1_000)
    await journal.close()
    assert [row.first_seq for row in rows_of(tmp_path / "gw-0")] == [3]
    reopened = await open_journal(tmp_path / "gw-0", start=50)
    assert reopened.committed_seq == 3
    await reopened.close()


async def test_an_attempt_is_settled_exactly_once(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    start = started()
    with pytest.raises(AlreadySettled, match="never started"):
        journal.settle(0, settled(start), CONTEXT)
    journal.start(0, start, CONTEXT)
    assert journal.open_attempts == 1
    receipt = journal.settle(0, settled(start), CONTEXT)
    with pytest.raises(AlreadySettled):
        journal.settle(0, settled(start), CONTEXT)
    await journal.wait_settled(receipt)
    assert journal.synced_seq >= receipt.seq
    assert journal.open_attempts == 0
    await journal.close()


async def test_fast_durability_does_not_wait_for_a_sync(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0", durability="fast")
    start = started()
    journal.start(0, start, CONTEXT)
    receipt = journal.settle(0, settled(start), CONTEXT)
    asked: list[bool] = []
    journal._sync.request = lambda: asked.append(True)  # type: ignore[method-assign]
    await journal.wait_settled(receipt)
    assert asked == []
    await journal.close()


async def test_what_a_dead_owner_left_open_is_settled_by_the_next_at_full_reserve(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    done, left, later = started("done"), started("left"), started("later")
    for start in (done, left):
        journal.start(2, start, CONTEXT)
    await journal.wait_synced(journal.settle(2, settled(done), CONTEXT).seq)
    await journal.wait_synced(journal.start(5, later, CONTEXT).seq)
    await journal.close()  # leaves two attempts open, as a kill would

    heir = await open_journal(tmp_path / "gw-0", start=500)
    assert heir.orphans_settled == 2
    await heir.close()
    settlements = []
    for row in rows_of(tmp_path / "gw-0"):
        for frame in frames.unpack(row.frames):
            if frame.flag == frames.SETTLED:
                envelope = codec.decode_envelope(frame.value)
                settlements.append((frame.partition, codec.decode_data(envelope), envelope))
    assert [data.attempt for _, data, _ in settlements] == ["done", "left", "later"]
    partition, data, envelope = settlements[2]
    assert partition == 5
    assert (data.basis, data.outcome, data.evidence) == ("estimated", "orphaned", False)
    assert data.cost_nanousd == 1_000 * 3_000 + 500 * 15_000
    assert data.tokens.output is None
    assert envelope.tenant == "acme"
    assert envelope.source == heir.source

    third = await open_journal(tmp_path / "gw-0", start=900)
    assert third.orphans_settled == 0
    await third.close()


async def test_the_mark_never_passes_an_open_attempt(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    held = started("held")
    first = journal.start(0, held, CONTEXT)
    await journal.wait_committed(first)
    for _ in range(4):
        other = started()
        journal.start(0, other, CONTEXT)
        await journal.wait_committed(journal.settle(0, settled(other), CONTEXT))
    await journal.wait_committed(journal.settle(0, settled(held), CONTEXT))
    end = journal.record(REQUESTS, 0, "r", RequestRefused(key=KeyId("k"), code="x", status=404))
    await journal.wait_committed(end)
    await journal.close()
    marks = [row.mark for row in rows_of(tmp_path / "gw-0")]
    assert marks[:5] == [first.seq] * 5
    assert marks[-1] == end.seq + 1


async def test_two_owners_cannot_share_a_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.events.journal.journal.LOCK_TRIES", 1)
    journal = await open_journal(tmp_path / "gw-0")
    with pytest.raises(SlotTaken, match="gw-0"):
        await open_journal(tmp_path / "gw-0")
    await journal.close()


async def test_a_failed_flush_tells_every_waiter_and_gives_its_seqs_back(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    before = journal.start(0, started("before"), CONTEXT)
    await journal.wait_committed(before)
    real = journal._store.insert

    def full(*_args: object) -> int:
        raise JournalUnwritable("disk full")

    journal._store.insert = full  # type: ignore[method-assign]
    lost = journal.start(0, started("lost"), CONTEXT)
    waits = [asyncio.ensure_future(journal.wait_committed(lost)) for _ in range(3)]
    results = await asyncio.gather(*waits, return_exceptions=True)
    assert all(isinstance(result, JournalUnwritable) for result in results)
    assert journal.refusing == "disk full"
    assert journal.open_attempts == 1
    with pytest.raises(JournalUnwritable):  # also for who asks after the batch ended
        await journal.wait_settled(lost)
    journal._store.insert = real  # type: ignore[method-assign]
    again = journal.start(0, started("again"), CONTEXT)
    assert again.seq == lost.seq
    await journal.wait_committed(again)
    await journal.close()


async def test_a_settlement_that_could_not_be_stored_leaves_its_attempt_open(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    start = started("a")
    await journal.wait_committed(journal.start(0, start, CONTEXT))
    tries = 0

    def full(*_args: object) -> int:
        nonlocal tries
        tries += 1
        raise JournalUnwritable("disk full")

    real, journal._store.insert = journal._store.insert, full  # type: ignore[method-assign]
    with pytest.raises(JournalUnwritable):
        await journal.wait_settled(journal.settle(0, settled(start), CONTEXT))
    assert tries == 2  # the reserve was given up for it once
    assert not (tmp_path / "gw-0" / "reserve").exists()
    assert journal.open_attempts == 1
    journal._store.insert = real  # type: ignore[method-assign]
    await journal.wait_settled(journal.settle(0, settled(start), CONTEXT))
    await journal.close()


async def test_a_cancelled_waiter_does_not_disturb_the_others(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    receipt = journal.start(0, started(), CONTEXT)
    first = asyncio.ensure_future(journal.wait_committed(receipt))
    second = asyncio.ensure_future(journal.wait_committed(receipt))
    first.cancel()
    await second
    assert first.cancelled() or first.done()
    await journal.close()


async def test_a_damaged_row_is_named_and_left_alone(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    await journal.wait_synced(journal.start(0, started(), CONTEXT).seq)
    await journal.close()
    store = JournalStore.open(tmp_path / "gw-0")
    store._db.execute("UPDATE flushes SET frames = zeroblob(length(frames))")
    with pytest.raises(JournalCorrupt, match="flush 1-1 fails its checksum"):
        list(store.rows())
    store.close()


async def test_a_file_that_is_no_journal_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "gw-0"
    folder.mkdir()
    (folder / "journal.db").write_bytes(b"this is no database, it is a diary" * 100)
    with pytest.raises(JournalCorrupt, match=r"journal\.db is damaged"):
        await open_journal(folder)
    assert (folder / "journal.db").read_bytes().startswith(b"this is no database")


async def test_closed_journals_refuse_events(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    await journal.close()
    with pytest.raises(JournalUnwritable, match="closed"):
        journal.start(0, started(), CONTEXT)
