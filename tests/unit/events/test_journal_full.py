"""A journal whose disk is full: what is known is stored once there is room, and nobody dies of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from support.journals import CONTEXT, open_journal, settled, started
from tidegate.events import codec
from tidegate.events.errors import JournalUnwritable
from tidegate.events.journal import frames, sync
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.store import JournalStore


def settlements_in(folder: Path) -> list[Any]:
    store = JournalStore.open(folder)
    try:
        found = [frame for row in store.rows() for frame in frames.unpack(row.frames)]
    finally:
        store.close()
    return [
        codec.decode_data(codec.decode_envelope(frame.value))
        for frame in found
        if frame.flag == frames.SETTLED
    ]


def fill(journal: Journal) -> Callable[[], None]:
    """No event can be stored any more, until what is returned is called."""

    def full(*_args: object) -> int:
        raise JournalUnwritable("disk full")

    store: Any = journal._store
    real, store.insert = store.insert, full

    def free() -> None:
        store.insert = real

    return free


async def with_a_settlement_that_found_no_room(folder: Path) -> tuple[Journal, Callable[[], None]]:
    journal = await open_journal(folder)
    start = started("a")
    await journal.wait_committed(journal.start(0, start, CONTEXT))
    free = fill(journal)
    with pytest.raises(JournalUnwritable):
        await journal.wait_settled(journal.settle(0, settled(start, output=7), CONTEXT))
    assert journal.open_attempts == 1
    return journal, free


async def test_a_settlement_that_found_no_room_is_stored_once_there_is_some(tmp_path: Path) -> None:
    journal, free = await with_a_settlement_that_found_no_room(tmp_path / "gw-0")
    free()
    async with asyncio.timeout(10):
        while journal.open_attempts:
            await asyncio.sleep(0.01)
    await journal.close()
    (found,) = settlements_in(tmp_path / "gw-0")
    assert (found.attempt, found.basis, found.tokens.output) == ("a", "reported", 7)


async def test_a_settlement_that_found_no_room_is_stored_at_the_end(tmp_path: Path) -> None:
    journal, free = await with_a_settlement_that_found_no_room(tmp_path / "gw-0")
    free()
    await journal.close()
    assert [found.basis for found in settlements_in(tmp_path / "gw-0")] == ["reported"]


async def test_a_settlement_that_never_finds_room_is_left_to_the_next_owner(tmp_path: Path) -> None:
    journal, _ = await with_a_settlement_that_found_no_room(tmp_path / "gw-0")
    await journal.close()
    assert settlements_in(tmp_path / "gw-0") == []
    following = await open_journal(tmp_path / "gw-0", start=1)
    await following.close()
    assert [found.outcome for found in settlements_in(tmp_path / "gw-0")] == ["orphaned"]


async def test_a_checkpoint_that_finds_no_room_is_tried_again_and_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    faults = itertools.cycle([apsw.FullError("database or disk is full"), apsw.IOError("write failed")])
    opened = sync.open_checkpointer

    class Full:
        """A connection whose checkpoints find no room."""

        def __init__(self, real: apsw.Connection) -> None:
            self._real = real

        def wal_checkpoint(self, *, mode: int) -> tuple[int, int]:
            if mode == apsw.SQLITE_CHECKPOINT_NOOP:
                return self._real.wal_checkpoint(mode=mode)
            tries.append("")
            raise next(faults)

        def close(self) -> None:
            self._real.close()

    monkeypatch.setattr(sync, "CHECKPOINT_PAGES", 0)
    monkeypatch.setattr(sync, "LOOK_S", 0.0)
    monkeypatch.setattr(sync, "open_checkpointer", lambda path: Full(opened(path)))
    journal = await open_journal(tmp_path / "gw-0")
    for _ in range(2):
        before = len(tries)
        receipt = journal.start(0, started(), CONTEXT)
        await journal.wait_committed(receipt)
        await journal.wait_synced(receipt.seq)
        async with asyncio.timeout(10):
            while len(tries) == before:
                await asyncio.sleep(0.001)
    assert journal.refusing is None
    await journal.close()
