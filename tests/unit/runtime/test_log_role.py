"""The log role archives unless it is told not to; what it relays is the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidegate.events.archive_manifest import Manifest
from tidegate.events.control import DeadLetter
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import DEADLETTER
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping
from tidegate.runtime.roles import log as log_role
from tidegate.runtime.roles.log import LogRole
from tidegate.runtime.settings import parse_settings

LETTER = DeadLetter(topic="t", partition=0, offset=0, sha256="0" * 64, length=0, error="e")
WHERE = TopicPartition(DEADLETTER.name, 0)


@pytest.mark.parametrize("archive", [True, False])
async def test_records_are_archived_unless_the_archive_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: bool
) -> None:
    monkeypatch.setattr(log_role, "ARCHIVE_EVERY_S", 0.01)
    text = f'data_dir = "data"\n[log]\narchive = {str(archive).lower()}\narchive_after_s = 0.0'
    machine = Machine(parse_settings(text), env={}, base=tmp_path)
    machine.make_folders()
    journal = await machine.open_journal("gw-0")
    await journal.wait_committed(journal.record(DEADLETTER, 0, "k", LETTER))
    stopping = Stopping()
    running = asyncio.ensure_future(LogRole(machine).run(stopping))
    log = machine.open_log()
    try:
        async with asyncio.timeout(30):
            while await log.end(WHERE) < 1 or (archive and not Manifest(machine.archive_dir).files(WHERE)):
                if running.done():
                    running.result()
                await asyncio.sleep(0.01)
    finally:
        stopping.event.set()
        await running
        await log.close()
        await journal.close()
    assert machine.archive_dir.exists() is archive
