"""The pictures of forecasts beside what happened: reliability, coverage, lead times, differences, the fan. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.analytics.plot import Axis, Plot, round_step

LEVELS = ("p05", "p10", "p50", "p90", "p95")


class Reliability(NamedTuple):
    """Forecasts of one tenth: the mean probability, how often it came true, how many there were."""

    said: float
    came: float
    forecasts: int


def reliability(points: Sequence[Reliability]) -> str:
    """Said against came true, with the even line; the columns below say how many forecasts there were."""
    plot = Plot(Axis(0, 1, "said: P(runs dry)", step=0.2), Axis(0, 1, "came true", step=0.2))
    most = max((point.forecasts for point in points), default=1)
    for point in points:
        tenth = min(int(point.said * 10), 9) / 10
        plot.bar((tenth, tenth + 0.1), 0.18 * point.forecasts / most, "count", f"{point.forecasts} forecasts")
    plot.line([(0, 0), (1, 1)], "even")
    plot.line([(point.said, point.came) for point in points], "said")
    for point in points:
        note = f"said {point.said:.3f}, came true {point.came:.3f}, {point.forecasts} forecasts"
        plot.dot(point.said, point.came, "ours", note)
    return plot.svg("reliability")


def coverage(held: Sequence[tuple[float, float]]) -> str:
    """(promised, held) shares of intervals, from 0.4 up, with the even line."""
    low = min([0.4, *(math.floor(10 * share) / 10 for _, share in held)])
    x, y = Axis(low, 1, "promised share", step=0.1), Axis(low, 1, "share that held the truth", step=0.1)
    plot = Plot(x, y)
    plot.line([(0, 0), (1, 1)], "even")
    for promised, share in held:
        plot.dot(promised, share, "ours", f"{promised:.0%} promised, {share:.1%} held", 5.0)
        plot.text(promised, share, f"{share:.1%}", anchor="end")
    return plot.svg("coverage of the intervals")


def lead_times(minutes: Sequence[float]) -> str:
    """How long before it ran dry each window was announced: a histogram in equal steps from zero."""
    longest = max(minutes, default=1.0)
    step = round_step(longest / 12)
    counts = [0] * (int(longest / step) + 1)
    for lead in minutes:
        counts[min(max(int(lead / step), 0), len(counts) - 1)] += 1
    plot = Plot(
        Axis(0, step * len(counts), "lead time, minutes"), Axis(0, 1.2 * max([*counts, 1]), "windows")
    )
    for k, count in enumerate(counts):
        span = (k * step, (k + 1) * step)
        if count:
            plot.bar(span, count, "ours", f"{count} between {span[0]:g} and {span[1]:g} min")
    if minutes:
        middle = sorted(minutes)[len(minutes) // 2]
        plot.line([(middle, 0), (middle, 1.15 * max(counts))], "dry")
        plot.text(middle, 1.06 * max(counts), f"median {middle:.3g} min", anchor="end")
    return plot.svg("lead times")


def whiskers(rows: Sequence[tuple[str, float, float, float]], label: str) -> str:
    """Per name a value with its interval (mean, low, high), the first name on top; zero is marked."""
    low = min([0.0, *(row[2] for row in rows)])
    high = max([row[3] for row in rows], default=1.0)
    room = 0.04 * ((high - low) or 1.0)
    count = len(rows)
    x = Axis(low - room, high + room, label, step=round_step((high - low + 2 * room) / 5))
    plot = Plot(x, Axis(0, count, "", lambda _: ""), 460, 60 + 26 * count, left=180)
    plot.line([(0, 0), (0, count)], "even")
    for k, (name, mean, least, most) in enumerate(rows):
        at = count - k - 0.5
        plot.text(x.low, at - 0.3, name, anchor="end")
        plot.line([(least, at), (most, at)], "whisker")
        plot.dot(mean, at, "ours" if mean <= 0 else "other", f"{name}: {mean:.4f} [{least:.4f}, {most:.4f}]")
    return plot.svg(label)


class Moment(NamedTuple):
    """One forecast of a window: what was believed `at_s` seconds after it opened."""

    at_s: float
    used: float
    p_exhaust: float
    remaining: tuple[float, ...]
    """At LEVELS; empty when unknown."""


class Period(NamedTuple):
    """One window from its opening to its reset, with all its forecasts in order of time."""

    name: str
    length_s: float
    limit: float
    moments: tuple[Moment, ...]
    final_used: float | None
    dry_s: float | None
    """When the quota was gone, seconds after it opened."""


def fan(period: Period, unit_s: tuple[float, str]) -> str:
    """What the window was thought to use by its reset, at each moment, beside what it did; `unit_s` as `unit_of`."""
    size, unit = unit_s
    told = [moment for moment in period.moments if moment.remaining]
    highest = max([period.limit, *(m.used + m.remaining[2] for m in told)])
    top = min(1.3 * highest, 3.0 * period.limit)
    x, y = Axis(0, period.length_s / size, f"{unit} since the window opened"), Axis(0, top, "units", _short)
    plot = Plot(x, y, 500, 250)
    for low, high, look in ((0, 4, "wide"), (1, 3, "narrow")):
        plot.band(
            [(m.at_s / size, m.used + m.remaining[low], m.used + m.remaining[high]) for m in told], look
        )
    plot.line([(m.at_s / size, m.used + m.remaining[2]) for m in told], "said")
    plot.line([(0, period.limit), (period.length_s / size, period.limit)], "limit")
    plot.text(period.length_s / size, period.limit, "limit", anchor="end")
    plot.steps(_used(period, size), "came")
    _mark_dry(plot, period, size, top)
    return plot.svg(f"{period.name}: use foreseen and real")


def chances(period: Period, unit_s: tuple[float, str]) -> str:
    """P(runs dry) over time, and when it did."""
    size, unit = unit_s
    x = Axis(0, period.length_s / size, f"{unit} since the window opened")
    plot = Plot(x, Axis(0, 1, "P(runs dry)", step=0.25), 500, 190)
    plot.line([(moment.at_s / size, moment.p_exhaust) for moment in period.moments], "said")
    for moment in period.moments:
        plot.dot(moment.at_s / size, moment.p_exhaust, "ours", f"P {moment.p_exhaust:.3f}", 2.0)
    _mark_dry(plot, period, size, 1.0)
    return plot.svg(f"{period.name}: chance to run dry")


def unit_of(length_s: float) -> tuple[float, str]:
    """Seconds in the unit of time that a window of this length is told in, and its name."""
    units = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    return next((unit for unit in units if length_s >= 3 * unit[0]), units[-1])


def _used(period: Period, size: float) -> list[tuple[float, float]]:
    points = [(0.0, 0.0), *((moment.at_s / size, moment.used) for moment in period.moments)]
    if period.dry_s is not None:
        return [*points, (period.dry_s / size, period.limit), (period.length_s / size, period.limit)]
    if period.final_used is not None:
        points.append((period.length_s / size, period.final_used))
    return points


def _mark_dry(plot: Plot, period: Period, size: float, top: float) -> None:
    if period.dry_s is not None:
        at = period.dry_s / size
        plot.line([(at, 0), (at, top)], "dry")
        late = period.dry_s > 0.7 * period.length_s
        plot.text(at, 0.06 * top, f"ran dry at {at:.3g}", anchor="end" if late else "start")


def _short(units: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if units >= size:
            return f"{units / size:.3g}{letter}"
    return f"{units:.3g}" if math.isfinite(units) else ""
