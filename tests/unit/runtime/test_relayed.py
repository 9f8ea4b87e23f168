"""Reconciling waits for the relay: what stands in journals is compared only once it is in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidegate.events.control import DeadLetter
from tidegate.events.relay import Relay
from tidegate.events.topics import DEADLETTER
from tidegate.runtime import relayed
from tidegate.runtime.machine import Machine
from tidegate.runtime.relayed import until_relayed
from tidegate.runtime.settings import parse_settings
from tidegate.runtime.waiting import NotInTime

LETTER = DeadLetter(topic="t", partition=0, offset=0, sha256="0" * 64, length=0, error="e")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(parse_settings('data_dir = "data"'), env={}, base=tmp_path)
    found.make_folders()
    return found


async def written(machine: Machine, slot: str, events: int) -> None:
    journal = await machine.open_journal(slot)
    receipts = [journal.record(DEADLETTER, 0, "k", LETTER) for _ in range(events)]
    if receipts:
        await journal.wait_committed(receipts[-1])
        await journal.wait_synced(journal.committed_seq)
    await journal.close()


async def test_an_empty_machine_is_not_waited_for(machine: Machine) -> None:
    await until_relayed(machine.data_dir, 0.0, pytest.fail)
    await written(machine, "gw-0", 0)
    await until_relayed(machine.data_dir, 0.5, pytest.fail)


async def test_without_a_relay_it_says_what_is_left_and_where(machine: Machine) -> None:
    await written(machine, "gw-0", 3)
    await written(machine, "gw-1", 2)
    with pytest.raises(NotInTime, match=r"not taken 5 events of gw-0, gw-1; is the log role running"):
        await until_relayed(machine.data_dir, 0.1, pytest.fail)


async def test_it_tells_how_it_goes_and_ends_when_the_relay_has_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relayed, "TELL_EVERY_S", 0.0)
    await written(machine, "gw-0", 3)
    told: list[str] = []
    first = asyncio.Event()

    def tell(text: str) -> None:
        told.append(text)
        first.set()

    waiting = asyncio.ensure_future(until_relayed(machine.data_dir, 30.0, tell))
    await first.wait()
    assert not waiting.done()
    log = machine.open_log(("relay",))
    relay = Relay(machine.data_dir, log, machine.clock, machine.ids)
    try:
        await relay.drain()
        await waiting
    finally:
        relay.close()
        await log.close()
    assert told[0] == "the relay has not taken 3 events of gw-0"
