"""Speed of the estimator's own runner on the SQLite log: `python tests/bench/bench_estimator.py [--events N]`.

Reads, folds, publishes snapshots and commits its states as in production; prints events/s and CPU per event and
writes build/estimator.json. Goal: ≥ 100,000 events/s. The log is filled before the clock starts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.journals import make_ids  # noqa: E402
from support.signals import records  # noqa: E402
from tidegate.estimator.log_runner import LogRunner  # noqa: E402
from tidegate.events.clock import SystemClock  # noqa: E402
from tidegate.events.config import Routing  # noqa: E402
from tidegate.events.log.port import Record, TopicPartition  # noqa: E402
from tidegate.events.log.sqlite import SqliteEventLog  # noqa: E402

GOAL_EVENTS_PER_S = 100_000
_BATCH = 5_000


class Alarms:
    """Nothing may be wrong with the events of a bench."""

    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(f"{record.topic}: {error}")

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(f"{where}: {error}")


async def fill(folder: Path, count: int) -> None:
    """A log with `count` signals of 50 pools."""
    log = SqliteEventLog.open(folder, frozenset({"relay"}), SystemClock())
    rows = records(count)
    for at in range(0, count, _BATCH):
        await log.append(rows[at : at + _BATCH])
    await log.close()


async def run(folder: Path, count: int) -> dict[str, float]:
    """Events per second and CPU per event from an empty state to the last commit."""
    clock, routing = SystemClock(), Routing()
    runner = LogRunner(
        lambda: SqliteEventLog.open(folder, frozenset({"estimator"}), clock),
        clock,
        make_ids(clock),
        lambda: routing,
        Alarms(),
    )

    def read() -> int:
        shards = () if runner.engine is None else runner.engine.shards.values()
        return sum(shard.position for shard in shards)

    begun, cpu = time.perf_counter(), time.process_time()
    await runner.run(lambda: read() >= count)
    took_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    if read() != count or runner.restarts:
        raise AssertionError("the runner did not read every event once")
    return {"events": count, "events_per_s": count / took_s, "cpu_us_per_event": cpu_s / count * 1e6}


async def bench(count: int) -> dict[str, float]:
    """One run over a fresh log."""
    with tempfile.TemporaryDirectory() as name:
        await fill(Path(name), count)
        return await run(Path(name), count)


def main() -> int:
    """Print and store the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=200_000)
    found = asyncio.run(bench(parser.parse_args().events))
    print(
        f"{found['events_per_s']:.0f} events/s (goal {GOAL_EVENTS_PER_S}),"
        f" {found['cpu_us_per_event']:.1f} us CPU per event, {found['events']:.0f} events"
    )
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "estimator.json").write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
