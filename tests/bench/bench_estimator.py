"""Speed of the estimator: `python tests/bench/bench_estimator.py [--events N] [--log …] [--runner …] [--runs N]`.

The log holds signals in the mix of the demo (see `support/signals.py`) over 50 pools, half of them with two
windows, and bins of the windows close as often, per demand, as in the demo. It is filled before the clock
starts. Then a runner opens an empty state, reads, folds, publishes snapshots of all targets and pools and commits
as in production until everything is applied and committed. The median run counts; of the faust runner there is
one, over an eighth of the events. Goals for the default runner: ≥ 100,000 events/s from SQLite, ≥ 50,000 from
Kafka; faust is printed beside. Without a broker the Kafka rows are left out, or fail when TIDEGATE_REQUIRE_KAFKA
is 1. Writes build/estimator.json. Exit code 1
when a goal is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import uvloop

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.journals import make_ids  # noqa: E402
from support.kafka_broker import REQUIRE_VARIABLE, BrokerSession  # noqa: E402
from support.kafka_log import kafka_event_log, kafka_settings  # noqa: E402
from support.kafka_providers import Broker  # noqa: E402
from support.signals import records  # noqa: E402
from tidegate.estimator.faust_app import FaustRunner  # noqa: E402
from tidegate.estimator.log_runner import LogRunner  # noqa: E402
from tidegate.events.clock import SystemClock  # noqa: E402
from tidegate.events.config import DatedPrice, Pool, Routing, Target, Window  # noqa: E402
from tidegate.events.log.kafka import KafkaEventLog  # noqa: E402
from tidegate.events.log.kafka_settings import KafkaSettings  # noqa: E402
from tidegate.events.log.port import EventLog, Outgoing, Record, TopicPartition  # noqa: E402
from tidegate.events.log.sqlite import SqliteEventLog  # noqa: E402
from tidegate.events.types import PoolId, TargetId, WindowId  # noqa: E402
from tidegate.runtime.process import GC_ALLOCATIONS  # noqa: E402

GOALS = {("sqlite", "log"): 100_000, ("kafka", "log"): 50_000}
POOLS = 50
SOURCE = "gw-0@01a22b86-ca98-7000-8875-581437005023"
STEP_NS = 2_800_000_000
FAUST_PART = 8
_BATCH = 5_000


def routing() -> Routing:
    """Of every pool and target in the log, so that each has its snapshots."""
    windows = (
        Window(id=WindowId("5h"), unit="requests", limit=40_000, duration_s=18_000),
        Window(id=WindowId("week"), unit="tokens", limit=10**11, duration_s=604_800),
    )
    price = DatedPrice(input_uncached=3_000_000_000, output=15_000_000_000)
    return Routing(
        pools=tuple(
            Pool(id=PoolId(f"pool-{n}"), billing="flat", windows=windows)
            if n % 2
            else Pool(id=PoolId(f"pool-{n}"))
            for n in range(POOLS)
        ),
        targets=tuple(
            Target(
                id=TargetId(f"target-{n}"), dialect="openai", base_url="https://x.test", model="m",
                pool=PoolId(f"pool-{n}"), prices=(price,),
            )
            for n in range(POOLS)
        ),
    )  # fmt: skip


def signals(count: int) -> list[Outgoing]:
    """The records of a run; the last of them happened about now."""
    started_ns = SystemClock().wall_ns() - int(count * 0.28 * STEP_NS / 2)
    return records(count, pools=POOLS, source=SOURCE, step_ns=STEP_NS, start_ns=started_ns)


async def fill(log: EventLog, count: int) -> None:
    rows = signals(count)
    for at in range(0, count, _BATCH):
        await log.append(rows[at : at + _BATCH])


class Alarms:
    """Nothing may be wrong with the events of a bench."""

    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(f"{record.topic}: {error}")

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(f"{where}: {error}")


class Row(msgspec.Struct):
    """One line of the table."""

    log: str
    runner: str
    events: int
    events_per_s: float
    cpu_us_per_event: float
    snapshots: int
    commits: int
    goal: int | None


class Measured:
    """Runs one runner until it has read `count` events, from its open state to its last commit."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.begun_s = self.cpu_s = 0.0
        self.runner: Any = None

    def done(self) -> bool:
        """Asked by the runner once it has opened its state, and then after every batch."""
        engine = self.runner.engine
        if engine is None or not engine.shards:
            return False
        if not self.begun_s:
            self.begun_s, self.cpu_s = time.perf_counter(), time.process_time()
        return sum(shard.position for shard in engine.shards.values()) >= self.count

    async def run(self, runner: Any, log: str, name: str) -> Row:
        self.runner = runner
        await runner.run(self.done)
        took_s, cpu_s = time.perf_counter() - self.begun_s, time.process_time() - self.cpu_s
        engine = runner.engine
        read = sum(shard.position for shard in engine.shards.values())
        if read != self.count or engine.duplicates or getattr(runner, "restarts", 0):
            raise AssertionError(f"{name} on {log} did not read every event once")
        return Row(
            log, name, self.count, self.count / took_s, cpu_s / self.count * 1e6,
            engine.outbox.snapshots, engine.commits, GOALS.get((log, name)),
        )  # fmt: skip


async def on_sqlite(folder: Path, count: int) -> Row:
    """The default runner on a log in `folder`, which another process' handle has filled."""
    for file in folder.glob("estimator.db*"):
        file.unlink()
    clock, config = SystemClock(), routing()

    def open_log() -> EventLog:
        return SqliteEventLog.open(folder, frozenset({"estimator"}), clock)

    runner = LogRunner(open_log, clock, make_ids(clock), lambda: config, Alarms())
    return await Measured(count).run(runner, "sqlite", "log")


async def sqlite_rows(count: int, runs: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        log = SqliteEventLog.open(Path(name), frozenset({"relay"}), SystemClock())
        await fill(log, count)
        await log.close()
        return [median([await on_sqlite(Path(name), count) for _ in range(runs)])]


@asynccontextmanager
async def filled_kafka(broker: Broker, count: int) -> AsyncGenerator[KafkaSettings]:
    settings = kafka_settings(broker)
    async with kafka_event_log(broker, settings) as log:
        await fill(log, count)
        yield settings


async def on_kafka(broker: Broker, name: str, count: int) -> Row:
    """One runner on topics of its own."""
    clock, config = SystemClock(), routing()
    async with filled_kafka(broker, count) as settings:

        def open_log() -> EventLog:
            return KafkaEventLog(settings)

        common = (clock, make_ids(clock), lambda: config, Alarms())
        runner = LogRunner(open_log, *common) if name == "log" else FaustRunner(open_log, settings, *common)
        return await Measured(count).run(runner, "kafka", name)


async def kafka_rows(broker: Broker, runners: Sequence[str], count: int, runs: int) -> list[Row]:
    rows: list[Row] = []
    if "log" in runners:
        rows.append(median([await on_kafka(broker, "log", count) for _ in range(runs)]))
    if "faust" in runners:  # many times slower, and no goal: one short run
        rows.append(await on_kafka(broker, "faust", count // FAUST_PART))
    return rows


def median(rows: Sequence[Row]) -> Row:
    return sorted(rows, key=lambda row: row.events_per_s)[len(rows) // 2]


def _no_broker(reason: str) -> NoReturn:
    raise LookupError(reason)


def with_broker(stack: ExitStack) -> Broker | None:
    """A broker as the tests get theirs; None, and the reason in print, when there is none to be had."""
    session = BrokerSession(required=os.environ.get(REQUIRE_VARIABLE) == "1")
    session.skip = _no_broker  # type: ignore[method-assign]
    try:
        return session.enter(stack, 1, Path(stack.enter_context(tempfile.TemporaryDirectory())))
    except LookupError as reason:
        print(f"KAFKA NOT MEASURED: {reason}")
        return None


def show(rows: Sequence[Row]) -> None:
    print(
        f"{'log':<8}{'runner':<8}{'events':>9}{'events/s':>10}{'goal':>9}{'us CPU':>8}"
        f"{'snapshots':>11}{'commits':>9}"
    )
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal}"
        print(
            f"{row.log:<8}{row.runner:<8}{row.events:>9}{row.events_per_s:>10.0f}{goal:>9}"
            f"{row.cpu_us_per_event:>8.1f}{row.snapshots:>11}{row.commits:>9}"
        )


def measured(events: int, log: str, runner: str, runs: int) -> list[Row]:
    rows: list[Row] = []
    if log != "kafka" and runner != "faust":
        rows += uvloop.run(sqlite_rows(events, runs))
    if log != "sqlite":
        names = ("log", "faust") if runner == "all" else (runner,)
        with ExitStack() as stack:
            broker = with_broker(stack)
            if broker is not None:
                rows += uvloop.run(kafka_rows(broker, names, events, runs))
    return rows


def main() -> int:
    """Print and store the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--log", choices=("sqlite", "kafka", "both"), default="both")
    parser.add_argument("--runner", choices=("log", "faust", "all"), default="all")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 50, 100)  # as every role's process
    rows = measured(args.events, args.log, args.runner, args.runs)
    show(rows)
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "estimator.json").write_text(
        json.dumps([msgspec.to_builtins(row) for row in rows], indent=1)
    )
    return 1 if any(row.goal is not None and row.events_per_s < row.goal for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
