"""What `make bench-forecast` found, as one page with plots beside its JSON; the same pictures as of a deployment."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from bench.forecast.questions import PLACES
from bench.forecast.servegen import SCORED, Evaluation
from tidegate.analytics import forecast_plots as plots
from tidegate.analytics.page import figure, page, section, table, tiles
from tidegate.analytics.plot import Axis, Plot
from tidegate.estimator.series_fields import BINS_PER_WINDOW

EXAMPLES = 3
"""Windows that run dry, and as many that do not, whose fans are drawn."""
Result = dict[str, Any]


def examples(found: Evaluation) -> list[Result]:
    """Windows with all that was foreseen of them: evenly from those asked about, of clients active in most bins."""
    dense = (found.traffic.units > 0).mean(axis=(1, 2)) > 0.5
    picked: list[Result] = []
    for outcome in (1.0, 0.0):
        mine = (found.fixed.outcome == outcome) & (found.fixed.place == 0) & dense[found.fixed.series]
        at = np.flatnonzero(mine)
        for k in at[np.linspace(0, at.size - 1, min(EXAMPLES, at.size)).astype(np.int64)]:
            picked.append(_example(found, int(found.fixed.window[k]), int(found.fixed.series[k])))
    return picked


def _example(found: Evaluation, window: int, series: int) -> Result:
    limit, bin_s = float(found.quota[series]), found.traffic.window_s / BINS_PER_WINDOW
    so_far = found.traffic.units[series, window].cumsum()
    dry = np.flatnonzero(so_far >= limit)
    own = (found.fixed.window == window) & (found.fixed.series == series)
    chance = dict(
        zip(found.fixed.place[own].tolist(), found.marks["hurdle"].fixed[own].tolist(), strict=True)
    )
    moments = []
    for k, place in enumerate(PLACES):
        remaining = found.answers.points(window, k)[:, series].tolist()
        if k in chance:
            moments.append((place * bin_s, float(so_far[place - 1]), chance[k], remaining))
    return {
        "name": f"{found.traffic.names[series]}, window {window - SCORED.start + 1} of week two",
        "limit": limit,
        "length_s": float(found.traffic.window_s),
        "moments": moments,
        "final_used": float(min(so_far[-1], limit)),
        "dry_s": float((dry[0] + 1) * bin_s) if dry.size else None,
    }


def bench_page(result: Result) -> str:
    """The whole document."""
    return page(
        "Forecasts on recorded traffic",
        "ServeGen: windows of 5 h, week one to learn and tune, week two to score; the quota of a client is the 70 % "
        "quantile of its windows of week one. Azure and coding sessions: see the tables.",
        [tiles(_headline(result)), *_servegen(result), *_others(result), _fans(result["examples"])],
    )


def _headline(result: Result) -> Iterable[tuple[str, str]]:
    numbers = {
        "Brier, fixed quota": "servegen_fixed_brier",
        "Brier, relative quota": "servegen_fixed_relative",
        "calibration error": "servegen_ece",
        "announced ≥ 30 min ahead": "recall_30min",
        "median lead, min": "lead_min",
        "hindsight saving, agents": "hindsight_saving_agents",
        "hindsight saving, Azure": "hindsight_saving_azure",
    }
    return [(name, f"{result[key]:.4g}") for name, key in numbers.items() if key in result]


def _servegen(result: Result) -> list[str]:
    points = [plots.Reliability(*point) for point in result["reliability"]]
    held = [(share / 100, result[f"coverage_{share}"]) for share in (50, 80, 90)]
    rows = {
        label: [(name, row["gain"], row["gain_low"], row["gain_high"]) for name, row in result["tables"][label].items() if name != "hurdle"]
        for label in ("all clients", "even clients", "odd clients")
    }  # fmt: skip
    return [
        section(
            "Reliability and coverage",
            "On the dashed line, what was said with a chance of 70 % came true in 70 % of cases; an interval of 80 % "
            "held the truth in 80 %.",
            figure(plots.reliability(points)),
            figure(plots.coverage(held)),
        ),
        section(
            "Lead times",
            f"At 5 % false alarms {result['recall_30min']:.1%} of the windows that run dry are announced 30 min ahead "
            "or more. From the first alarm to the moment the quota was gone:",
            figure(plots.lead_times(result["leads_min"])),
            figure(_by_place(result["by_place"]), "relative quota"),
        ),
        section(
            "Brier score of others, less ours",
            "Mean and 95 % interval of a bootstrap over clients; right of zero, ours is better.",
            *(
                figure(plots.whiskers(each, "Brier score more than ours"), label)
                for label, each in rows.items()
            ),
        ),
    ]


def _by_place(scores: list[float]) -> str:
    plot = Plot(Axis(0, 1, "share of the window gone", step=0.2), Axis(0, 0.3, "Brier score", step=0.05))
    points = [(place / BINS_PER_WINDOW, score) for place, score in zip(PLACES, scores, strict=True)]
    plot.line(points, "said")
    for at, score in points:
        plot.dot(at, score, "ours", f"{score:.4f}")
    return plot.svg("Brier score by place in the window")


def _others(result: Result) -> list[str]:
    titles = {
        "azure": (
            "Azure",
            "Windows of 5 min, two traces split into 1, 10 and 60 tenants; Brier, relative quota.",
        ),
        "first request": (
            "Windows opened by a first request",
            "Coding sessions, half of them held out; Brier.",
        ),
        "first request, published": (
            "The same through an estimator's state",
            "Plans whose neighbours taught nothing, or something, and plans that lived days of their own; Brier.",
        ),
        "percent only": (
            "Providers that tell only a percentage",
            "The capacity after one window, and its bars.",
        ),
    }
    parts = []
    for name, (title, words) in titles.items():
        rows = result["tables"][name]
        keys = list(dict.fromkeys(key for row in rows.values() for key in row))
        cells = [(label, *(f"{row[key]:.4g}" for key in keys)) for label, row in rows.items()]
        parts.append(section(title, words, table(("", *keys), cells)))
    saved = {name: share for name, share in result.items() if name.startswith("hindsight_saving")}
    if saved:
        words = (
            "Of what could have been saved with everything known; one flat plan beside a metered fallback."
        )
        cells = [(name.removeprefix("hindsight_saving_"), f"{share:.1%}") for name, share in saved.items()]
        parts.append(section("Share of the hindsight saving", words, table(("", "saved"), cells)))
    return parts


def _fans(found: list[Result]) -> str:
    figures = []
    for each in found:
        moments = tuple(plots.Moment(at_s, used, p, tuple(rest)) for at_s, used, p, rest in each["moments"])
        period = plots.Period(**{**each, "moments": moments})
        unit = plots.unit_of(period.length_s)
        figures.append(figure(plots.fan(period, unit), period.name) + figure(plots.chances(period, unit)))
    words = (
        "Blue: the use by the reset as foreseen at each moment (median, 80 % and 90 % intervals). Black: what was "
        "used. Red: the limit, and when it was reached."
    )
    return section("Windows", words, *figures)
