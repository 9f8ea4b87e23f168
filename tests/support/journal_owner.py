"""A process that owns a journal slot and is killed the moment an attempt's start is committed, before any sync."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from support.journals import CONTEXT, open_journal, started
from tidegate.events.clock import SystemClock


async def _main(folder: Path, attempt: str) -> None:
    journal = await open_journal(folder, clock=SystemClock(), start=os.getpid())
    journal._sync._on_synced = lambda _seq: None
    journal._sync._mark.write = lambda _seq: None  # type: ignore[method-assign] # the kill comes before the sync
    await journal.wait_committed(journal.start(1, started(attempt), CONTEXT))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
