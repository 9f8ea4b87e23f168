"""Runs the suites one after another and prints what each took: `python tests/suites.py test|nightly|check|bench`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
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


class Suite(NamedTuple):
    """One line of the table."""

    name: str
    command: list[str]


def tool(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


CHECK = [
    Suite("ruff", tool("ruff", "check", ".")),
    Suite("format", tool("ruff", "format", "--check", ".")),
    Suite("mypy", tool("mypy")),
    Suite("basedpyright", tool("basedpyright")),
    Suite("imports", tool("lint-imports", "--no-cache")),
]
TEST = [
    *CHECK,
    Suite("unit, structure", [*COVERED, *NOT_NIGHTLY, "tests/unit", "tests/structure"]),
    Suite("coverage", [sys.executable, "tests/structure/every_file_is_covered.py"]),
    Suite("contract", [*PYTEST, *NOT_NIGHTLY, "tests/contract"]),
    Suite("security", [*PYTEST, *NOT_NIGHTLY, "tests/security"]),
    Suite("simulation", [*PYTEST, *NOT_NIGHTLY, "tests/simulation"]),
    Suite("kafka", [*PYTEST, *NOT_NIGHTLY, "tests/kafka"]),
    Suite("end to end", [*PYTEST, *NOT_NIGHTLY, "tests/e2e"]),
    Suite("crash", [*PYTEST, *NOT_NIGHTLY, "tests/crash"]),
    Suite("wheel", [sys.executable, "tests/structure/built_wheel.py"]),
]
NIGHTLY = [Suite("nightly", [*PYTEST, "-m", "nightly", "tests"])]
BENCH = [
    Suite(path.stem, [sys.executable, str(path)])
    for path in sorted((ROOT / "tests" / "bench").glob("bench_*.py"))
]
PLANS = {"check": CHECK, "test": TEST, "nightly": NIGHTLY, "bench": BENCH}


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
    """Run one suite to its end."""
    print(f"\n=== {suite.name}", flush=True)
    nowhere = missing(suite)
    if nowhere:
        print(f"there is no test in {', '.join(nowhere)}", flush=True)
        return Row(suite.name, "missing", 0.0)
    began = time.monotonic()
    code = subprocess.run(suite.command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode
    return Row(suite.name, "ok" if code == 0 else f"exit {code}", time.monotonic() - began)


def main(suites: Sequence[Suite], build: Path) -> int:
    """Run all, whatever fails; the last line tells when the broker was not tested. Returns the exit code."""
    build.mkdir(exist_ok=True)
    marker = build / "broker-not-tested"
    marker.unlink(missing_ok=True)
    rows = [run(suite, {MARKER_VARIABLE: str(marker)}) for suite in suites]
    print(f"\n{'suite':<28}{'result':>8}{'seconds':>10}")
    for row in rows:
        print(f"{row.name:<28}{row.result:>8}{row.took_s:>10.1f}")
    failed = sum(row.result != "ok" for row in rows)
    print(f"{'total':<28}{'':>8}{sum(row.took_s for row in rows):>10.1f}")
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
