"""The end of a gateway: it waits for the relay, within a bound, and its supervisor waits for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.journals import CONTEXT, open_journal, started
from tidegate.events.config import GatewaySettings
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.store import POSITION
from tidegate.runtime.roles.gateway import wait_relayed
from tidegate.runtime.supervisor import STOP_GRACE_S, stop_grace_s


def relayed_to(folder: Path, position: int) -> None:
    (folder / POSITION).write_text(json.dumps({"position": position}))


async def journal_with_three_events(folder: Path) -> Journal:
    journal = await open_journal(folder)
    for _ in range(3):
        journal.start(0, started(), CONTEXT)
    return journal


async def test_it_ends_once_the_log_holds_the_journal_and_not_before(tmp_path: Path) -> None:
    journal = await journal_with_three_events(tmp_path / "gw-0")
    relayed_to(tmp_path / "gw-0", 1)
    waiting = asyncio.ensure_future(wait_relayed(journal, tmp_path / "gw-0", 60))
    await journal.wait_synced(3)
    relayed_to(tmp_path / "gw-0", 3)
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    relayed_to(tmp_path / "gw-0", 4)
    assert await waiting
    await journal.close()


@pytest.mark.parametrize("position", [0, 1])
async def test_a_relay_that_is_not_there_is_not_waited_for(tmp_path: Path, position: int) -> None:
    journal = await journal_with_three_events(tmp_path / "gw-0")
    if position:
        relayed_to(tmp_path / "gw-0", position)
    assert not await wait_relayed(journal, tmp_path / "gw-0", 0.01)
    await journal.close()


def test_the_supervisor_gives_a_gateway_the_time_it_is_configured_to_drain() -> None:
    gateway = GatewaySettings(drain_delay_s=5, drain_grace_s=300)
    assert stop_grace_s("gateway", gateway) == STOP_GRACE_S + 305
    assert stop_grace_s("log", gateway) == STOP_GRACE_S
