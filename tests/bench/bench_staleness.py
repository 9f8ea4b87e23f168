"""How old a fact is when the planner knows it: `python tests/bench/bench_staleness.py [--log …] [--seconds N]`.

A gateway worker's journal is written at a steady 1,000 events/s in the demo's mix over 50 pools; the roles `log`
(relay) and `estimator` run as processes of their own, as `tidegate` starts them; this process follows as a
planner does. Staleness of an event = from its commit in the journal to the moment at which the planner's view
holds the snapshots that include it (`Applied` covers it). Beside it: how long until the log held the event.
Goals: p99 ≤ 400 ms over SQLite, ≤ 600 ms over Kafka. Without a broker the Kafka row is left out, or fails when
TIDEGATE_REQUIRE_KAFKA is 1. Writes build/staleness.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import uvloop

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "bench"))

from bench_estimator import POOLS, with_broker  # noqa: E402

from support.fleet import Process, kafka_table, until  # noqa: E402
from support.kafka_log import kafka_event_log, kafka_settings  # noqa: E402
from support.kafka_providers import Broker  # noqa: E402
from support.signals import stream  # noqa: E402
from tidegate.events.codec import decode_envelope  # noqa: E402
from tidegate.events.journal.journal import Journal  # noqa: E402
from tidegate.events.journal.receipt import Context, Receipt  # noqa: E402
from tidegate.events.log.port import EventLog, TopicPartition  # noqa: E402
from tidegate.events.partition import PARTITIONS, partition_of  # noqa: E402
from tidegate.events.signals import AttemptStarted, UsageSettled  # noqa: E402
from tidegate.events.topics import SIGNALS  # noqa: E402
from tidegate.planner.follower import Follower  # noqa: E402
from tidegate.planner.overlay import Overlay  # noqa: E402
from tidegate.runtime import metrics  # noqa: E402
from tidegate.runtime.demo.toml import dumps  # noqa: E402
from tidegate.runtime.machine import Machine  # noqa: E402
from tidegate.runtime.process import run_role  # noqa: E402
from tidegate.runtime.settings import load_settings  # noqa: E402

GOALS_MS = {"sqlite": 400.0, "kafka": 600.0}
EVENTS_PER_S = 1_000
WARM_UP_S = 3
DEADLINE_S = 30.0
CONTEXT = Context(
    tenant="acme", request="01a22b86-d219-7000-b161-97f9063a6c5c", session="sh4SHY8JeVCOPb00Cgel"
)


class Written(msgspec.Struct, array_like=True):
    """An event of the journal: when its commit was known, on the clock that all processes share."""

    seq: int
    partition: int
    mono_ns: int
    wall_ns: int


class Row(msgspec.Struct):
    """One line of the table; milliseconds."""

    log: str
    events: int
    in_log_p50_ms: float
    in_log_p99_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    goal_p99_ms: float


class Watcher(Overlay):
    """An overlay that notes when the view came to include what."""

    def __init__(self) -> None:
        super().__init__("gw-0")
        self.covered: list[tuple[int, int, Mapping[str, int]]] = []
        """partition, monotonic time, source → seq"""

    def applied(self, partition: int, marks: Mapping[str, int]) -> None:
        """Called by the follower right after it has swapped the view."""
        self.covered.append((partition, time.monotonic_ns(), dict(marks)))
        super().applied(partition, marks)


# --- the gateway's journal, in a process of its own


def append(journal: Journal, pool: str, data: Any, seq: int) -> Receipt:
    """As a gateway worker records it."""
    partition = partition_of(pool)
    if isinstance(data, AttemptStarted):
        return journal.start(partition, data, CONTEXT)
    if isinstance(data, UsageSettled):
        return journal.settle(partition, data, CONTEXT)
    return journal.record(SIGNALS, partition, f"subject-{seq}", data, CONTEXT)


async def write(config: Path, seconds: int, told: Path) -> None:
    """One event a millisecond; what was written when goes to the file `told`."""
    machine = Machine(load_settings(config), base=config.parent)
    journal = await machine.open_journal("gw-0")
    count = (WARM_UP_S + seconds) * EVENTS_PER_S
    step_ns = int(2 * 1e9 / EVENTS_PER_S / 0.28)
    events = stream(count, pools=POOLS, step_ns=step_ns, start_ns=machine.clock.wall_ns())
    written: list[Written] = []

    async def note(receipt: Receipt, partition: int, settles: bool) -> None:
        await journal.wait_committed(receipt)
        written.append(Written(receipt.seq, partition, time.monotonic_ns(), time.time_ns()))
        if settles:
            await journal.wait_settled(receipt)  # as before a client's last byte: this is what syncs

    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for number, (pool, _, data) in enumerate(events):
            await asyncio.sleep(max(begun + number / EVENTS_PER_S - loop.time(), 0))
            receipt = append(journal, pool, data, number)
            tasks.create_task(note(receipt, partition_of(pool), isinstance(data, UsageSettled)))
    report = {"source": journal.source, "written": sorted(written, key=lambda event: event.seq)}
    aside = told.with_suffix(".new")
    aside.write_bytes(msgspec.json.encode(report))
    aside.replace(told)
    await asyncio.Event().wait()  # alive as a gateway is: its journal stays owned


# --- the measurement


def document(log: Mapping[str, Any]) -> dict[str, Any]:
    """A config of POOLS pools, every other one with two windows."""
    windows = [
        {"id": "5h", "unit": "requests", "limit": 40_000, "duration_s": 18_000.0},
        {"id": "week", "unit": "tokens", "limit": 10**11, "duration_s": 604_800.0},
    ]
    flat = [{"id": f"pool-{n}", "billing": "flat", "windows": windows} for n in range(1, POOLS, 2)]
    return {
        "data_dir": "data",
        "log": dict(log),
        "pools": flat + [{"id": f"pool-{n}"} for n in range(0, POOLS, 2)],
        "targets": [
            {
                "id": f"target-{n}", "dialect": "openai", "base_url": "https://x.test", "model": "m",
                "pool": f"pool-{n}", "prices": [{"input_uncached": "3", "output": "15"}],
            }
            for n in range(POOLS)
        ],
        "routes": [{"name": "coder", "candidates": [{"target": f"target-{n}"} for n in range(POOLS)]}],
    }  # fmt: skip


@contextmanager
def processes(folder: Path, config: Path) -> Generator[dict[str, Process]]:
    """Relay, estimator and writer, not started; whatever happens they end."""
    read_fd, write_fd = os.pipe()
    env = dict(os.environ)
    role = [sys.executable, "-m", "tidegate.runtime"]
    common = ["--config", str(config), "--parent-fd", str(read_fd)]
    found = {
        name: Process(name, [*role, name, *common], env, folder, read_fd) for name in ("log", "estimator")
    }
    try:
        yield found
    finally:
        for process in found.values():
            process.end()
        os.close(read_fd)
        os.close(write_fd)


async def in_log_ms(log: EventLog, source: str, written: Mapping[int, Written]) -> list[float]:
    """Per event, from its commit in the journal to its append to the log."""
    reader = log.reader({TopicPartition(SIGNALS.name, p): 0 for p in range(PARTITIONS)})
    found: list[float] = []
    while records := await reader.poll(timeout_s=1.0):
        for record in records:
            envelope = decode_envelope(record.value or b"")
            if envelope.source == source and envelope.seq in written:
                found.append((record.append_ns - written[envelope.seq].wall_ns) / 1e6)
    await reader.close()
    return found


def staleness_ms(watcher: Watcher, source: str, written: Mapping[int, Written]) -> list[float]:
    """Per event, from its commit in the journal to a view that includes it."""
    waiting = {p: [w for w in written.values() if w.partition == p] for p in range(PARTITIONS)}
    found: list[float] = []
    for partition, at_ns, marks in watcher.covered:
        seq = marks.get(source, 0)
        queue = waiting[partition]
        known = [event for event in queue if event.seq <= seq]
        found += [(at_ns - event.mono_ns) / 1e6 for event in known]
        waiting[partition] = queue[len(known) :]
    missing = sum(map(len, waiting.values()))
    if missing:
        raise AssertionError(f"{missing} events never came to the planner's view")
    return found


async def ready(machine: Machine, roles: Mapping[str, Process]) -> bool:
    for process in roles.values():
        if not process.is_running:
            raise AssertionError(process.failure("ended"))
    return set(roles) <= set(await metrics.collect(machine.run_dir))


async def measure(name: str, folder: Path, log_table: Mapping[str, Any], seconds: int) -> Row:
    """One log: start everything, write, wait until the planner knows all of it."""
    config, told = folder / "tidegate.toml", folder / "written.json"
    config.write_text(dumps(document(log_table)))
    machine = Machine(load_settings(config), base=folder)
    machine.make_folders()
    with processes(folder, config) as roles:
        for process in roles.values():
            process.start()
        await until(lambda: ready(machine, roles), "the roles")
        log, watcher = machine.open_log(), Watcher()
        follower = Follower(log, machine.settings.routing(), watcher, machine.clock)
        following = asyncio.ensure_future(follower.run())
        await follower.wait_loaded()
        writer = [sys.executable, __file__, "--write", str(config), str(seconds), str(told)]
        roles["writer"] = Process("writer", writer, dict(os.environ), folder)
        roles["writer"].start()
        await until(
            told.exists, lambda: roles["writer"].failure("to write"), WARM_UP_S + seconds + DEADLINE_S
        )
        report = json.loads(told.read_bytes())
        events = [Written(*each) for each in report["written"]]
        warm = [event for event in events if event.seq > WARM_UP_S * EVENTS_PER_S]
        known = {event.seq: event for event in warm}
        ends = {event.partition: event.seq for event in events}

        def all_known() -> bool:
            seen: dict[int, int] = {}
            for partition, _, marks in watcher.covered:
                seen[partition] = marks.get(report["source"], 0)
            return all(seen.get(partition, 0) >= seq for partition, seq in ends.items())

        await until(all_known, "the planner's view", DEADLINE_S)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        logged = sorted(await in_log_ms(log, report["source"], known))
        await log.close()
    stale = sorted(staleness_ms(watcher, report["source"], known))
    return Row(
        name, len(stale), at(logged, 0.5), at(logged, 0.99), at(stale, 0.5), at(stale, 0.99), stale[-1],
        GOALS_MS[name],
    )  # fmt: skip


def at(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def on_kafka(broker: Broker, folder: Path, seconds: int) -> Row:
    settings = kafka_settings(broker)
    async with kafka_event_log(broker, settings):
        return await measure("kafka", folder, kafka_table(settings), seconds)


def measured(log: str, seconds: int) -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        if log != "kafka":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            rows.append(uvloop.run(measure("sqlite", folder, {"kind": "sqlite"}, seconds)))
        if log != "sqlite":
            broker = with_broker(stack)
            if broker is not None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                rows.append(uvloop.run(on_kafka(broker, folder, seconds)))
    return rows


def show(rows: list[Row]) -> None:
    print(f"{EVENTS_PER_S} events/s; ms until{'the log':>13}{'':>9}the planner's view")
    print(f"{'log':<8}{'events':>8}{'p50':>12}{'p99':>8}{'p50':>10}{'p99':>8}{'max':>8}{'goal p99':>10}")
    for row in rows:
        verdict = "" if row.p99_ms <= row.goal_p99_ms else "  missed"
        print(
            f"{row.log:<8}{row.events:>8}{row.in_log_p50_ms:>12.0f}{row.in_log_p99_ms:>8.0f}"
            f"{row.p50_ms:>10.0f}{row.p99_ms:>8.0f}{row.max_ms:>8.0f}{row.goal_p99_ms:>10.0f}{verdict}"
        )


def main() -> int:
    """Print and store the figures; or be the writer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", choices=("sqlite", "kafka", "both"), default="both")
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument(
        "--write", nargs=3, metavar=("CONFIG", "SECONDS", "TOLD"), help="internal: the writer"
    )
    args = parser.parse_args()
    if args.write:
        config, seconds, told = args.write
        run_role(lambda _: write(Path(config), int(seconds), Path(told)))
        return 0
    rows = measured(args.log, args.seconds)
    show(rows)
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "staleness.json").write_text(
        json.dumps([msgspec.to_builtins(row) for row in rows], indent=1)
    )
    return 1 if any(row.p99_ms > row.goal_p99_ms for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
