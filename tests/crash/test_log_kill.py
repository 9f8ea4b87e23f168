"""kill -9 of the process that writes the SQLite log loses nothing that it acknowledged."""

import random
from pathlib import Path

import pytest

from support.killing import run_and_kill
from support.log_reading import numbers, read_all
from support.log_writer import SHARD, SIGNAL, SNAPSHOT
from tidegate.events.clock import SystemClock
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import ROLES

LARGEST_BATCH = 200

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("kills", [10, pytest.param(40, marks=pytest.mark.nightly)])
async def test_what_a_killed_writer_acknowledged_is_there_whole_and_once(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    for kill in range(kills):
        reported = await run_and_kill(
            "log_writer.py", tmp_path, kill, rng.randrange(1, 60), rng.random() * 0.02
        )

        log = SqliteEventLog.open(tmp_path, frozenset(ROLES), SystemClock())
        signals = numbers(await read_all(log, [SIGNAL]))
        snapshots = numbers(await read_all(log, [SNAPSHOT]))
        writer = await log.writer(SHARD)
        position = (await writer.positions()).get(SIGNAL, 0)

        assert signals == list(range(len(signals)))
        assert reported.get("appended", 0) <= len(signals) <= reported.get("appended", 0) + LARGEST_BATCH
        assert snapshots == list(range(position))  # records and position: both or neither
        assert reported.get("committed", 0) <= position <= len(signals)
        latest, _ = await log.latest(SNAPSHOT.topic)
        assert numbers(latest.values()) == ([position - 1] if position else [])
        await log.close()
