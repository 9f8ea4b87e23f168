"""The archive must be well ahead of Kafka's retention: half of it is the alarm."""

from __future__ import annotations

from pathlib import Path

from tidegate.events.archive import Archiver
from tidegate.events.archive_manifest import Manifest
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.topics import DAY_S, SIGNALS
from tidegate.runtime.retention import Waiting, unarchived

NS = 1_000_000_000


class Hands:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_ns = 1_800_000_000 * NS

    def wall_ns(self) -> int:
        return self.now_ns

    def mono_ns(self) -> int:
        return self.now_ns


def record(partition: int) -> Outgoing:
    return Outgoing(SIGNALS.name, partition, b"k", b"{}")


async def test_the_oldest_record_that_is_not_archived_counts(tmp_path: Path) -> None:
    clock = Hands()
    log = MemoryEventLog(clock)
    await log.append([record(0), record(3)])
    clock.now_ns += 6 * DAY_S * NS
    await log.append([record(3), record(5)])
    clock.now_ns += 2 * DAY_S * NS
    found = {each.where: each for each in await unarchived(log, Manifest(tmp_path), clock.now_ns)}
    ages = {where.partition: each.age_s / DAY_S for where, each in found.items()}
    assert ages == {0: 8.0, 3: 8.0, 5: 2.0}
    late = [each for each in found.values() if each.is_late]
    assert {each.where.partition for each in late} == {0, 3}
    assert "8.0 days old; Kafka deletes it at 14 days" in str(late[0])


async def test_what_is_archived_waits_no_more(tmp_path: Path) -> None:
    clock = Hands()
    log = MemoryEventLog(clock)
    await log.append([record(0), record(3)])
    clock.now_ns += 8 * DAY_S * NS
    archiver = Archiver(log, tmp_path)
    await archiver.run(clock.now_ns)
    archiver.close()
    assert await unarchived(log, Manifest(tmp_path), clock.now_ns) == []
    await log.append([record(3)])
    (waiting,) = await unarchived(log, Manifest(tmp_path), clock.now_ns)
    assert (waiting.where.partition, waiting.age_s, waiting.is_late) == (3, 0.0, False)


def test_half_of_the_retention_is_not_yet_late_and_a_second_more_is() -> None:
    where = TopicPartition(SIGNALS.name, 0)
    assert not Waiting(where, 7.0 * DAY_S, 14 * DAY_S).is_late
    assert Waiting(where, 7.0 * DAY_S + 1, 14 * DAY_S).is_late
