"""The report of forecasts: its scores are those of the rows, and its page needs nothing but itself."""

import re
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from support.forecast_history import LENGTH_NS, POOL, Told
from support.history import History, S
from support.read_model import LIMITS, dicts, filled
from tidegate.analytics.forecast_page import MAX_ROWS, forecast_page, periods
from tidegate.analytics.reports import Asked, Report, report
from tidegate.projections.readonly import open_read_only

PERIODS = 12


@pytest.fixture(name="model")
async def _model(tmp_path: Path) -> Path:
    await filled(tmp_path / "m.duckdb", Told(History()).periods(PERIODS).history)
    return tmp_path / "m.duckdb"


async def asked(model: Path, since_ns: int | None = None) -> Report:
    async with open_read_only(model, LIMITS) as source:
        return await report(source, "forecast", Asked(since_ns=since_ns), max_rows=MAX_ROWS)


def rows_of(found: Report) -> dict[str, list[dict[str, Any]]]:
    return {section.query: section.result.records() for section in found.sections}


async def test_scores_are_those_of_the_forecasts_beside_what_happened(model: Path) -> None:
    told = dicts(model, "SELECT * FROM v_forecasts")
    decided = [row for row in told if row["exhausted"] is not None]
    rate = fmean(row["exhausted"] for row in decided)
    assert 0.2 < rate < 0.8, "the history decides both ways"
    by_tenth: dict[int, list[float]] = {}
    for row in decided:
        by_tenth.setdefault(min(int(row["p_exhaust"] * 10), 9), []).append(
            row["p_exhaust"] - row["exhausted"]
        )
    held = [
        min(row["remaining_p10"], most) <= rest <= row["remaining_p90"]
        for row in decided
        if row["remaining_p10"] is not None
        for rest, most in [(row["final_used"] - row["used"], row["quota_limit"] - row["used"])]
    ]
    everything, own = rows_of(await asked(model))["forecast_scores"]
    assert (everything["pool"], own["pool"]) == ("all", POOL)
    assert everything["brier"] == own["brier"]
    assert (own["forecasts"], own["decided"]) == (len(told), len(decided))
    assert own["exhausted"] == sum(row["exhausted"] for row in decided)
    assert own["brier"] == pytest.approx(fmean((row["p_exhaust"] - row["exhausted"]) ** 2 for row in decided))
    assert own["base_rate_brier"] == pytest.approx(rate * (1 - rate))
    assert own["ece"] == pytest.approx(sum(abs(sum(errors)) for errors in by_tenth.values()) / len(decided))
    assert own["held_80"] == pytest.approx(fmean(held))
    kept, dry = (
        [row["will_exhaust"] for row in decided if row["exhausted"] is came] for came in (False, True)
    )
    assert own["false_alarms"] == pytest.approx(fmean(kept))
    assert own["missed"] == pytest.approx(1 - fmean(dry))
    assert 0 < own["false_alarms"] < 1
    assert own["intervals"] == len(held)


async def test_each_window_has_its_lead_from_the_first_forecast_that_foresaw_it(model: Path) -> None:
    rows = rows_of(await asked(model))
    windows, path = rows["forecast_windows"], rows["forecast_path"]
    assert len(windows) == PERIODS + 1
    assert windows[0]["exhausted"] is None, "the last window is open"
    assert {row["exhausted"] for row in windows[1:]} == {True, False}
    for window in windows:
        own = [row for row in path if row["period"] == window["period"]]
        first = min((row["believed_ns"] for row in own if row["will_exhaust"]), default=None)
        dry = own[0]["exhausted_ns"]
        if first is None or dry is None:
            assert window["lead_minutes"] is None
        else:
            assert window["lead_minutes"] == pytest.approx((dry - first) / 60e9)


async def test_since_narrows_every_section(model: Path) -> None:
    (newest,) = dicts(model, "SELECT max(believed_ns) AS ns FROM v_forecasts")
    since_ns = newest["ns"] - 2 * LENGTH_NS
    whole, late = rows_of(await asked(model)), rows_of(await asked(model, since_ns))
    assert all(row["believed_ns"] >= since_ns for row in late["forecast_path"])
    for name in ("forecast_windows", "forecast_path"):
        assert 0 < len(late[name]) < len(whole[name]), name
    for name in ("forecast_scores", "forecast_reliability"):
        assert 0 < sum(row["forecasts"] for row in late[name]) < sum(row["forecasts"] for row in whole[name])


async def test_the_page_is_one_file_without_script_or_address_and_its_pictures_are_well_formed(
    model: Path,
) -> None:
    text = forecast_page(await asked(model))
    assert not re.search(r"https?:|<script|src=|url\(", text)
    pictures = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(pictures) == 3 + 2 * (PERIODS + 1)
    for picture in pictures:
        for mark in picture.iter("polyline"):
            assert mark.get("points"), "every line has points"
    assert f"{POOL} 10m, opened" in text
    assert "ran dry at" in text
    assert "nan" not in text.lower()


async def test_a_page_of_nothing_says_so_with_the_same_sections(tmp_path: Path) -> None:
    await filled(tmp_path / "m.duckdb", History())
    text = forecast_page(await asked(tmp_path / "m.duckdb"))
    assert re.findall("<h2>(.*?)</h2>", text) == [
        "Reliability", "Coverage", "Lead times", "By window", "Windows",
    ]  # fmt: skip


async def test_names_from_a_config_cannot_write_markup(model: Path) -> None:
    found = await asked(model)
    for section in found.sections:
        if "pool" in section.result.columns:
            at = section.result.columns.index("pool")
            for row in section.result.rows:
                row[at] = "<b>&evil"
    text = forecast_page(found)
    assert "<b>&evil" not in text
    assert "&lt;b&gt;&amp;evil" in text


async def test_a_window_is_drawn_from_its_opening_to_its_reset(model: Path) -> None:
    found = periods(rows_of(await asked(model))["forecast_path"])
    assert len(found) == PERIODS + 1
    for period in found:
        assert period.length_s == LENGTH_NS / S
        times = [moment.at_s for moment in period.moments]
        assert times == sorted(times)
        assert period.dry_s is None or times[-1] < period.dry_s <= period.length_s
