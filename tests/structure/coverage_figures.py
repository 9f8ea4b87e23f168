"""Holds the branch coverage of all in-process suites to the house's figures, and every file to being seen at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
from test_house import PURE, ROOMS, ROOT  # noqa: E402

from suites import MARKER_VARIABLE  # noqa: E402

WHOLE_PERCENT = 95.0
PURE_PERCENT = 100.0
NEEDS_BROKER = ("events/log/kafka", "runtime/kafka_dev/", "estimator/faust_app.py")
"""Counted only where a broker was there to test with."""
WORST = 12


def measured() -> dict[str, Any]:
    """Coverage's own report of all processes together."""
    report = ROOT / "build" / "coverage.json"
    for command in (["combine", "-q"], ["json", "-q", "-o", str(report)]):
        subprocess.run([sys.executable, "-m", "coverage", *command], cwd=ROOT, check=True)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def sources() -> set[str]:
    """Files of ours that hold code."""
    return {
        str(path.relative_to(ROOT))
        for folder in ROOMS.values()
        for path in (ROOT / folder).rglob("*.py")
        if path.read_text().strip()
    }


def is_pure(name: str) -> bool:
    return any(
        name == f"{ROOMS[room]}/tidegate/{room}/{module}.py"
        for room, modules in PURE.items()
        for module in modules
    )


def holes(summary: Mapping[str, Any], file: Mapping[str, Any]) -> str:
    """Lines and branches that no test takes."""
    lines = ", ".join(map(str, file["missing_lines"])) or "none"
    branches = ", ".join(f"{a}→{b}" for a, b in file["missing_branches"]) or "none"
    return f"{summary['percent_covered']:.1f} %: lines {lines}; branches {branches}"


def percent(files: Mapping[str, Mapping[str, Any]]) -> float:
    """Lines and branches that tests take, of all that there are."""
    taken = there = 0
    for file in files.values():
        summary = file["summary"]
        taken += summary["covered_lines"] + summary["covered_branches"]
        there += summary["num_statements"] + summary["num_branches"]
    return 100.0 * taken / there


def counted(files: Mapping[str, Mapping[str, Any]], *, had_broker: bool) -> dict[str, Mapping[str, Any]]:
    """The files that the figure is of."""
    return {
        name: file
        for name, file in files.items()
        if had_broker or not any(f"/tidegate/{part}" in name for part in NEEDS_BROKER)
    }


def had_broker() -> bool:
    """No suite of this run has left a broker test out."""
    marker = os.environ.get(MARKER_VARIABLE)
    return marker is None or not Path(marker).exists() or not Path(marker).read_text().strip()


def faults(report: Mapping[str, Any]) -> list[str]:
    """What falls short of the figures."""
    files = report["files"]
    found = [f"never seen by coverage: {name}" for name in sorted(sources() - set(files))]
    found += [
        f"pure, so at least {PURE_PERCENT:g} %: {name} is at {holes(file['summary'], file)}"
        for name, file in sorted(files.items())
        if is_pure(name) and file["summary"]["percent_covered"] < PURE_PERCENT
    ]
    whole = percent(counted(files, had_broker=had_broker()))
    if whole < WHOLE_PERCENT:
        found.append(f"the whole is at {whole:.2f} %, {WHOLE_PERCENT:g} % are asked for")
    return found


def main() -> int:
    report = measured()
    files = report["files"]
    print(
        f"branch coverage: {report['totals']['percent_covered']:.2f} % of {len(files)} files; most missing in"
    )
    missing = {
        name: file["summary"]["missing_lines"] + file["summary"]["missing_branches"]
        for name, file in files.items()
    }
    for name in sorted(missing, key=lambda name: -missing[name])[:WORST]:
        print(f"{missing[name]:>5} {files[name]['summary']['percent_covered']:>6.1f} % {name}")
    found = faults(report)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
