"""A small engine: it counts numbered signals into state, with its position in the same transaction.

As a program: `kafka_counter.py BOOTSTRAP PREFIX LAST` reports each commit and, at the end, the total.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import NamedTuple

from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.port import EventLog, Outgoing, Reader, TopicPartition, Writer
from tidegate.events.topics import SIGNALS, STATE

SHARD = 3
SIGNAL = TopicPartition(SIGNALS.name, SHARD)
_ID = "counter-3"
_KEY = b"total"


class Counted(NamedTuple):
    """`records` counted so far; `mark` is the highest number among them, -1 for none."""

    records: int = 0
    mark: int = -1


def signals(first: int, count: int) -> list[Outgoing]:
    return [Outgoing(*SIGNAL, b"key", b"%d" % number) for number in range(first, first + count)]


async def count_until(
    log: EventLog, last: int, *, drop_repeated: bool, report: Callable[[Counted], None]
) -> Counted:
    """Go on from the stored state and position until the signal numbered `last` is counted."""
    writer = await log.writer(_ID)
    reader: Reader | None = None
    try:
        newest, _ = await log.latest(STATE.name, [SHARD])
        stored = newest[_KEY].value if _KEY in newest else None
        counted = Counted(*map(int, stored.split())) if stored else Counted()
        reader = log.reader({SIGNAL: (await writer.positions()).get(SIGNAL, 0)})
        while counted.mark < last:
            counted = await _step(reader, writer, counted, drop_repeated=drop_repeated)
            report(counted)
        return counted
    finally:
        await writer.close()
        if reader is not None:
            await reader.close()


async def _step(reader: Reader, writer: Writer, counted: Counted, *, drop_repeated: bool) -> Counted:
    for record in await reader.poll(200, timeout_s=0.2):
        number = int(record.value or b"-1")
        if not (drop_repeated and number <= counted.mark):
            counted = Counted(counted.records + 1, max(number, counted.mark))
    state = Outgoing(STATE.name, SHARD, _KEY, b"%d %d" % counted)
    await writer.commit([state], {SIGNAL: reader.positions()[SIGNAL]})
    return counted


async def _main(bootstrap: str, prefix: str, last: int) -> None:
    log = KafkaEventLog(KafkaSettings(bootstrap, "counter", prefix, replication=1, min_in_sync=1))
    counted = await count_until(log, last, drop_repeated=False, report=lambda c: print(c.records, flush=True))
    print(f"total {counted.records}", flush=True)
    await log.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
