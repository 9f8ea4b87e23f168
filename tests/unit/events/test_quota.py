"""Quota windows: when a period starts, what a use counts."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.events.config import Window
from tidegate.events.money import Tokens
from tidegate.events.quota import duration_ns, period_start_ns, units_of, weighted
from tidegate.events.types import Unit, WindowId

S = 1_000_000_000
FAIR = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def a_window(**fields: object) -> Window:
    return Window(**({"id": WindowId("w"), "unit": "tokens", "limit": 10, "duration_s": 60.0} | fields))  # type: ignore[arg-type]


def test_fixed_periods_start_at_the_anchor_plus_whole_durations() -> None:
    window = a_window(anchor_ns=7 * S)
    assert [period_start_ns(window, now) for now in (7 * S, 67 * S - 1, 67 * S, 200 * S)] == [
        7 * S,
        7 * S,
        67 * S,
        187 * S,
    ]


def test_a_fixed_period_before_the_anchor_is_on_the_same_grid() -> None:
    assert period_start_ns(a_window(anchor_ns=100 * S), 10 * S) == -20 * S


@FAIR
@given(
    now_ns=st.integers(0, 2**62),
    anchor_ns=st.integers(0, 2**62),
    duration_s=st.floats(1e-9, 1e7),
)
def test_now_lies_in_the_half_open_fixed_period_it_is_given(
    now_ns: int, anchor_ns: int, duration_s: float
) -> None:
    window = a_window(anchor_ns=anchor_ns, duration_s=duration_s)
    start_ns = period_start_ns(window, now_ns)
    assert start_ns <= now_ns < start_ns + duration_ns(window)
    assert (start_ns - anchor_ns) % duration_ns(window) == 0


@pytest.mark.parametrize(
    ("opened_ns", "expected_ns"),
    [(None, 100 * S), (90 * S, 90 * S), (40 * S, 100 * S), (40 * S + 1, 40 * S + 1)],
)
def test_a_first_request_period_lasts_its_duration_then_begins_with_the_next_use(
    opened_ns: int | None, expected_ns: int
) -> None:
    assert period_start_ns(a_window(kind="first_request"), 100 * S, opened_ns) == expected_ns


def test_an_opened_period_does_not_move_a_fixed_one() -> None:
    assert period_start_ns(a_window(), 100 * S, 99 * S) == 60 * S


@pytest.mark.parametrize(("unit", "units"), [("requests", 3), ("tokens", 1_234), ("nanousd", 77)])
def test_a_use_is_counted_in_the_unit_of_the_window(unit: Unit, units: int) -> None:
    tokens = Tokens(input_uncached=1_000, cache_read=200, output=34, reasoning=30)
    assert units_of(a_window(unit=unit), tokens, 3, 77) == units


@pytest.mark.parametrize("unit", ["tokens", "nanousd"])
def test_an_unknown_use_is_none_never_zero(unit: Unit) -> None:
    assert units_of(a_window(unit=unit), None, 1, None) is None


@pytest.mark.parametrize(("unit", "units"), [("requests", 2), ("tokens", 17), ("nanousd", 116)])
def test_a_model_may_count_more_or_less_than_once_and_never_for_nothing(unit: Unit, units: int) -> None:
    tokens = Tokens(input_uncached=8, output=3)
    assert units_of(a_window(unit=unit), tokens, 1, 77, 1.5) == units
    assert weighted(1, 0.25) == 1
    assert weighted(0, 0.25) == 0
    assert weighted(12, 0.25) == 3
