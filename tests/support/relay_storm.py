"""A journal's owner and a relay to Kafka, each a process to be killed at any moment.

`relay_storm.py owner FOLDER SEED` appends bursts of events to a journal for ever;
`relay_storm.py relay DATA_DIR BOOTSTRAP PREFIX` relays, impatient with its broker. Both say `ready` first.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from support.journals import CONTEXT, make_ids, settled, started
from tidegate.events.clock import SystemClock
from tidegate.events.ids import IdSource
from tidegate.events.journal.journal import Journal
from tidegate.events.log import kafka_settings
from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.relay import Relay

PARTITIONS = (3, 4, 5)
"""Few, so that a backlog makes many batches for each."""
REQUEST_TIMEOUT_MS = 400
ACK_DEADLINE_S = 0.9


async def own(folder: Path, seed: int) -> None:
    rng, clock = random.Random(seed), SystemClock()
    ids = IdSource(clock, random.SystemRandom().getrandbits)
    journal = await Journal.open(folder, clock, ids, reserve_bytes=65_536)
    print("ready", flush=True)
    number = 0
    while True:
        begun = []
        for _ in range(rng.randrange(1, 150)):
            number += 1
            start = started(f"{journal.source}/{number}", pool="p" * rng.randrange(1, 400))
            partition = rng.choice(PARTITIONS)
            journal.start(partition, start, CONTEXT)
            begun.append((partition, start))
        receipts = [journal.settle(partition, settled(start), CONTEXT) for partition, start in begun]
        await journal.wait_settled(receipts[-1])
        await asyncio.sleep(rng.random() * 0.05)


async def relay(data_dir: Path, bootstrap: str, prefix: str) -> None:
    kafka_settings._REQUEST_TIMEOUT_MS = REQUEST_TIMEOUT_MS  # so that the client itself sends again
    settings = KafkaSettings(
        bootstrap, "relay", prefix, replication=1, min_in_sync=1, ack_deadline_s=ACK_DEADLINE_S
    )
    clock = SystemClock()
    moving = Relay(
        data_dir, KafkaEventLog(settings), clock, make_ids(clock, start=os.getpid()), orphan_after_s=0.3
    )
    print("ready", flush=True)
    await moving.run(lambda: False)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["owner", folder, seed]:
            asyncio.run(own(Path(folder), int(seed)))
        case ["relay", data_dir, bootstrap, prefix]:
            asyncio.run(relay(Path(data_dir), bootstrap, prefix))
        case _:
            raise SystemExit(__doc__)
