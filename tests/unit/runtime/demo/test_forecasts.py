"""When a window of the demo's plan was expected to run dry, and when it did."""

import pytest

from tidegate.runtime.demo.forecasts import (
    MAX_LINES,
    ForecastRow,
    Foreseen,
    WindowForecasts,
    by_window,
    clock,
    evenly,
    lines,
)

S = 1_000_000_000
START = 1_800_000_000 * S


def row(at_s: float, used: int, p: float, *, window: str = "5h", dry_s: float | None = 60.0) -> ForecastRow:
    def ns(seconds: float | None) -> int | None:
        return None if seconds is None else START + int(seconds * S)

    return ForecastRow(
        "plan", window, 1, START + int(at_s * S), START, START + 75 * S, used, 49, p,
        ns(at_s + 10), ns(at_s + 20) if p > 0.5 else None, ns(at_s + 40) if p > 0.9 else None, ns(dry_s),
    )  # fmt: skip


def test_times_are_those_of_the_trace_since_the_window_opened() -> None:
    (found,) = by_window([row(1, 4, 0.4), row(10, 20, 0.95)], 240.0)
    assert (found.pool, found.window, found.limit) == ("plan", "5h", 49)
    assert (found.length_s, found.exhausted_s) == (18_000.0, 14_400.0)
    first, second = found.forecasts
    assert (first.at_s, first.p10_s, first.p50_s, first.p90_s) == (240.0, 2_640.0, None, None)
    assert (second.at_s, second.p50_s, second.p90_s) == (2_400.0, 7_200.0, 12_000.0)


def test_windows_are_kept_apart_and_one_that_is_not_dry_says_so() -> None:
    found = by_window([row(1, 4, 0.4), row(1, 4, 0.2, window="week", dry_s=None)], 240.0)
    assert [window.window for window in found] == ["5h", "week"]
    assert lines(found[0])[0] == "window 5h of plan, 5:00 h long: ran dry at 4:00"
    assert lines(found[1])[0].endswith("not dry so far")


def test_a_line_tells_the_forecast_and_draws_its_fan() -> None:
    (found,) = by_window([row(1, 4, 0.4), row(10, 20, 0.95)], 240.0)
    _, scale, later, known = lines(found)
    assert scale.split()[-2:] == ["0:00", "4:24"]
    assert later.startswith("  0:04    8%  0.40  later [0:44–later]")
    assert later.endswith(">")
    assert known.startswith("  0:40   41%  0.95  2:00 [1:20–3:20]")
    fan = known[44:]
    assert fan.index("·") < fan.index("─") < fan.index("●") < fan.rindex("─") < fan.index("│")
    assert fan.index("│") == int(4.0 / 4.4 * 34)


def test_no_line_needs_more_than_80_columns_and_few_are_shown() -> None:
    (found,) = by_window([row(k / 2, k, 0.3 + 0.02 * k, dry_s=59.0) for k in range(30)], 2_400.0)
    shown = lines(found)
    assert len(shown) == 2 + MAX_LINES
    assert max(map(len, shown)) <= 80


def test_what_is_shown_is_even_and_has_the_first_and_the_last() -> None:
    (found,) = by_window([row(k, k, 0.5) for k in range(20)], 1.0)
    picked = evenly(found.forecasts, 6)
    assert [each.used for each in picked] == [0, 4, 8, 11, 15, 19]


def test_a_window_that_nobody_could_foresee_has_its_scale_all_the_same() -> None:
    only = Foreseen(at_s=0.0, used=0, p_exhaust=0.0, p10_s=None, p50_s=None, p90_s=None)
    found = WindowForecasts(
        pool="plan", window="5h", limit=49, length_s=60.0, exhausted_s=None, forecasts=(only,)
    )
    assert lines(found)[-1].split() == ["0:00", "0%", "0.00", "later", "·"]


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (3_900, "1:05"), (604_800, "168:00")])
def test_a_clock_has_hours_and_minutes(seconds: float, text: str) -> None:
    assert clock(seconds) == text
