"""kill -9 of the process that writes the SQLite log loses nothing that it acknowledged."""

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from support.log_reading import numbers, read_all
from support.log_writer import SHARD, SIGNAL, SNAPSHOT
from tidegate.events.clock import SystemClock
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import ROLES

TESTS = Path(__file__).parents[1]
WRITER = TESTS / "support" / "log_writer.py"
LARGEST_BATCH = 200

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def run_and_kill(folder: Path, seed: int, acknowledgements: int, pause_s: float) -> dict[str, int]:
    """Run the writer, kill it some time after its n-th report, return all it reported."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        WRITER,
        folder,
        str(seed),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert process.stdout is not None
    reported: dict[str, int] = {"appended": 0, "committed": 0}
    for _ in range(acknowledgements):
        word, number = (await process.stdout.readline()).split()
        reported[word.decode()] = int(number)
    await asyncio.sleep(pause_s)  # no condition to wait for: the moment of death is to be arbitrary
    process.kill()
    async for line in process.stdout:
        if line.endswith(b"\n"):
            word, number = line.split()
            reported[word.decode()] = int(number)
    await process.wait()
    return reported


@pytest.mark.parametrize("kills", [10, pytest.param(40, marks=pytest.mark.nightly)])
async def test_what_a_killed_writer_acknowledged_is_there_whole_and_once(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    for kill in range(kills):
        reported = await run_and_kill(tmp_path, kill, rng.randrange(1, 60), rng.random() * 0.02)

        log = SqliteEventLog.open(tmp_path, frozenset(ROLES), SystemClock())
        signals = numbers(await read_all(log, [SIGNAL]))
        snapshots = numbers(await read_all(log, [SNAPSHOT]))
        writer = await log.writer(SHARD)
        position = (await writer.positions()).get(SIGNAL, 0)

        assert signals == list(range(len(signals)))
        assert reported["appended"] <= len(signals) <= reported["appended"] + LARGEST_BATCH
        assert snapshots == list(range(position))  # records and position: both or neither
        assert reported["committed"] <= position <= len(signals)
        latest, _ = await log.latest(SNAPSHOT.topic)
        assert numbers(latest.values()) == ([position - 1] if position else [])
        await log.close()
