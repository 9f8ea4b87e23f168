"""A process that appends to a SQLite log, archives it and deletes what is archived, until it is killed.

Arguments: folder, seed. `appended N` says that everything below N is acknowledged.
"""

import asyncio
import random
import sys
from pathlib import Path

from support.log_reading import outgoing
from tidegate.events.archive import Archiver
from tidegate.events.archive_retention import delete_archived
from tidegate.events.clock import SystemClock
from tidegate.events.log.port import TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import SIGNALS

SIGNAL = TopicPartition(SIGNALS.name, 5)
FAR_NS = 1 << 62


async def write(folder: Path, rng: random.Random) -> None:
    log = SqliteEventLog.open(folder / "live", frozenset({"relay"}), SystemClock())
    archiver = Archiver(log, folder / "archive", max_rows=40)
    appended = await log.end(SIGNAL)
    while True:
        for _ in range(rng.randrange(1, 4)):
            size = rng.choice([1, 3, 50])
            await log.append(outgoing(SIGNAL, range(appended, appended + size), size=300))
            appended += size
            print(f"appended {appended}", flush=True)
        await archiver.run(FAR_NS)
        await delete_archived(log, archiver.manifest, frozenset({"relay"}), FAR_NS)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), random.Random(int(sys.argv[2]))))
