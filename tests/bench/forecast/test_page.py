"""The bench's page: one file, every figure of the run in it."""

import re
from typing import Any
from xml.etree import ElementTree as ET

from bench.forecast.page import bench_page
from bench.forecast.questions import PLACES

ROW = {"gain": 0.02, "gain_low": 0.01, "gain_high": 0.03}
OURS = {"gain": 0.0, "gain_low": 0.0, "gain_high": 0.0}
EXAMPLE = {
    "name": "m-large/3, window 4 of week two",
    "limit": 1_000.0,
    "length_s": 18_000.0,
    "moments": [(1_800.0 * k, 90.0 * k, 0.1 * k, [50.0, 80.0, 400.0, 900.0, 1_200.0]) for k in range(1, 9)],
    "final_used": 1_000.0,
    "dry_s": 15_600.0,
}


def result(**more: Any) -> dict[str, Any]:
    clients = {"hurdle": OURS, "ewma, calibrated": ROW, "uvi yes/no": ROW}
    return {
        "servegen_fixed_brier": 0.0799,
        "recall_30min": 0.7725,
        "coverage_50": 0.51,
        "coverage_80": 0.81,
        "coverage_90": 0.9,
        "tables": {
            **dict.fromkeys(("all clients", "even clients", "odd clients"), clients),
            "azure": {"conv 1": {"hurdle": 0.1, "uvi": 0.14}},
            "first request": {"requests": {"hurdle": 0.07, "base rate": 0.1}},
            "first request, published": {"requests untaught": {"hurdle": 0.08, "base rate": 0.1}},
            "percent only": {"outside 0%": {"median_error": 0.02}},
        },
        "by_place": [0.3 - 0.02 * k for k in range(len(PLACES))],
        "reliability": [(0.05, 0.04, 900), (0.5, 0.52, 100), (0.95, 0.97, 300)],
        "leads_min": [30.0, 100.0, 100.0, 210.0],
        "examples": [EXAMPLE, {**EXAMPLE, "dry_s": None, "final_used": 700.0}],
        **more,
    }


def test_the_page_is_one_file_and_its_pictures_are_well_formed() -> None:
    text = bench_page(result())
    assert not re.search(r"https?:|<script|src=|url\(", text)
    pictures = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(pictures) == 2 + 2 + 3 + 2 * 2
    assert all(mark.get("points") for picture in pictures for mark in picture.iter("polyline"))


def test_baselines_have_their_intervals_and_ours_is_what_they_are_held_against() -> None:
    text = bench_page(result())
    assert text.count("ewma, calibrated: 0.0200 [0.0100, 0.0300]") == 3
    assert "hurdle: 0.0" not in text


def test_what_was_not_run_is_not_told() -> None:
    assert "hindsight" not in bench_page(result())
    assert "95.1%" in bench_page(result(hindsight_saving_agents=0.951))
