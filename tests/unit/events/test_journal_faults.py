"""A journal with a damaged file, or a thread that ended: everybody is told, nobody waits for ever."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from support.journals import CONTEXT, open_journal, settled, started
from tidegate.events.errors import JournalCorrupt, JournalUnwritable
from tidegate.events.journal import sync
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.store import DB, JournalStore, JournalTail


def failing(error: Exception) -> Any:
    def fail(*_args: object, **_named: object) -> None:
        raise error

    return fail


async def refuses_for_good(journal: Journal, words: str) -> None:
    assert journal.refusing is not None
    assert words in journal.refusing
    for _ in range(3):
        journal._maintain()
    assert journal.refusing is not None
    with pytest.raises(JournalUnwritable, match=words):
        journal.start(0, started(), CONTEXT)


@pytest.mark.parametrize(
    "error",
    [JournalCorrupt("journal.db is damaged"), MemoryError("damaged"), ValueError("damaged")],
    ids=repr,
)
async def test_whatever_a_commit_fails_of_everybody_is_told_and_the_journal_refuses(
    tmp_path: Path, error: Exception
) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    held = started("held")
    await journal.wait_committed(journal.start(0, held, CONTEXT))
    journal._store.insert = failing(error)  # type: ignore[method-assign]
    ending, new = journal.settle(0, settled(held), CONTEXT), journal.start(0, started(), CONTEXT)
    waits = [journal.wait_committed(new), journal.wait_settled(ending), journal.wait_settled(ending)]
    async with asyncio.timeout(5):
        told = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(each) for each in told] == [JournalUnwritable] * 3
    assert journal.open_attempts == 1  # for the next owner to settle
    await refuses_for_good(journal, "damaged")
    await journal.close()


async def test_pages_that_a_bad_disk_lost_end_in_errors_not_in_waiting(tmp_path: Path) -> None:
    folder = tmp_path / "gw-0"
    journal = await open_journal(folder)
    for _ in range(200):
        await journal.wait_committed(journal.start(0, started(), CONTEXT))
    journal._store.checkpoint()
    size = (folder / DB).stat().st_size
    with (folder / DB).open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    journal._store._db.execute("PRAGMA shrink_memory")
    async with asyncio.timeout(5):
        with pytest.raises(JournalUnwritable):
            await journal.wait_committed(journal.start(0, started(), CONTEXT))
    await refuses_for_good(journal, "damaged")
    await journal.close()


@pytest.mark.parametrize("step", ["delete_below", "sizes"])
async def test_upkeep_that_meets_a_damage_throws_nothing_and_makes_the_journal_refuse(
    tmp_path: Path, step: str
) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    setattr(journal._store, step, failing(JournalCorrupt("journal.db is damaged")))
    journal._maintain()
    await refuses_for_good(journal, "damaged")
    await journal.close()


async def test_a_file_that_could_not_be_written_refuses_until_it_can_be_written_again(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    real = journal._store.insert, journal._store.probe
    failed = failing(JournalUnwritable("journal.db cannot be written: disk I/O error"))
    journal._store.insert = journal._store.probe = failed  # type: ignore[method-assign]
    with pytest.raises(JournalUnwritable):
        await journal.wait_committed(journal.start(0, started(), CONTEXT))
    for _ in range(3):
        journal._maintain()
        assert journal.refusing == "journal.db cannot be written: disk I/O error"
    journal._store.insert, journal._store.probe = real  # type: ignore[method-assign]
    journal._maintain()
    assert journal.refusing is None
    await journal.wait_settled(journal.start(0, started(), CONTEXT))
    await journal.close()


@pytest.mark.parametrize("error", [OSError("I/O error"), RuntimeError("I/O error")], ids=repr)
async def test_a_sync_that_fails_is_told_to_who_waits_and_to_who_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    monkeypatch.setattr(sync, "sync_file", failing(error))
    async with asyncio.timeout(5):
        with pytest.raises(JournalUnwritable, match="I/O error"):
            await journal.wait_settled(journal.start(0, started(), CONTEXT))
    with pytest.raises(JournalUnwritable):
        await journal.wait_synced(journal.committed_seq)
    await refuses_for_good(journal, "I/O error")
    await journal.close()


async def test_a_checkpoint_that_does_nothing_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What SQLite answers on a connection that has read nothing yet.
    def unread(path: Path) -> apsw.Connection:
        return apsw.Connection(str(path))

    monkeypatch.setattr(sync, "open_checkpointer", unread)
    monkeypatch.setattr(sync, "LOOK_S", 0.0)
    journal = await open_journal(tmp_path / "gw-0")
    async with asyncio.timeout(5):
        while journal.refusing is None:
            await asyncio.sleep(0.01)
    await refuses_for_good(journal, "checkpoint did nothing")
    await journal.close()


async def test_who_waits_for_the_sync_of_what_could_not_be_stored_is_told(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    journal._store.insert = failing(JournalUnwritable("disk full"))  # type: ignore[method-assign]
    receipt = journal.start(0, started(), CONTEXT)
    async with asyncio.timeout(5):
        with pytest.raises(JournalUnwritable, match="disk full"):
            await journal.wait_synced(receipt.seq)
        with pytest.raises(JournalUnwritable):
            await journal.wait_synced(99)
    await journal.close()


async def test_a_slot_that_could_not_be_opened_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.events.journal.store._configure", failing(JournalUnwritable("not wal")))
        with pytest.raises(JournalUnwritable):
            JournalStore.open(tmp_path / "gw-0")
    JournalStore.open(tmp_path / "gw-0").close()


async def test_events_before_a_fault_can_still_be_read(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "gw-0")
    await journal.wait_settled(journal.start(0, started(), CONTEXT))
    journal._store.insert = failing(JournalCorrupt("journal.db is damaged"))  # type: ignore[method-assign]
    with pytest.raises(JournalUnwritable):
        await journal.wait_committed(journal.start(0, started(), CONTEXT))
    await journal.close()
    tail = JournalTail(tmp_path / "gw-0")
    assert [row.last_seq for row in tail.rows(0, 9, 9)] == [1]
    tail.close()
