"""The forecasts on recorded traffic: the merit the models must keep."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.forecast.run import figures
from bench.forecast.traffic import shared_folder
from support.shared_data import shared_data

pytestmark = pytest.mark.nightly


@cache
def _figures() -> dict[str, Any]:
    shared_data("data/servegen")
    folder = shared_folder()
    assert folder is not None
    return figures(folder)


def test_fixed_and_relative_quotas_are_foreseen_better_than_by_any_baseline() -> None:
    found = _figures()
    assert found["servegen_fixed_brier"] <= 0.081
    assert found["servegen_fixed_relative"] <= 0.200
    assert found["servegen_ece"] <= 0.03
    for table in ("all clients", "even clients", "odd clients"):
        for name, row in found["tables"][table].items():
            assert name.startswith("hurdle") or row["gain_low"] > 0, (table, name)


def test_intervals_hold_what_they_promise() -> None:
    assert 0.77 <= _figures()["coverage_80"] <= 0.84
    assert 0.87 <= _figures()["coverage_90"] <= 0.93


def test_exhaustions_are_announced_early() -> None:
    assert _figures()["recall_30min"] >= 0.76
    assert _figures()["lead_in_time_min"] >= 90, "the lead of the windows announced half an hour ahead"
    assert _figures()["lead_min"] >= 75, (
        "that of all that are announced, to the earliest moment of running dry"
    )


def test_every_azure_setting_is_won() -> None:
    assert _figures()["azure_won"] == 6


def test_windows_that_open_with_a_first_request_are_foreseen_better_than_by_the_base_rate() -> None:
    for row in _figures()["tables"]["first request"].values():
        assert row["hurdle"] < row["base rate"]
        assert row["hurdle"] < min(row["uvi, calibrated"], row["ewma, calibrated"])
    assert _figures()["first_request_brier"] <= 0.135


def test_what_is_published_of_them_is_never_worse_than_the_base_rate_taught_or_not() -> None:
    for label, row in _figures()["tables"]["first request, published"].items():
        assert row["hurdle"] < row["base rate"], label
        assert row["hurdle"] <= 0.135, label


def test_bars_of_a_capacity_hold_what_they_promise() -> None:
    for label, row in _figures()["tables"]["percent only"].items():
        alone = (
            label == "outside 0%"
        )  # the truth is the least capacity that the reports allow: bars all hold it
        assert 0.77 <= row["cover_80"] <= (1.0 if alone else 0.83), label
        assert 0.87 <= row["cover_90"] <= (1.0 if alone else 0.93), label
        assert row["cover_90_odd"] >= 0.87, label
        assert row["median_sd"] <= (0.02 if alone else 0.09), label


def test_a_capacity_is_found_about_as_often_as_an_efficient_estimate_would() -> None:
    for label, row in _figures()["tables"]["percent only"].items():
        assert row["median_error"] < 0.04, label
        assert row["within_5_percent"] > row["cramer_rao_within"] - 0.03, label
        assert row["within_odd"] > row["within_even"] - 0.05, label
        assert row["within_after_4"] > 0.75, label
        assert row["cover_90_after_4"] > 0.8, label


def test_a_capacity_is_found_in_one_window_where_the_reports_determine_it() -> None:
    told = _figures()["tables"]["percent only"]
    assert told["outside 0%"]["within_5_percent"] > 0.95
    for row in told.values():
        assert row["determined"] > 50
        assert row["within_where_determined"] > 0.85


def _same(found: Any, recorded: Any, where: str) -> None:
    if isinstance(recorded, dict):
        for name, part in recorded.items():
            _same(found[name], part, f"{where}/{name}")
    else:
        assert found == pytest.approx(recorded, abs=2e-3), where


def test_the_recorded_run_is_what_a_run_finds_now() -> None:
    kept = json.loads(Path(__file__).with_name("recorded.json").read_text())
    kept.pop("speed")
    _same(_figures(), kept, "")
