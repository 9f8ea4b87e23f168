"""kill -9 while appending, archiving and deleting: archive + live stays the full sequence."""

import random
from pathlib import Path

import pytest

from support.archive_writer import SIGNAL
from support.killing import run_and_kill
from support.log_reading import numbers, read_all
from tidegate.events.archive import Archiver
from tidegate.events.archive_log import ArchivedLog
from tidegate.events.archive_verify import verify
from tidegate.events.clock import SystemClock
from tidegate.events.log.sqlite import SqliteEventLog

LARGEST_BATCH = 50

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.nightly)])
async def test_what_was_appended_is_read_once_from_archive_and_live(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    deleted = 0
    for kill in range(kills):
        reported = await run_and_kill(
            "archive_writer.py", tmp_path, kill, rng.randrange(1, 25), rng.random() * 0.05
        )
        live = SqliteEventLog.open(tmp_path / "live", frozenset(), SystemClock())
        spanning = ArchivedLog(live, tmp_path / "archive")

        records = await read_all(spanning, [SIGNAL])

        assert numbers(records) == list(range(len(records)))
        assert [record.offset for record in records] == list(range(len(records)))
        assert reported["appended"] <= len(records) <= reported["appended"] + LARGEST_BATCH
        deleted = await live.begin(SIGNAL)
        Archiver(live, tmp_path / "archive").close()
        assert verify(tmp_path / "archive") == []
        await live.close()
    assert deleted > 0
