"""Forecasts on recorded traffic, beside tuned baselines: `make bench-forecast` [FORECAST="--without-hindsight"].

Prints what the issue asks to be shown, and writes build/forecast.json: the headline figures, the tables, and the
reliability curve; and build/forecast.html, the same with plots. ServeGen: arXiv 2505.09999; Azure: Splitwise, ISCA 2024; sessions: kv-cache-tester.
"""

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from bench.forecast import azure, first_request, first_request_live, percent, servegen, speed  # noqa: E402
from bench.forecast.page import bench_page, examples  # noqa: E402
from bench.forecast.traffic import servegen as servegen_traffic  # noqa: E402
from bench.forecast.traffic import shared_folder  # noqa: E402

_SHOWN = ("fixed", "relative", "ece", "auc", "recall_30min", "lead_min", "gain", "gain_low", "gain_high")
EWMA = "ewma, calibrated"


def figures(folder: Path) -> dict[str, Any]:
    """Everything but the hindsight share."""
    found = servegen.evaluate(servegen_traffic(folder))
    tables = {
        "all clients": servegen.table(found),
        "even clients": servegen.table(found, 0),
        "odd clients": servegen.table(found, 1),
    }
    ours, spread = tables["all clients"]["hurdle"], servegen.distribution(found)
    on_azure, on_first = azure.settings(folder), first_request.settings(folder)
    live_first = first_request_live.settings(folder)
    told = percent.settings(found.traffic)
    return {
        "servegen_fixed_brier": ours["fixed"],
        "servegen_fixed_all_windows_brier": found.every_brier,
        "servegen_fixed_relative": ours["relative"],
        "servegen_ece": ours["ece"],
        **spread,
        **servegen.alarms(found.traffic, found.quota),
        "gain_over_ewma_even": tables["even clients"][EWMA]["gain_low"],
        "gain_over_ewma_odd": tables["odd clients"][EWMA]["gain_low"],
        "azure_won": azure.won(on_azure),
        "first_request_brier": max(row["hurdle"] for unit, row in on_first.items() if " " not in unit),
        "first_request_live_brier": max(row["hurdle"] for unit, row in on_first.items() if " " in unit),
        "first_request_published_brier": max(row["hurdle"] for row in live_first.values()),
        "percent_within_5_percent": min(row["within_5_percent"] for row in told.values()),
        "percent_within_where_determined": min(row["within_where_determined"] for row in told.values()),
        "percent_cover_80": min(row["cover_80"] for row in told.values()),
        "percent_cover_90": min(row["cover_90"] for row in told.values()),
        "speed": speed.figures(),
        "tables": {
            **tables,
            "bounds": {
                "fixed": servegen.bounds(found.traffic, found.facts, found.fixed, found.marks["hurdle"].fixed)
            },
            "azure": on_azure,
            "first request": on_first,
            "first request, published": live_first,
            "percent only": told,
        },
        "by_place": servegen.by_place(found),
        "reliability": _reliability(found),
        "examples": examples(found),
    }


def _reliability(found: servegen.Evaluation) -> list[tuple[float, float, int]]:
    """Mean forecast, frequency and count, per tenth of probability; fixed quota."""
    p, outcome = found.marks["hurdle"].fixed, found.fixed.outcome
    tenth = np.minimum((p * 10).astype(np.int64), 9)
    return [
        (float(p[tenth == k].mean()), float(outcome[tenth == k].mean()), int(np.count_nonzero(tenth == k)))
        for k in range(10)
        if np.any(tenth == k)
    ]


def show(result: dict[str, Any]) -> None:
    for label in ("all clients", "even clients", "odd clients"):
        print(f"\nServeGen, {label}, week 2; gain = its Brier less ours, fixed quota, 95 % over clients")
        print(f"{'':28}" + "".join(f"{name:>13}" for name in _SHOWN))
        for name, row in result["tables"][label].items():
            print(f"{name:28}" + "".join(f"{row[key]:13.4f}" for key in _SHOWN))
    for label in ("azure", "first request", "first request, published", "percent only"):
        print(f"\n{label}")
        for name, row in result["tables"][label].items():
            print(f"{name:20}" + ", ".join(f"{key} {value:.4f}" for key, value in row.items()))
    print()
    for key, value in result.items():
        if isinstance(value, int | float):
            print(f"{key:36}{value:10.4f}")
    for key, value in result["speed"].items():
        print(f"{key:36}{value:10.3f}")


def hindsight() -> dict[str, float]:
    """Share of the hindsight saving, where that part of the bench is there."""
    if find_spec("bench.forecast.hindsight") is None:
        return {}
    found: dict[str, float] = import_module("bench.forecast.hindsight").run()
    return found


def _store(result: dict[str, Any]) -> None:
    out = ROOT / "build"
    out.mkdir(exist_ok=True)
    (out / "forecast.json").write_text(json.dumps(result, indent=2) + "\n")
    (out / "forecast.html").write_text(bench_page(result), encoding="utf-8")


def main(arguments: list[str]) -> int:
    folder = shared_folder()
    if folder is None:
        print("no recorded data: set TIDEGATE_SHARED or put a folder `shared` beside the repository")
        return 2
    result = figures(folder)
    show(result)
    _store(result)
    if "--without-hindsight" not in arguments:  # minutes: the rest is safe before
        saved = hindsight()
        for name, share in saved.items():
            print(f"{name:<48}{share:8.4f}")
        _store(result | saved)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
