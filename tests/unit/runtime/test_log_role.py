"""The log role archives unless it is told not to; what it relays is the same, whatever is wrong beside it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tidegate.events.archive import LOCK, Archiver
from tidegate.events.archive_manifest import MANIFEST, Manifest
from tidegate.events.control import DeadLetter
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import DEADLETTER
from tidegate.runtime import process
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import collect
from tidegate.runtime.process import Stopping
from tidegate.runtime.roles import archiving
from tidegate.runtime.roles.log import LogRole
from tidegate.runtime.settings import parse_settings

LETTER = DeadLetter(topic="t", partition=0, offset=0, sha256="0" * 64, length=0, error="e")
WHERE = TopicPartition(DEADLETTER.name, 0)


@pytest.mark.parametrize("archive", [True, False])
async def test_records_are_archived_unless_the_archive_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: bool
) -> None:
    monkeypatch.setattr(archiving, "ARCHIVE_EVERY_S", 0.01)
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


class OtherArchiver:
    """Another process that archives into a folder."""

    def __init__(self, machine: Machine) -> None:
        self._archiver = Archiver(MemoryEventLog(machine.clock), machine.archive_dir)

    def ends(self, _machine: Machine) -> None:
        self._archiver.close()


def no_archive(machine: Machine) -> None:
    if machine.archive_dir.is_dir():
        shutil.rmtree(machine.archive_dir)
    else:
        machine.archive_dir.unlink()


def garbage_in_manifest(machine: Machine) -> Callable[[Machine], None]:
    machine.archive_dir.mkdir()
    (machine.archive_dir / MANIFEST).write_text("garbage{\n")
    return no_archive


def file_for_folder(machine: Machine) -> Callable[[Machine], None]:
    machine.archive_dir.write_text("no folder")
    return no_archive


def folder_for_manifest(machine: Machine) -> Callable[[Machine], None]:
    (machine.archive_dir / MANIFEST).mkdir(parents=True)
    return no_archive


def folder_for_lock(machine: Machine) -> Callable[[Machine], None]:
    (machine.archive_dir / LOCK).mkdir(parents=True)
    return no_archive


def no_parquet(machine: Machine) -> Callable[[Machine], None]:
    machine.archive_dir.mkdir()
    (machine.archive_dir / "foreign.parquet").write_bytes(b"PAR1 or not")
    return no_archive


def another_archives(machine: Machine) -> Callable[[Machine], None]:
    return OtherArchiver(machine).ends


@asynccontextmanager
async def relaying(machine: Machine) -> AsyncGenerator[None]:
    """A log role that has relayed one event."""
    journal = await machine.open_journal("gw-0")
    await journal.wait_committed(journal.record(DEADLETTER, 0, "k", LETTER))
    stopping = Stopping()
    running = asyncio.ensure_future(LogRole(machine).run(stopping))
    log = machine.open_log()
    try:
        async with asyncio.timeout(30):
            while await log.end(WHERE) < 1:
                if running.done():
                    running.result()
                await asyncio.sleep(0.01)
        yield
    finally:
        stopping.event.set()
        await running
        await log.close()
        await journal.close()


async def standing(machine: Machine, *, wanted: bool) -> None:
    async with asyncio.timeout(30):
        while (await collect(machine.run_dir)).get("log", {}).get("archive_standing") != float(wanted):
            await asyncio.sleep(0.01)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(parse_settings('data_dir = "data"\n[log]\narchive_after_s = 0.0'), env={}, base=tmp_path)
    found.make_folders()
    return found


@pytest.mark.parametrize(
    "spoil",
    [
        garbage_in_manifest,
        file_for_folder,
        folder_for_manifest,
        folder_for_lock,
        no_parquet,
        another_archives,
    ],
)
async def test_an_archive_that_cannot_be_used_stops_only_itself_and_is_tried_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Machine], Callable[[Machine], None]]
) -> None:
    monkeypatch.setattr(archiving, "ARCHIVE_EVERY_S", 0.05)
    mend = spoil(machine)
    async with relaying(machine):
        await standing(machine, wanted=True)
        mend(machine)
        await standing(machine, wanted=False)
        async with asyncio.timeout(30):
            while not Manifest(machine.archive_dir).files(WHERE):
                await asyncio.sleep(0.01)


async def test_an_archive_that_is_spoilt_while_it_runs_stops_only_itself(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "ARCHIVE_EVERY_S", 0.05)
    async with relaying(machine):
        await standing(machine, wanted=False)
        with (machine.archive_dir / MANIFEST).open("a") as file:
            file.write("garbage{\n")
        await standing(machine, wanted=True)


async def test_numbers_that_cannot_be_shown_stop_only_themselves(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PART_RETRY_S", 0.01)
    in_the_way = machine.run_dir / "log.metrics"
    in_the_way.mkdir()
    async with relaying(machine):
        in_the_way.rmdir()
        async with asyncio.timeout(30):
            while "log" not in await collect(machine.run_dir):
                await asyncio.sleep(0.01)
