"""How long Kafka still keeps what the archive does not have: an alarm at half of a topic's retention."""

import asyncio
from typing import NamedTuple

from tidegate.events.archive_manifest import Manifest
from tidegate.events.errors import TidegateError
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.topics import BY_NAME, TOPICS
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.process import kept_up
from tidegate.runtime.telemetry import logger

INSTANCE = "retention"
FIRST_LOOK_S = 60.0
LOOK_EVERY_S = 600.0
LOOK_DEADLINE_S = 30.0
ALARM_AT = 0.5
_NS_PER_S = 1_000_000_000
_DAY_S = 86_400


class Waiting(NamedTuple):
    """The oldest record of a partition that is in the log and not in the archive."""

    where: TopicPartition
    age_s: float
    retention_s: int

    @property
    def is_late(self) -> bool:
        """More than half of the time is over after which the log deletes it."""
        return self.age_s > self.retention_s * ALARM_AT

    def __str__(self) -> str:
        return (
            f"{self.where.topic}/{self.where.partition}: the oldest record that is not archived is"
            f" {self.age_s / _DAY_S:.1f} days old; Kafka deletes it at {self.retention_s / _DAY_S:g} days"
        )


async def unarchived(log: EventLog, manifest: Manifest, now_ns: int) -> list[Waiting]:
    """The oldest unarchived record of every partition that has one. Raises Unavailable, LogCorrupt, TimeoutError."""
    manifest.refresh()
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    async with asyncio.timeout(LOOK_DEADLINE_S):
        for topic in TOPICS:
            if not topic.keeps_history or topic.retention_s is None:
                continue
            for partition in range(topic.partitions):
                where = TopicPartition(topic.name, partition)
                start = max(manifest.end(where), await log.begin(where))
                end = await log.end(where)
                if start < end:
                    starts[where], ends[where] = start, end
        return await _oldest(log, starts, ends, now_ns) if starts else []


async def _oldest(
    log: EventLog, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], now_ns: int
) -> list[Waiting]:
    found: dict[TopicPartition, Waiting] = {}
    reader = log.reader(starts)
    try:
        while len(found) < len(starts):
            for record in await reader.poll(timeout_s=0.2):
                where = TopicPartition(record.topic, record.partition)
                age_s = max(0, now_ns - record.append_ns) / _NS_PER_S
                retention_s = BY_NAME[record.topic].retention_s or 0
                found.setdefault(where, Waiting(where, age_s, retention_s))
            at = reader.positions()
            # What is left of a partition may be marks of transactions alone.
            if all(where in found or at[where] >= end for where, end in ends.items()):
                break
    finally:
        await reader.close()
    return sorted(found.values())


class RetentionWatch:
    """Looks from time to time; tells it as numbers of an instance of its own, and as an error once it is late."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._numbers = {"archive_oldest_waiting_s": 0.0, "archive_late_partitions": 0.0}

    async def run(self) -> None:
        """Watch until cancelled."""
        server = MetricsServer(self._machine.run_dir, INSTANCE, lambda: self._numbers)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kept_up("metrics", server.run))
            tasks.create_task(kept_up("retention", self._look_on))

    async def _look_on(self) -> None:
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """One look; what cannot be asked now is asked the next time."""
        machine = self._machine
        log = machine.open_log()
        try:
            waiting = await unarchived(log, Manifest(machine.archive_dir), machine.clock.wall_ns())
        except (TidegateError, TimeoutError) as error:
            logger().warning("the archive's age is not known now", why=str(error) or type(error).__name__)
            return
        finally:
            await log.close()
        late = [each for each in waiting if each.is_late]
        self._numbers = {
            "archive_oldest_waiting_s": max((each.age_s for each in waiting), default=0.0),
            "archive_late_partitions": float(len(late)),
        }
        for each in late:
            logger().error(
                "records wait too long for the archive",
                topic=each.where.topic,
                partition=each.where.partition,
                why=str(each),
            )
