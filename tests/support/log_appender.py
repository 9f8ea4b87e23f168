"""A process that appends numbered records of one key to a SQLite log, one batch after another, and ends.

Arguments: folder, key, number of batches of three.
"""

import asyncio
import sys
from pathlib import Path

from support.log_reading import outgoing
from tidegate.events.clock import SystemClock
from tidegate.events.log.port import TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import SIGNALS

SIGNAL = TopicPartition(SIGNALS.name, 5)


async def append(folder: Path, key: str, batches: int) -> None:
    log = SqliteEventLog.open(folder, frozenset({"relay"}), SystemClock())
    for n in range(batches):
        await log.append(outgoing(SIGNAL, range(n * 3, n * 3 + 3), key=key, size=500))
    await log.close()


if __name__ == "__main__":
    asyncio.run(append(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
