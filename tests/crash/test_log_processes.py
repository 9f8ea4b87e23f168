"""Several processes on one SQLite log at once: two write, one reads, nothing is lost or mixed."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.killing import TESTS
from support.log_appender import SIGNAL
from support.log_reading import numbers
from tidegate.events.clock import SystemClock
from tidegate.events.log.port import Record
from tidegate.events.log.sqlite import SqliteEventLog

BATCHES = 150

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def appender(folder: Path, key: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        TESTS / "support" / "log_appender.py",
        folder,
        key,
        str(BATCHES),
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert await process.wait() == 0


async def test_two_writing_processes_and_a_following_reader_agree(tmp_path: Path) -> None:
    log = SqliteEventLog.open(tmp_path, frozenset(), SystemClock())
    reader = log.reader({SIGNAL: 0})  # before there is a file
    writing = asyncio.gather(appender(tmp_path, "left"), appender(tmp_path, "right"))
    records: list[Record] = []
    while len(records) < 2 * 3 * BATCHES:
        part = await reader.poll(max_records=40, timeout_s=30)
        assert part
        records += part
    await writing

    assert [record.offset for record in records] == list(range(2 * 3 * BATCHES))
    for key in (b"left", b"right"):
        assert numbers(r for r in records if r.key == key) == list(range(3 * BATCHES))
    for first in range(
        0, len(records), 3
    ):  # a batch is one transaction: the other process is never within it
        assert len({record.key for record in records[first : first + 3]}) == 1
    await log.close()
