"""Ingest, rebuild and queries of the read model: `python tests/bench/bench_projection.py [requests]`.

Goal: 15,000 events a second of CPU time on the demo's mix (four targets); with 8 candidates beside it.
"""

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.history import History
from support.read_model import Heard, memory_log
from tidegate.analytics.catalog import catalog
from tidegate.projections.content import content
from tidegate.projections.limits import Limits
from tidegate.projections.progress import Progress
from tidegate.projections.query import QueryEngine
from tidegate.projections.runner import Pace, Runner
from tidegate.projections.sqlguard import SqlGuard
from tidegate.projections.store import Store

GOAL_EVENTS_PER_CPU_S = 15_000
QUERIES = ("spend_by_day", "sessions", "drift_by_target", "unsettled", "windows")


async def ingest(requests: int, candidates: int, folder: Path) -> tuple[dict[str, float], Store]:
    """Figures of folding a day of traffic."""
    log = await memory_log(History().day(requests, candidates).outgoing())
    heard = Heard()
    store = Store.open(folder / f"{candidates}.duckdb", Limits())
    runner = Runner(
        log,
        store,
        Progress(store.positions()),
        dead_letters=heard.dead_letter,
        alarm=heard,
        pace=Pace(linger_s=0.0, poll_s=0.05),
    )
    wall, cpu = time.perf_counter(), time.process_time()
    await runner.catch_up()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    runner.close()
    events, rows = runner.counts.events, runner.counts.rows
    figures = {
        "events": events,
        "rows": rows,
        "events_per_s": events / wall,
        "events_per_cpu_s": events / cpu,
        "cpu_us_per_event": 1e6 * cpu / events,
    }
    return figures, store


async def questions(store: Store, rounds: int = 7) -> dict[str, float]:
    """Median milliseconds of named queries."""
    guard = SqlGuard()
    engine = QueryEngine(store.source, Limits(), guard)
    taken: dict[str, float] = {}
    for name in QUERIES:
        query, times = catalog()[name], []
        for _ in range(rounds):
            begun = time.perf_counter()
            await engine.query(query.sql, query.bind({}), max_rows=100)
            times.append(1e3 * (time.perf_counter() - begun))
        taken[name] = statistics.median(times)
    engine.close()
    guard.close()
    return taken


async def main(requests: int) -> None:
    """Print the tables and write `build/bench_projection.json`."""
    results: dict[str, dict[str, float]] = {}
    print(f"{'candidates':>10} {'events':>9} {'rows':>9} {'events/s':>9} {'per CPU s':>10} {'us/event':>9}")
    with TemporaryDirectory() as folder:
        for candidates in (4, 8):
            figures, store = await ingest(requests, candidates, Path(folder))
            results[f"ingest, {candidates} candidates"] = figures
            print(
                f"{candidates:>10} {figures['events']:>9.0f} {figures['rows']:>9.0f}"
                f" {figures['events_per_s']:>9.0f} {figures['events_per_cpu_s']:>10.0f}"
                f" {figures['cpu_us_per_event']:>9.1f}"
            )
            if candidates == 8:
                begun = time.perf_counter()
                content(store.connection)
                hashed_ms = 1e3 * (time.perf_counter() - begun)
                results["queries, p50 ms"] = {"content hash": hashed_ms, **await questions(store)}
            store.close()
    print(f"goal: {GOAL_EVENTS_PER_CPU_S} events per CPU second\n")
    for name, taken_ms in results["queries, p50 ms"].items():
        print(f"{name:<20} {taken_ms:>8.1f} ms")
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "bench_projection.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
