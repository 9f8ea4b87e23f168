"""The report `forecast` as a page: scores, reliability, coverage, lead times, and the fan of each window. Pure."""

from collections.abc import Iterable
from typing import Any

from tidegate.analytics import forecast_plots as plots
from tidegate.analytics.page import figure, page, section, table, tiles
from tidegate.analytics.reports import Report

MAX_ROWS = 10_000
"""Forecasts that a page is made of, the newest; as many as a read model gives at once."""
MAX_WINDOWS = 24
"""Windows whose fan is drawn, the newest."""
_UNKNOWN = "–"
_Row = dict[str, Any]


def forecast_page(report: Report) -> str:
    """From the report's four sections, fetched with up to MAX_ROWS rows each."""
    rows = {section.query: section.result.records() for section in report.sections}
    scores, windows = rows["forecast_scores"], rows["forecast_windows"]
    found = periods(rows["forecast_path"])
    parts = [
        tiles(_headline(scores[0])) if scores else "",
        _reliability(rows["forecast_reliability"]),
        _coverage(scores),
        _leads(windows),
        _scores(scores),
        _fans(found),
    ]
    return page(
        "Forecasts beside what happened",
        "P(runs dry) is the chance that a quota window is used up before its reset. Of all forecasts of a window one "
        "counts for each thirtieth of its length; one of a window that is still open counts once it is decided.",
        parts,
    )


def periods(path: list[_Row]) -> list[plots.Period]:
    """The windows of `forecast_path`, the newest first."""
    grouped: dict[tuple[str, str, int], list[_Row]] = {}
    for row in path:
        grouped.setdefault((row["pool"], row["window_id"], row["period"]), []).append(row)
    return [_period(rows[::-1]) for rows in grouped.values()]


def _period(rows: list[_Row]) -> plots.Period:
    last = rows[-1]
    start_ns = min(row["period_start_ns"] for row in rows)
    dry_ns = last["exhausted_ns"]
    return plots.Period(
        name=f"{last['pool']} {last['window_id']}, opened {_opened(last)}",
        length_s=(last["resets_at_ns"] - start_ns) / 1e9,
        limit=last["quota_limit"],
        moments=tuple(
            plots.Moment(
                (row["believed_ns"] - start_ns) / 1e9, row["used"], row["p_exhaust"], _remaining(row)
            )
            for row in rows
        ),
        final_used=last["final_used"],
        dry_s=None if dry_ns is None else (dry_ns - start_ns) / 1e9,
    )


def _opened(row: _Row) -> str:
    return str(row["opened_at"])[:19].replace("T", " ")


def _remaining(row: _Row) -> tuple[float, ...]:
    found = tuple(row[f"remaining_{level}"] for level in plots.LEVELS)
    return () if None in found else found


def _headline(row: _Row) -> Iterable[tuple[str, str]]:
    return (
        ("forecasts decided", f"{row['decided']} of {row['forecasts']}"),
        ("Brier score", _number(row["brier"])),
        ("the base rate's", _number(row["base_rate_brier"])),
        ("calibration error", _number(row["ece"])),
        ("false alarms", _share(row["false_alarms"])),
        ("missed", _share(row["missed"])),
        ("80 % intervals held", _share(row["held_80"])),
        ("90 % intervals held", _share(row["held_90"])),
    )


def _reliability(rows: list[_Row]) -> str:
    points = [plots.Reliability(row["mean_p"], row["frequency"], row["forecasts"]) for row in rows]
    cells = [
        (
            f"{row['said_from']:.1f}–{row['said_to']:.1f}",
            str(row["forecasts"]),
            _number(row["mean_p"]),
            _number(row["frequency"]),
        )
        for row in rows
    ]
    return section(
        "Reliability",
        "On the dashed line, what was said with a chance of 70 % came true in 70 % of cases.",
        figure(plots.reliability(points)),
        table(("P said", "forecasts", "mean", "came true"), cells),
    )


def _coverage(scores: list[_Row]) -> str:
    held = [] if not scores else [(0.8, scores[0]["held_80"]), (0.9, scores[0]["held_90"])]
    return section(
        "Coverage",
        "Intervals of the use still to come, up to the limit: how many held what came.",
        figure(plots.coverage([(promised, share) for promised, share in held if share is not None])),
        table(
            ("window", "intervals", "80 %", "90 %"),
            [(_name(row), str(row["intervals"]), _share(row["held_80"]), _share(row["held_90"])) for row in scores],
        ),
    )  # fmt: skip


def _leads(windows: list[_Row]) -> str:
    dry = [row for row in windows if row["exhausted"]]
    leads = [row["lead_minutes"] for row in dry if row["lead_minutes"] is not None]
    return section(
        "Lead times",
        f"{len(leads)} of {len(dry)} windows that ran dry were foreseen: from the first time it was said to the "
        "moment the quota was gone.",
        figure(plots.lead_times(leads)),
    )


def _scores(scores: list[_Row]) -> str:
    cells = [
        (
            _name(row),
            *(str(row[count]) for count in ("forecasts", "decided", "exhausted")),
            *(_number(row[score]) for score in ("brier", "base_rate_brier", "ece")),
            *(_share(row[error]) for error in ("false_alarms", "missed")),
        )
        for row in scores
    ]
    headings = ("window", "forecasts", "decided", "came true", "Brier", "base rate's", "calibration error")
    words = (
        "Brier: 0 is perfect; the base rate's is what never looking scores. False alarms: of forecasts of what stayed, "
        "how many said that it would run dry, by the costs that a pool's config gives both errors; missed: of what "
        "ran dry, how many did not."
    )
    return section("By window", words, table((*headings, "false alarms", "missed"), cells))


def _fans(found: list[plots.Period]) -> str:
    figures = [
        figure(plots.fan(period, unit), period.name) + figure(plots.chances(period, unit))
        for period in found[:MAX_WINDOWS]
        for unit in (plots.unit_of(period.length_s),)
    ]
    more = len(found) - len(figures)
    return section(
        "Windows",
        "Blue: the use by the reset as foreseen at each moment (median, 80 % and 90 % intervals). Black: what "
        "was used. Red: the limit, and when it was reached."
        + (f" {more} older windows are not drawn." if more else ""),
        *figures,
    )


def _name(row: _Row) -> str:
    return f"{row['pool']} {row['window_id']}".strip()


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.1%}"
