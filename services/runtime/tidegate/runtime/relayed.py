"""Waits until the relay has brought into the log what stood in this machine's journals."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tidegate.events.journal.journal import journal_folders, read_position
from tidegate.events.journal.store import JournalTail
from tidegate.runtime.waiting import in_time

POLL_S = 0.05
TELL_EVERY_S = 1.0


async def until_relayed(data_dir: Path, deadline_s: float, tell: Callable[[str], object]) -> None:
    """Return once every journal's events of now are in the log; `tell` is given what is left, once a second.

    Raises NotInTime naming the journals, JournalCorrupt.
    """
    waiting = await asyncio.to_thread(_newest, data_dir)
    loop = asyncio.get_running_loop()
    told_at = loop.time()
    async with in_time(deadline_s, lambda: f"{_left(waiting)}; is the log role running?"):
        while True:
            waiting = {folder: seq for folder, seq in waiting.items() if read_position(folder) <= seq}
            if not waiting:
                return
            if loop.time() - told_at >= TELL_EVERY_S:
                told_at = loop.time()
                tell(_left(waiting))
            await asyncio.sleep(POLL_S)


def _newest(data_dir: Path) -> dict[Path, int]:
    """The newest committed seq of each journal."""
    found: dict[Path, int] = {}
    for folder in journal_folders(data_dir):
        tail = JournalTail(folder)
        try:
            if seq := tail.last_seq():
                found[folder] = seq
        finally:
            tail.close()
    return found


def _left(waiting: dict[Path, int]) -> str:
    events = sum(seq + 1 - max(1, read_position(folder)) for folder, seq in waiting.items())
    names = ", ".join(sorted(folder.name for folder in waiting))
    return f"the relay has not taken {events} events of {names}"
