"""Speed of the SQLite log and of the archive on this disk: `python tests/bench/bench_event_log.py`.

Every append is synced, so the disk's own sync time is printed beside. Goals: ≥ 100,000 records/s written in
batches, ≥ 300,000 records/s read, no stall of the reader's event loop beyond a few milliseconds.
"""

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from tidegate.events.archive import Archiver
from tidegate.events.archive_log import ArchivedLog
from tidegate.events.clock import SystemClock
from tidegate.events.log.port import EventLog, Outgoing, Reader, TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import REQUESTS, SIGNALS, SPEND

PLACES = [TopicPartition(topic.name, p) for topic in (REQUESTS, SIGNALS, SPEND) for p in range(12)]
WRITES = {1: 1_000, 10: 10_000, 100: 60_000, 1_000: 150_000, 5_000: 200_000}
"""Batch size → records to write with it."""
Row = dict[str, float]


def sync_ms(folder: Path, rounds: int = 200) -> float:
    """Median time of an fdatasync after 4 KiB."""
    taken: list[float] = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(rounds):
            file.write(bytes(4_096))
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1_000


async def write(log: EventLog, batch: int, count: int) -> Row:
    """Append `count` records of about 450 bytes spread over 36 partitions."""
    rng = random.Random(batch)
    values = [rng.randbytes(rng.choice([300, 400, 500, 600])) for _ in range(200)]
    batches = [
        [Outgoing(*rng.choice(PLACES), b"key-%d" % n, values[n % 200]) for n in range(at, at + batch)]
        for at in range(0, count, batch)
    ]
    taken: list[float] = []
    begun, cpu = time.perf_counter(), time.process_time()
    for records in batches:
        started = time.perf_counter()
        await log.append(records)
        taken.append((time.perf_counter() - started) * 1_000)
    return {
        "records_per_s": count / (time.perf_counter() - begun),
        "cpu_us": (time.process_time() - cpu) / count * 1e6,
        "p50_ms": statistics.median(taken),
        "p99_ms": statistics.quantiles(taken, n=100)[98],
    }


async def read(reader: Reader) -> Row:
    """Read to the end while another task watches how long the loop is held."""
    stalls: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0)
            stalls.append((time.perf_counter() - begun) * 1_000)

    watching = asyncio.ensure_future(watch())
    count, begun, cpu = 0, time.perf_counter(), time.process_time()
    while records := await reader.poll():
        count += len(records)
    seconds = time.perf_counter() - begun
    watching.cancel()
    await reader.close()
    return {
        "records_per_s": count / seconds,
        "cpu_us": (time.process_time() - cpu) / count * 1e6,
        "p50_ms": statistics.median(stalls),
        "p99_ms": statistics.quantiles(stalls, n=100)[98],
    }


async def measure(folder: Path) -> dict[str, Row]:
    """Every row of the table by its name."""
    log = SqliteEventLog.open(folder / "log", frozenset({"relay"}), SystemClock())
    rows = {f"append {batch}": await write(log, batch, count) for batch, count in WRITES.items()}
    everything = dict.fromkeys(PLACES, 0)
    rows["read (stall)"] = await read(log.reader(everything))
    archiver = Archiver(log, folder / "archive")
    begun, cpu = time.perf_counter(), time.process_time()
    run = await archiver.run(1 << 62)
    rows["archive"] = {
        "records_per_s": run.rows / (time.perf_counter() - begun),
        "cpu_us": (time.process_time() - cpu) / run.rows * 1e6,
    }
    archiver.close()
    rows["read archive (stall)"] = await read(ArchivedLog(log, folder / "archive").reader(everything))
    await log.close()
    return rows


def main() -> None:
    """Print the table and write `build/bench_event_log.json`."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        sync = sync_ms(Path(folder))
        rows = asyncio.run(measure(Path(folder)))
    print(f"one fdatasync of 4 KiB here: {sync:.2f} ms")
    print(f"{'':>22} {'records/s':>10} {'cpu us':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for name, row in rows.items():
        times = "".join(f" {row[key]:>8.2f}" if key in row else f" {'':>8}" for key in ("p50_ms", "p99_ms"))
        print(f"{name:>22} {row['records_per_s']:>10,.0f} {row['cpu_us']:>8.1f}{times}")
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "bench_event_log.json").write_text(json.dumps({"sync_ms": sync, **rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
