"""The floors of coverage: what falls short is named, and what only a broker reaches counts only with one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import coverage_figures as figures

PURE_FILE = "services/planner/tidegate/planner/decide.py"
KAFKA_FILE = "services/events/tidegate/events/log/kafka.py"


def file(covered: int, missing: int) -> dict[str, Any]:
    summary = {
        "covered_lines": covered,
        "num_statements": covered + missing,
        "covered_branches": 0,
        "num_branches": 0,
        "percent_covered": 100.0 * covered / (covered + missing),
    }
    return {"summary": summary, "missing_lines": [7] * missing, "missing_branches": []}


def report(**changes: dict[str, Any]) -> dict[str, Any]:
    return {"files": {name: file(1_000, 0) for name in figures.sources()} | changes}


def test_a_tree_that_is_covered_has_no_faults() -> None:
    assert figures.faults(report()) == []


def test_a_file_that_no_test_ever_saw_is_named() -> None:
    found = report()
    del found["files"][PURE_FILE]
    assert figures.faults(found) == [f"never seen by coverage: {PURE_FILE}"]


def test_one_line_of_a_pure_module_that_no_test_takes_is_a_fault() -> None:
    (said,) = figures.faults(report(**{PURE_FILE: file(999, 1)}))
    assert said == f"pure, so at least 100 %: {PURE_FILE} is at 99.9 %: lines 7; branches none"


@pytest.mark.parametrize(("skipped", "faults"), [("", 1), ("no Maven\n", 0)])
def test_what_only_a_broker_reaches_counts_where_none_was_left_out(
    skipped: str, faults: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    monkeypatch.setenv(figures.MARKER_VARIABLE, str(marker))
    if skipped:
        marker.write_text(skipped)
    assert len(figures.faults(report(**{KAFKA_FILE: file(0, 10**6)}))) == faults
