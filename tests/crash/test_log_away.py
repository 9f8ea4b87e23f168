"""The data plane outlives its log: with a damaged one requests go on, on what is known, and money is settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fleet import Fleet
from support.traffic import Traffic

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def test_a_damaged_log_file_stops_no_gateway_neither_a_running_nor_a_starting_one(
    tmp_path: Path,
) -> None:
    async with Fleet(tmp_path) as fleet, Traffic(fleet.url, clients=2) as traffic:
        await fleet.start("log", "estimator", "gateway")
        await traffic.more(5, "with a good log")
        fleet.kill("estimator")
        fleet.kill("log")
        for path in (tmp_path / "data" / "log").glob("estimator.db*"):
            if not path.name.endswith("-shm"):  # shared memory of those who have it open
                with path.open("r+b") as file:
                    file.write(b"no database " * (path.stat().st_size // 12))
        await traffic.more(60, "with a damaged log")
        fleet.kill("gateway")
        await fleet.start("gateway")
        await traffic.more(20, "with a log that was damaged from the start")
        staleness_s = (await fleet.numbers("gw-0"))["view_staleness_s"]
        assert staleness_s == -1, "it shows that it follows nothing"
        traffic.stop()
