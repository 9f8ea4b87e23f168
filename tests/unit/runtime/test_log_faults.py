"""What hinders the relay in one journal is said in the log and in the numbers of the log role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tidegate.events.control import DeadLetter
from tidegate.events.errors import JournalCorrupt
from tidegate.events.journal.store import DB
from tidegate.events.topics import DEADLETTER
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import collect
from tidegate.runtime.process import Stopping
from tidegate.runtime.roles.log import LogRole
from tidegate.runtime.settings import parse_settings

LETTER = DeadLetter(topic="t", partition=0, offset=0, sha256="0" * 64, length=0, error="e")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(parse_settings('data_dir = "data"'), env={}, base=tmp_path)
    found.make_folders()
    return found


def spoil(machine: Machine) -> None:
    folder = machine.journal_dir("gw-0")
    folder.mkdir(parents=True)
    (folder / DB).write_bytes(b"no database" * 1_000)


async def until(reached: Callable[[dict[str, float]], bool], machine: Machine) -> None:
    async with asyncio.timeout(20):
        while not reached((await collect(machine.run_dir)).get("log", {})):
            await asyncio.sleep(0.01)


async def test_a_damaged_journal_shows_in_log_and_numbers_until_it_is_gone(machine: Machine) -> None:
    spoil(machine)
    stopping = Stopping()
    with capture_logs() as lines:
        running = asyncio.ensure_future(LogRole(machine).run(stopping))
        await until(lambda numbers: numbers.get("relay_journals_failing") == 1, machine)
        (machine.journal_dir("gw-0") / DB).unlink()
        journal = await machine.open_journal("gw-0")  # a new one in its place
        await until(lambda numbers: numbers.get("relay_journals_failing") == 0, machine)
        stopping.event.set()
        await running
    await journal.close()
    faults = [line for line in lines if line["event"] == "journal cannot be relayed"]
    assert {(line["slot"], line["code"]) for line in faults} == {("gw-0", "journal_corrupt")}
    assert DB in faults[0]["why"]
    assert {line["slot"] for line in lines if line["event"] == "journal is relayed again"} == {"gw-0"}


async def test_a_drain_counts_what_it_sent_by_journal(machine: Machine) -> None:
    for slot, count in (("gw-0", 3), ("gw-1", 0)):
        journal = await machine.open_journal(slot)
        for _ in range(count):
            await journal.wait_committed(journal.record(DEADLETTER, 0, "k", LETTER))
        await journal.close()
    sent: dict[str, int] = {}
    await LogRole(machine).drain(machine.data_dir, sent=sent)(Stopping())
    assert sent == {"gw-0": 3, "gw-1": 0}


async def test_a_drain_that_meets_a_damaged_journal_fails_and_names_it(machine: Machine) -> None:
    spoil(machine)
    with capture_logs() as lines, pytest.raises(JournalCorrupt):
        await LogRole(machine).drain(machine.data_dir)(Stopping())
    (line,) = [line for line in lines if line["event"] == "not drained"]
    assert (line["log_level"], line["code"]) == ("error", "journal_corrupt")
    assert "gw-0" in line["why"]
