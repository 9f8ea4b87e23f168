"""When each window of the plan was expected to run dry, and when it did: for `--json`, and as lines for people. Pure.

Times are nominal seconds, those of the trace, since the window opened.
"""

from collections.abc import Iterable, Sequence

import msgspec

NS_PER_S = 1_000_000_000
MAX_LINES = 6
"""Forecasts of a window that people are shown, evenly chosen."""
_FAN_COLUMNS = 34
LEGEND = "· when asked   ─ from the 10 to the 90 % time, > later   ● median   │ ran dry"
"""What the marks of a fan mean."""


class ForecastRow(msgspec.Struct, array_like=True, frozen=True):
    """A row of `v_forecasts`."""

    pool: str
    window: str
    period: int
    believed_ns: int
    period_start_ns: int
    resets_at_ns: int
    used: int
    limit: int
    p_exhaust: float
    p10_ns: int | None
    p50_ns: int | None
    p90_ns: int | None
    exhausted_ns: int | None


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """One forecast. The three times are those by which the quota is gone with 10, 50 and 90 % chance; None: not
    before the reset."""

    at_s: float
    used: int
    p_exhaust: float
    p10_s: float | None
    p50_s: float | None
    p90_s: float | None


class WindowForecasts(msgspec.Struct, frozen=True, kw_only=True):
    """All forecasts of one window in order of time, and when its quota was gone; None while it is not."""

    pool: str
    window: str
    limit: int
    length_s: float
    exhausted_s: float | None
    forecasts: tuple[Foreseen, ...]


def by_window(rows: Iterable[ForecastRow], speed: float) -> tuple[WindowForecasts, ...]:
    """Rows in order of time, grouped."""
    grouped: dict[tuple[str, str, int], list[ForecastRow]] = {}
    for row in rows:
        grouped.setdefault((row.pool, row.window, row.period), []).append(row)
    return tuple(_window(group, speed) for group in grouped.values())


def _window(rows: Sequence[ForecastRow], speed: float) -> WindowForecasts:
    start_ns, last = min(row.period_start_ns for row in rows), rows[-1]

    def since(ns: int | None) -> float | None:
        return None if ns is None else round((ns - start_ns) / NS_PER_S * speed, 1)

    return WindowForecasts(
        pool=last.pool,
        window=last.window,
        limit=last.limit,
        length_s=round((last.resets_at_ns - start_ns) / NS_PER_S * speed, 1),
        exhausted_s=since(last.exhausted_ns),
        forecasts=tuple(
            Foreseen(
                at_s=since(row.believed_ns) or 0.0,
                used=row.used,
                p_exhaust=row.p_exhaust,
                p10_s=since(row.p10_ns),
                p50_s=since(row.p50_ns),
                p90_s=since(row.p90_ns),
            )
            for row in rows
        ),
    )


def lines(found: WindowForecasts) -> list[str]:
    """A heading, a line for each of a few forecasts with its fan, and what happened: at most 80 columns."""
    shown = evenly(found.forecasts, MAX_LINES)
    end_s = _end_s(found, shown)
    heading = f"window {found.window} of {found.pool}, {clock(found.length_s)} h long: "
    came = "not dry so far" if found.exhausted_s is None else f"ran dry at {clock(found.exhausted_s)}"
    told = [heading + came, f"{'at':>6} {'used':>5} {'P':>5}  {'expected [10–90 %]':<22}  {_scale(end_s)}"]
    for each in shown:
        expected = "later" if each.p50_s is None else clock(each.p50_s)
        between = "" if each.p10_s is None else f" [{clock(each.p10_s)}–{_clock_or(each.p90_s)}]"
        used = f"{each.used / max(found.limit, 1):.0%}"
        told.append(
            f"{clock(each.at_s):>6} {used:>5} {each.p_exhaust:5.2f}  {expected + between:<22}  "
            + _fan(each, found.exhausted_s, end_s)
        )
    return [line.rstrip() for line in told]


def evenly(items: Sequence[Foreseen], most: int) -> list[Foreseen]:
    """At most `most` of them, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(k * (len(items) - 1) / (most - 1))] for k in range(most)]


def clock(seconds: float) -> str:
    """`1:05`: hours and minutes; of days only the hours are more."""
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d}"


def _clock_or(seconds: float | None) -> str:
    return "later" if seconds is None else clock(seconds)


def _end_s(found: WindowForecasts, shown: Sequence[Foreseen]) -> float:
    """Where the fans end: a little after the last time that is told."""
    times = [found.exhausted_s or 0.0]
    for each in shown:
        times += [each.at_s, *(at for at in (each.p10_s, each.p50_s, each.p90_s) if at is not None)]
    return min(found.length_s, 1.1 * max(times)) or 1.0


def _scale(end_s: float) -> str:
    text = clock(end_s)
    return "0:00" + " " * (_FAN_COLUMNS - 4 - len(text)) + text


def _fan(each: Foreseen, exhausted_s: float | None, end_s: float) -> str:
    """The marks of `LEGEND`."""

    def column(at_s: float) -> int:
        return min(max(int(at_s / end_s * _FAN_COLUMNS), 0), _FAN_COLUMNS - 1)

    cells = [" "] * _FAN_COLUMNS
    if each.p10_s is not None:
        last = _FAN_COLUMNS - 1 if each.p90_s is None else column(each.p90_s)
        for at in range(column(each.p10_s), last + 1):
            cells[at] = "─"
        if each.p90_s is None:
            cells[last] = ">"
    cells[column(each.at_s)] = "·"
    if exhausted_s is not None:
        cells[column(exhausted_s)] = "│"
    if each.p50_s is not None:
        cells[column(each.p50_s)] = "●"
    return "".join(cells)
