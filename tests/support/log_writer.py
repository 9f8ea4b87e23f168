"""A process that writes to a SQLite log until it is killed and prints what was acknowledged.

Arguments: folder, seed. Each round appends a batch of signals, then commits snapshots with a position;
`appended N` and `committed N` say that everything below N is acknowledged.
"""

import asyncio
import random
import sys
from pathlib import Path

from support.log_reading import outgoing
from tidegate.events.clock import SystemClock
from tidegate.events.log.port import TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import ROLES, SIGNALS, SNAPSHOTS

SIGNAL = TopicPartition(SIGNALS.name, 5)
SNAPSHOT = TopicPartition(SNAPSHOTS.name, 5)
SHARD = "estimator-5"


async def write(folder: Path, rng: random.Random) -> None:
    log = SqliteEventLog.open(folder, frozenset(ROLES), SystemClock())
    writer = await log.writer(SHARD)
    committed = (await writer.positions()).get(SIGNAL, 0)
    appended = await log.end(SIGNAL)
    while True:
        size = rng.choice([1, 1, 3, 20, 200])
        await log.append(outgoing(SIGNAL, range(appended, appended + size), size=rng.randrange(8, 3_000)))
        appended += size
        print(f"appended {appended}", flush=True)
        await writer.commit(outgoing(SNAPSHOT, range(committed, appended), size=64), {SIGNAL: appended})
        committed = appended
        print(f"committed {committed}", flush=True)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), random.Random(int(sys.argv[2]))))
