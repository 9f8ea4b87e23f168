"""The estimator is exact after kill -9: its state is that of one fold that was never interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.audit import check_state
from support.estimator_kills import Estimator, killed_while_fed
from support.estimator_process import ROUTING, SUBJECTS
from support.snapshot_audit import check_snapshots
from tidegate.events.clock import SystemClock
from tidegate.events.log.sqlite import SqliteEventLog

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 6))])
async def test_an_estimator_killed_ten_times_in_60_000_events_is_exact(tmp_path: Path, seed: int) -> None:
    log = SqliteEventLog.open(tmp_path, frozenset({"relay"}), SystemClock())
    arguments = ("log", tmp_path)
    await killed_while_fed(log, arguments, events=60_000, kills=10, seed=seed)
    async with Estimator(*arguments):
        assert await check_state(log, ROUTING) >= 2 * SUBJECTS
        assert await check_snapshots(log, ROUTING) >= 2 * SUBJECTS
    await log.close()
