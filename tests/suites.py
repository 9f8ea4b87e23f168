"""Runs the suites one after another and prints what each took: `python tests/suites.py test|nightly|check|bench`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header"]
COVERED = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", "--no-header"]
NOT_NIGHTLY = ["-m", "not nightly"]


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


def run(suite: Suite) -> tuple[int, float]:
    print(f"\n=== {suite.name}", flush=True)
    began = time.monotonic()
    code = subprocess.run(suite.command, cwd=ROOT, check=False).returncode
    return code, time.monotonic() - began


def main(plan: str) -> int:
    (ROOT / "build").mkdir(exist_ok=True)
    marker = ROOT / "build" / "broker-not-tested"
    marker.unlink(missing_ok=True)
    os.environ["TIDEGATE_BROKER_MARKER"] = str(marker)
    rows: list[tuple[str, int, float]] = []
    for suite in PLANS[plan]:
        folder = ROOT / suite.command[-1]
        if suite.command[-1].startswith("tests/") and not (folder.is_file() or any(folder.glob("test_*.py"))):
            continue
        code, took = run(suite)
        rows.append((suite.name, code, took))
    print(f"\n{'suite':<28}{'result':>8}{'seconds':>10}")
    for name, code, took in rows:
        print(f"{name:<28}{'ok' if code == 0 else f'exit {code}':>8}{took:>10.1f}")
    failed = sum(code != 0 for _, code, _ in rows)
    print(f"{'total':<28}{'':>8}{sum(took for _, _, took in rows):>10.1f}")
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    if marker.exists():
        print(f"BROKER NOT TESTED: {marker.read_text().strip()}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PLANS:
        sys.exit(f"usage: suites.py {'|'.join(PLANS)}")
    sys.exit(main(sys.argv[1]))
