"""A worker killed between the commit of a start and its sync: the attempt is settled all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.journals import make_ids, open_journal
from tidegate.events import codec
from tidegate.events.clock import SystemClock
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import TopicPartition
from tidegate.events.relay import Relay
from tidegate.events.signals import UsageSettled
from tidegate.events.topics import SIGNALS

pytestmark = pytest.mark.crash
TESTS = Path(__file__).parents[1]


async def events_of(log: MemoryEventLog) -> list[tuple[str, str | None]]:
    """Type of every signal, and the attempt of settlements."""
    reader = log.reader({TopicPartition(SIGNALS.name, 1): 0})
    found: list[tuple[str, str | None]] = []
    while records := await reader.poll():
        for record in records:
            assert record.value is not None
            envelope = codec.decode_envelope(record.value)
            data = codec.decode_data(envelope)
            found.append((envelope.type, data.attempt if isinstance(data, UsageSettled) else None))
    await reader.close()
    return found


async def killed_owner(slot: Path, attempt: str) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "support.journal_owner",
        slot,
        attempt,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    assert await owner.wait() == -signal.SIGKILL


async def test_starts_that_nobody_synced_are_settled_once_the_owner_is_gone(tmp_path: Path) -> None:
    slot, clock = tmp_path / "journals" / "gw-0", SystemClock()
    await (await open_journal(slot)).close()
    log = MemoryEventLog(clock)
    relay = Relay(tmp_path, log, clock, make_ids(clock), orphan_after_s=0.2)
    stop = False
    running = asyncio.ensure_future(relay.run(lambda: stop))
    async with asyncio.timeout(60):
        for attempt in (
            "first",
            "second",
            "third",
        ):  # from the second on, the relay had closed the slot before
            await killed_owner(slot, attempt)
            while ("UsageSettled", attempt) not in await events_of(log):
                assert not running.done(), running
                await asyncio.sleep(0.01)
    stop = True
    await running
    found = await events_of(log)
    assert [attempt for kind, attempt in found if kind == "UsageSettled"] == ["first", "second", "third"]
    assert [kind for kind, _ in found].count("AttemptStarted") == 3
    relay.close()
