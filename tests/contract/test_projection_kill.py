"""kill -9 during ingest: afterwards the rows are exactly those from before the stored positions."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from support.history import History
from support.read_model import LIMITS, folded, memory_log
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.projections.content import content
from tidegate.projections.store import Store

pytestmark = pytest.mark.crash

KILLS = 5
CHILD = """
import asyncio, sys
from pathlib import Path
import msgspec
from support.read_model import Heard, memory_log, running
from tidegate.events.log.port import Outgoing
from tidegate.projections.runner import Pace

async def main(records, path):
    log = await memory_log(Outgoing(*row) for row in msgspec.msgpack.decode(records.read_bytes()))
    async with running(log, path, pace=Pace(batch_records=40, linger_s=0.0, poll_s=0.05)) as (runner, _):
        report, apply = sys.stdout, runner._store.apply
        def told(parts):
            report.write(".")
            report.flush()
            apply(parts)
        runner._store.apply = told
        await runner.catch_up()
    report.write("end")

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def test_rows_equal_positions_after_every_kill_and_the_end_is_the_whole_log(tmp_path: Path) -> None:
    path, rng = tmp_path / "m.duckdb", random.Random(3)
    records = History(seed=9).day(250, candidates=6).outgoing()
    (tmp_path / "records").write_bytes(msgspec.msgpack.encode(records))
    reached = [0]
    for _ in range(KILLS):
        await killed_inside(rng.randrange(2, 10), rng.random() * 0.03, tmp_path / "records", path)
        store = Store.open(path, LIMITS)
        positions, held = store.positions(), content(store.connection)
        store.close()
        expected = await folded(await memory_log(before(records, positions)), tmp_path / "expected.duckdb")
        (tmp_path / "expected.duckdb").unlink()
        assert held == expected
        reached.append(sum(positions.values()))
    assert reached == sorted(set(reached)), "every life went on where the last one ended"
    assert reached[-1] < len(records), "the kills came during ingest"
    log = await memory_log(records)
    assert await folded(log, path) == await folded(log, tmp_path / "once.duckdb")


async def killed_inside(commit: int, delay_s: float, records: Path, path: Path) -> None:
    """Run an ingesting process and kill it some time after it began its nth commit."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(records), str(path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read(commit) == b"." * commit
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(delay_s)
        child.kill()
        assert child.wait() == -signal.SIGKILL


def before(records: list[Outgoing], positions: dict[TopicPartition, int]) -> list[Outgoing]:
    """The records of each partition from before its position: offsets in memory count from 0."""
    left = dict(positions)
    kept = []
    for record in records:
        where = TopicPartition(record.topic, record.partition)
        if left[where] > 0:
            left[where] -= 1
            kept.append(record)
    return kept
