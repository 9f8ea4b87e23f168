"""Many processes that create one SQLite log at the same moment: each of them can write to it."""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from support.killing import TESTS
from support.log_appender import SIGNAL
from tidegate.events.clock import SystemClock
from tidegate.events.log.sqlite import SqliteEventLog

ROUNDS = 4
PROCESSES = 6
_WAITS_AT_THE_GATE = """
import asyncio, os, sys
from pathlib import Path
from support.log_appender import append
print("ready", flush=True)
os.read(int(sys.argv[3]), 1)
asyncio.run(append(Path(sys.argv[1]), sys.argv[2], 1))
"""

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def _at_the_gate(folder: Path, gate: int, key: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _WAITS_AT_THE_GATE,
        folder,
        key,
        str(gate),
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        pass_fds=(gate,),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def test_processes_that_create_the_log_together_all_get_it(tmp_path: Path) -> None:
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        gate, opener = os.pipe()
        waiting = await asyncio.gather(*(_at_the_gate(folder, gate, f"p{n}") for n in range(PROCESSES)))
        os.close(opener)  # the end of the pipe is read by all at once
        assert await asyncio.gather(*(process.wait() for process in waiting)) == [0] * PROCESSES
        os.close(gate)
        log = SqliteEventLog.open(folder, frozenset(), SystemClock())
        assert await log.end(SIGNAL) == PROCESSES * 3
        await log.close()
