"""The page on forecasts tells the figures of the recorded run, and no others."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "forecasts.md"
RECORDED = Path(__file__).with_name("recorded.json")
_ROW = re.compile(r"^\| (?P<what>[^|]+) \| `(?P<figure>[^`]+)` \| (?P<value>[\d.]+) \|$", re.MULTILINE)
LEAST = 50


def recorded(figure: str) -> float:
    found: Any = json.loads(RECORDED.read_text())
    for part in figure.split("/"):
        found = found[part]
    return float(found)


def test_every_figure_told_is_the_recorded_one() -> None:
    rows = list(_ROW.finditer(PAGE.read_text()))
    assert len(rows) > LEAST
    for row in rows:
        digits = len(row["value"].partition(".")[2])
        assert f"{recorded(row['figure']):.{digits}f}" == row["value"], row["figure"]


def test_every_row_of_a_table_on_the_page_names_its_figure() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    others = [line for line in lines if not _ROW.match(line) and not line.startswith(("| what |", "| --- |"))]
    assert others == []


def test_the_recorded_figures_keep_their_bounds() -> None:
    assert recorded("servegen_fixed_brier") <= 0.087
    assert recorded("servegen_fixed_relative") <= 0.205
    assert recorded("servegen_ece") <= 0.03
    assert 0.77 <= recorded("coverage_80") <= 0.84
    assert 0.87 <= recorded("coverage_90") <= 0.93
    assert recorded("recall_30min") >= 0.76
    assert recorded("azure_won") == 6
    for row in json.loads(RECORDED.read_text())["tables"]["first request, published"].values():
        assert row["hurdle"] < row["base rate"]
