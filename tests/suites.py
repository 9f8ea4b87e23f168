"""Runs the suites, two at a time where they allow it, and prints what each took: `python tests/suites.py test|nightly|agents|check|bench|fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header"]
COVERED = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", "--no-header"]
NOT_NIGHTLY = ["-m", "not nightly"]
MARKER_VARIABLE = "TIDEGATE_BROKER_MARKER"
"""Names the file that every suite adds a line to for each reason why a broker test did not run."""
REQUIRE_VARIABLE = "TIDEGATE_REQUIRE_KAFKA"


class Place(Enum):
    """Beside what a suite may run. Machines have two cores at least."""

    ONE_THREAD = "beside any other suite: it is one busy thread"
    PROCESSES = "beside suites of one thread: it starts processes, which need a core together"
    ALONE = "beside nothing: it measures, or needs what the others leave"


class Suite(NamedTuple):
    """One line of the table."""

    name: str
    command: list[str]
    place: Place = Place.ONE_THREAD


def tool(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


def covered(*places: str) -> list[str]:
    """Tests that run in one process, and count for the coverage of the whole."""
    return [*COVERED, *NOT_NIGHTLY, *places]


CHECK = [
    Suite("ruff", tool("ruff", "check", ".")),
    Suite("format", tool("ruff", "format", "--check", ".")),
    Suite("mypy", tool("mypy")),
    Suite("basedpyright", tool("basedpyright")),
    Suite("imports", tool("lint-imports", "--no-cache")),
]
TEST = [
    # The longest first: the lanes then end at about the same time.
    Suite("end to end", [*PYTEST, *NOT_NIGHTLY, "tests/e2e"], Place.PROCESSES),
    Suite("kafka", covered("tests/kafka"), Place.PROCESSES),
    Suite("crash", [*PYTEST, *NOT_NIGHTLY, "tests/crash"], Place.PROCESSES),
    Suite("unit", covered("tests/unit")),
    *CHECK,
    Suite("contract", covered("tests/contract")),
    # Measured, it would take twice as long, and reaches nothing that the others do not.
    Suite("simulation", [*PYTEST, *NOT_NIGHTLY, "tests/simulation"]),
    Suite("security", covered("tests/security")),
    # So would what reads the tree and runs little of it.
    Suite("structure", [*PYTEST, *NOT_NIGHTLY, "tests/structure"]),
    Suite("wheel", [sys.executable, "tests/structure/built_wheel.py"]),
    Suite("coverage", [sys.executable, "tests/structure/coverage_figures.py"], Place.ALONE),
]
NIGHTLY = [
    Suite(
        f"nightly {name}",
        [*PYTEST, "-o", "faulthandler_timeout=3600", "-m", "nightly", f"tests/{name}"],
        place,
    )
    for name, place in {
        "kafka": Place.PROCESSES,
        "e2e": Place.PROCESSES,
        "crash": Place.PROCESSES,
        "agents": Place.PROCESSES,
        "contract": Place.ONE_THREAD,
        "unit": Place.ONE_THREAD,
        "simulation": Place.ONE_THREAD,
        "bench": Place.ONE_THREAD,
        "fuzz": Place.ALONE,
    }.items()
]
AGENTS = [Suite("agents", [*PYTEST, "tests/agents"], Place.ALONE)]
FUZZ = [suite for suite in NIGHTLY if suite.name == "nightly fuzz"]
"""A part of the night, by itself: ten minutes for each parser, two at a time."""
BENCH = [
    Suite(path.stem, [sys.executable, str(path)], Place.ALONE)
    for path in sorted((ROOT / "tests" / "bench").glob("bench_*.py"))
]
PLANS = {"check": CHECK, "test": TEST, "nightly": NIGHTLY, "agents": AGENTS, "bench": BENCH, "fuzz": FUZZ}


class Row(NamedTuple):
    """What became of a suite."""

    name: str
    result: str
    took_s: float


def missing(suite: Suite) -> list[str]:
    """Places that the suite names and that hold no test: it would pass by testing nothing."""
    places = [word for word in suite.command if word.startswith("tests/")]
    return [
        place for place in places if not ((ROOT / place).is_file() or any((ROOT / place).rglob("test_*.py")))
    ]


def run(suite: Suite, variables: Mapping[str, str]) -> Row:
    """Run one suite to its end. What runs beside others is shown whole when it has ended."""
    alone = suite.place is Place.ALONE
    nowhere = missing(suite)
    if nowhere:
        tell(f"\n=== {suite.name}\nthere is no test in {', '.join(nowhere)}")
        return Row(suite.name, "missing", 0.0)
    if alone:
        tell(f"\n=== {suite.name}")
    began = time.monotonic()
    done = subprocess.run(
        suite.command,
        cwd=ROOT,
        env={**os.environ, **variables},
        check=False,
        stdout=None if alone else subprocess.PIPE,
        stderr=None if alone else subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    took_s = time.monotonic() - began
    if not alone:
        tell(f"\n=== {suite.name}\n{done.stdout.rstrip()}")
    return Row(suite.name, "ok" if done.returncode == 0 else f"exit {done.returncode}", took_s)


def tell(text: str) -> None:
    print(text, flush=True)


def taken_from(waiting: deque[Suite]) -> Iterator[Suite]:
    """One after another, while others may take from it too."""
    while True:
        try:
            yield waiting.popleft()
        except IndexError:
            return


def run_all(suites: Sequence[Suite], variables: Mapping[str, str]) -> list[Row]:
    """Rows in the order of the suites; neighbours that are not `ALONE` share two lanes."""
    rows: dict[str, Row] = {}

    def lane(*waiting: deque[Suite]) -> None:
        for suite in chain.from_iterable(map(taken_from, waiting)):
            rows[suite.name] = run(suite, variables)

    for alone, group in groupby(suites, lambda suite: suite.place is Place.ALONE):
        neighbours = list(group)
        processes = deque(each for each in neighbours if each.place is Place.PROCESSES)
        others = deque(each for each in neighbours if each.place is not Place.PROCESSES)
        with ThreadPoolExecutor(2) as lanes:
            # Only the first lane starts processes: two such suites at once would be slower, and less alike.
            ended = [lanes.submit(lane, processes, others)]
            ended += [] if alone else [lanes.submit(lane, others)]
        for each in ended:
            each.result()
    return [rows[suite.name] for suite in suites]


def main(suites: Sequence[Suite], build: Path) -> int:
    """Run all, whatever fails; the last line tells when the broker was not tested. Returns the exit code."""
    build.mkdir(exist_ok=True)
    marker = build / "broker-not-tested"
    marker.unlink(missing_ok=True)
    for old in build.glob("coverage.*"):
        old.unlink()
    began = time.monotonic()
    rows = run_all(suites, {MARKER_VARIABLE: str(marker)})
    print(f"\n{'suite':<28}{'result':>8}{'seconds':>10}")
    for row in rows:
        print(f"{row.name:<28}{row.result:>8}{row.took_s:>10.1f}")
    failed = sum(row.result != "ok" for row in rows)
    print(f"{'all, two at a time':<28}{'':>8}{time.monotonic() - began:>10.1f}")
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    reasons = list(dict.fromkeys(marker.read_text().splitlines())) if marker.exists() else []
    if reasons:
        print(f"BROKER NOT TESTED: {'; '.join(reasons)}")
        # A test that skips although the broker was required is a fault of the test's support.
        failed += os.environ.get(REQUIRE_VARIABLE) == "1"
    sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PLANS:
        sys.exit(f"usage: suites.py {'|'.join(PLANS)}")
    sys.exit(main(PLANS[sys.argv[1]], ROOT / "build"))
