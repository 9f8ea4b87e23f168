"""The relay: synced rows only, order kept, sources closed, nothing lost after an unknown acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.journals import CONTEXT, make_ids, open_journal, settled, started
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.errors import AckUnknown, LogUnavailable
from tidegate.events.journal.journal import read_position
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.relay import Relay
from tidegate.events.topics import SIGNALS


async def signals_of(log: MemoryEventLog) -> list[tuple[str, str, int]]:
    reader = log.reader({TopicPartition(SIGNALS.name, p): 0 for p in range(PARTITIONS)})
    found = []
    while records := await reader.poll():
        for record in records:
            assert record.value is not None
            envelope = codec.decode_envelope(record.value)
            found.append((envelope.type, envelope.source, envelope.seq))
    await reader.close()
    return found


class FlakyLog(MemoryEventLog):
    """Fails as told: before or after the records are stored."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.faults: list[str] = []

    async def append(self, records: Sequence[Outgoing]) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refuse":
            raise LogUnavailable("down")
        await super().append(records)
        if fault == "unknown":
            raise AckUnknown("no answer")


async def write_attempts(folder: Path, count: int, *, start: int = 0) -> str:
    journal = await open_journal(folder, start=start)
    for _ in range(count):
        begun = started()
        journal.start(4, begun, CONTEXT)
        await journal.wait_settled(journal.settle(4, settled(begun), CONTEXT))
    source = journal.source
    await journal.close()
    return source


async def test_only_synced_rows_are_sent(tmp_path: Path) -> None:
    log = MemoryEventLog(ManualClock())
    relay = Relay(tmp_path, log, ManualClock(), make_ids())
    journal = await open_journal(tmp_path / "journals" / "gw-0")
    await journal.wait_synced(journal.start(4, started(), CONTEXT).seq)
    assert await relay.step() == 1
    held = journal._sync._mark.write
    journal._sync._mark.write = lambda _seq: None  # type: ignore[method-assign]
    await journal.wait_synced(journal.start(4, started(), CONTEXT).seq)
    assert await relay.step() == 0
    journal._sync._mark.write = held  # type: ignore[method-assign]
    await journal.wait_synced(journal.start(4, started(), CONTEXT).seq)
    assert await relay.step() == 2
    assert [seq for _, _, seq in await signals_of(log)] == [1, 2, 3]
    await journal.close()
    relay.close()


async def test_a_finished_source_is_closed_in_every_partition_it_touched(tmp_path: Path) -> None:
    log = MemoryEventLog(ManualClock())
    first = await write_attempts(tmp_path / "journals" / "gw-0", 3)
    second = await write_attempts(tmp_path / "journals" / "gw-0", 1, start=500)
    relay = Relay(tmp_path, log, ManualClock(), make_ids())
    while await relay.step():
        pass
    events = await signals_of(log)
    assert [(kind, seq) for kind, source, seq in events if source == first][-1] == ("SourceClosed", 7)
    assert ("SourceClosed", second, 9) not in events
    await relay.drain()
    assert ("SourceClosed", second, 9) in await signals_of(log)
    again = len(await signals_of(log))
    await relay.drain()
    assert len(await signals_of(log)) == again
    relay.close()


async def test_a_restarted_relay_goes_on_where_the_acknowledgements_ended(tmp_path: Path) -> None:
    log = MemoryEventLog(ManualClock())
    await write_attempts(tmp_path / "journals" / "gw-0", 5)
    for _ in range(3):
        relay = Relay(tmp_path, log, ManualClock(), make_ids())
        await relay.step()
        relay.close()
    assert [seq for _, _, seq in await signals_of(log)] == list(range(1, 11))


@pytest.mark.parametrize("fault", ["refuse", "unknown"])
async def test_after_a_failed_append_everything_unacknowledged_is_sent_again(
    tmp_path: Path, fault: str
) -> None:
    log = FlakyLog()
    log.faults = [fault]
    await write_attempts(tmp_path / "journals" / "gw-0", 4)
    relay = Relay(tmp_path, log, ManualClock(), make_ids())
    with pytest.raises((LogUnavailable, AckUnknown)):
        await relay.step()
    await relay.step()
    seqs = [seq for _, _, seq in await signals_of(log)]
    assert sorted(set(seqs)) == list(range(1, 9))
    assert len(seqs) == (8 if fault == "refuse" else 16)  # duplicates are dropped by seq, by every consumer
    relay.close()


async def test_an_orphaned_journal_is_settled_and_closed_after_its_time(tmp_path: Path) -> None:
    log, clock = MemoryEventLog(ManualClock()), ManualClock()
    journal = await open_journal(tmp_path / "journals" / "gw-0")
    await journal.wait_synced(journal.start(4, started("left"), CONTEXT).seq)
    relay = Relay(tmp_path, log, clock, make_ids(start=9_000), orphan_after_s=10)
    await relay.step()
    ((only, *_),) = relay._slots.values()
    assert not await only.drain_if_orphaned()  # the owner lives
    await journal.close()
    assert not await only.drain_if_orphaned()  # free, but not long enough
    clock.advance_ns(10 * 10**9)
    assert await only.drain_if_orphaned()
    kinds = [kind for kind, _, _ in await signals_of(log)]
    assert kinds == ["AttemptStarted", "SourceClosed", "UsageSettled", "SourceClosed"]
    relay.close()


async def test_run_survives_an_outage_and_ends_with_nothing_left(tmp_path: Path) -> None:
    log = FlakyLog()
    log.faults = ["refuse", "unknown", "refuse"]
    await write_attempts(tmp_path / "journals" / "gw-0", 6)
    await write_attempts(tmp_path / "journals" / "gw-1", 6, start=700)
    relay = Relay(tmp_path, log, ManualClock(), make_ids())
    async with asyncio.timeout(20):
        await relay.run(lambda: relay.sent() >= 24)
    assert relay.lag() == 0
    assert len({(source, seq) for _, source, seq in await signals_of(log)}) == 24
    relay.close()


async def test_a_position_that_cannot_be_stored_stops_nothing_and_is_stored_later(tmp_path: Path) -> None:
    log = MemoryEventLog(ManualClock())
    relay = Relay(tmp_path, log, ManualClock(), make_ids())
    slot = tmp_path / "journals" / "gw-0"
    await write_attempts(slot, 2)
    (slot / "relay.json.new").mkdir()  # writing there fails, as on a full disk
    assert await relay.step() == 4
    assert await relay.step() == 0
    assert read_position(slot) == 0
    (slot / "relay.json.new").rmdir()
    assert await relay.step() == 0
    assert read_position(slot) == 5
    assert [seq for _, _, seq in await signals_of(log)] == [1, 2, 3, 4]
    relay.close()


async def test_two_lives_sent_in_one_step_after_a_closed_one_are_told_apart(tmp_path: Path) -> None:
    log = MemoryEventLog(ManualClock())
    relay = Relay(tmp_path, log, ManualClock(), make_ids(), orphan_after_s=0)
    slot = tmp_path / "journals" / "gw-0"
    first = await write_attempts(slot, 1)
    await relay.drain()
    second = await write_attempts(slot, 1, start=1)
    third = await write_attempts(slot, 1, start=2)
    await relay.step()
    closed = {source for kind, source, _ in await signals_of(log) if kind == "SourceClosed"}
    assert closed == {first, second}
    await relay.drain()
    closed = {source for kind, source, _ in await signals_of(log) if kind == "SourceClosed"}
    assert closed == {first, second, third}
    relay.close()
