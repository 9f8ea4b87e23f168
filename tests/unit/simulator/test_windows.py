"""Quota windows count what they should, start when they should, and say when they end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.simulator.config import PeakRule, WindowRule
from tidegate.simulator.windows import Window, span_name, tightest, window_of


def window(kind: str, unit: str, limit: int, duration_s: float = 100.0, speed: float = 1.0) -> Window:
    rule = WindowRule(duration_s=duration_s, unit=unit, limit=limit, kind=kind)  # type: ignore[arg-type]
    return Window(rule, speed)


def test_a_fixed_window_starts_on_multiples_of_its_duration() -> None:
    fixed = window("fixed", "requests", 1)
    fixed.admit(250.0, 1)
    assert fixed.state(250.0).reset_s == 300.0
    assert not fixed.admits(299.9, 1)
    assert fixed.admits(300.0, 1)
    assert fixed.state(300.0).used == 0


def test_a_first_request_window_starts_on_use_and_rests_between() -> None:
    used = window("first_request", "requests", 1)
    assert used.state(50.0).reset_s is None
    used.admit(70.0, 1)
    assert used.state(80.0).reset_s == 170.0
    assert not used.admits(169.9, 1)
    assert used.state(170.0).reset_s is None
    assert used.admits(170.0, 1)


def test_a_token_window_counts_on_settlement_and_admits_while_anything_is_left() -> None:
    tokens = window("fixed", "tokens", 10)
    tokens.admit(0.0, 1)
    assert tokens.state(0.0).used == 0
    tokens.settle(1.0, 9)
    assert tokens.admits(1.0, 1)
    tokens.settle(2.0, 9)
    assert not tokens.admits(2.0, 1)
    assert tokens.state(2.0).remaining == 0


def test_a_request_window_does_not_count_tokens_and_a_weight_counts_as_so_many_requests() -> None:
    requests = window("fixed", "requests", 10)
    requests.admit(0.0, 6)
    requests.settle(0.0, 1000)
    assert requests.state(0.0).used == 6
    assert not requests.admits(0.0, 5)
    assert requests.admits(0.0, 4)


def test_speed_shortens_the_window_but_not_its_name() -> None:
    fast = window("first_request", "requests", 1, duration_s=18_000, speed=1000)
    fast.admit(5.0, 1)
    state = fast.state(5.0)
    assert (state.reset_s, state.name, state.nominal_s) == (23.0, "5h", 18_000)


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 3)), max_size=60), st.integers(1, 10))
def test_no_period_of_a_request_window_admits_more_than_its_limit(
    steps: list[tuple[float, int]], limit: int
) -> None:
    fixed, now_s = window("fixed", "requests", limit), 0.0
    by_period: dict[float, int] = {}
    for wait_s, weight in steps:
        now_s += wait_s
        if fixed.admits(now_s, weight):
            fixed.admit(now_s, weight)
            by_period[now_s // 100] = by_period.get(now_s // 100, 0) + weight
            assert by_period[now_s // 100] == fixed.state(now_s).used
    assert all(used <= limit for used in by_period.values())


@pytest.mark.parametrize(
    ("duration_s", "name"), [(18_000, "5h"), (604_800, "7d"), (60, "1m"), (90, "90s"), (0.5, "0.5s")]
)
def test_windows_are_named_by_the_largest_unit_that_divides_them(duration_s: float, name: str) -> None:
    assert span_name(duration_s) == name


def test_the_tightest_window_is_the_one_with_the_smallest_share_left_and_then_the_shortest() -> None:
    long, short = window("fixed", "requests", 100, 1000), window("fixed", "requests", 10, 100)
    states = [long.state(0), short.state(0)]
    assert tightest(states, "requests") == states[1]
    long.admit(0, 90)
    assert tightest([long.state(0), short.state(0)], "requests") == long.state(0)
    assert tightest(states, "tokens") is None


def test_others_use_the_window_evenly_while_a_period_runs() -> None:
    rule = WindowRule(
        duration_s=100.0, unit="tokens", limit=50, kind="first_request", outside_per_hour=3_600.0
    )
    shared = Window(rule, 2.0)
    assert shared.state(1_000.0).used == 0
    shared.admit(1_000.0, 1)
    shared.settle(1_005.0, 20)
    assert shared.state(1_010.0).used == 40
    assert shared.admits(1_014.0, 1)
    assert not shared.admits(1_015.0, 1)
    assert shared.state(1_050.0).used == 0


def test_a_percentage_is_whole_and_never_above_a_hundred() -> None:
    tokens = window("fixed", "tokens", 1_000)
    tokens.settle(1.0, 424)
    assert tokens.state(1.0).percent == 42
    tokens.settle(1.0, 2_000)
    assert tokens.state(1.0).percent == 100


def rolling(unit: str, limit: int, speed: float = 1.0, outside_per_hour: float = 0.0) -> Window:
    rule = WindowRule(
        duration_s=100.0, unit=unit, limit=limit, kind="rolling", outside_per_hour=outside_per_hour  # type: ignore[arg-type]
    )  # fmt: skip
    return window_of(rule, speed)


def test_each_use_of_a_rolling_window_counts_for_the_duration_to_the_moment() -> None:
    each = rolling("requests", 3)
    for at_s in (10.0, 40.0, 70.0):
        assert each.admits(at_s, 1)
        each.admit(at_s, 1)
    assert not each.admits(109.9, 1)
    assert each.admits(110.0, 1)
    assert (each.state(110.0).used, each.state(140.0).used, each.state(170.0).used) == (2, 1, 0)


def test_a_rolling_window_is_free_again_when_its_last_use_ages_out_and_has_room_when_enough_of_it_does() -> (
    None
):
    each = rolling("requests", 3)
    assert each.state(0.0).reset_s is None
    for at_s in (10.0, 40.0, 70.0):
        each.admit(at_s, 1)
    assert each.state(80.0).reset_s == 170.0
    assert (each.room_s(80.0, 1), each.room_s(80.0, 2), each.room_s(80.0, 3)) == (110.0, 140.0, 170.0)
    assert each.room_s(80.0, 4) == 180.0


def test_tokens_of_a_rolling_window_count_from_when_they_are_billed_and_others_use_it_evenly() -> None:
    each = rolling("tokens", 50, speed=2.0, outside_per_hour=720.0)
    assert each.state(0.0).used == 20
    each.admit(0.0, 1)
    each.settle(5.0, 30)
    assert not each.admits(5.0, 1)
    assert each.room_s(6.0, 1) == 55.0
    assert each.admits(55.0, 1)


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 3)), max_size=60), st.integers(3, 10))
def test_no_stretch_of_the_duration_admits_more_than_the_limit_of_a_rolling_window(
    steps: list[tuple[float, int]], limit: int
) -> None:
    each, now_s = rolling("requests", limit), 0.0
    taken: list[tuple[float, int]] = []
    for wait_s, weight in steps:
        now_s += wait_s
        if not each.admits(now_s, weight):
            now_s = each.room_s(now_s, weight)
        assert each.admits(now_s, weight)
        each.admit(now_s, weight)
        taken.append((now_s, weight))
        assert sum(units for at_s, units in taken if now_s < at_s + 100.0) <= limit


@pytest.mark.parametrize("kind", ["fixed", "rolling"])
def test_in_peak_hours_a_request_counts_as_often_as_its_window_says(kind: str) -> None:
    hours = PeakRule(weight=3, from_time="01:00", to_time="02:00", days=("thu",), timezone="UTC")
    rule = WindowRule(duration_s=86_400.0, unit="requests", limit=10, kind=kind, peaks=(hours,))  # type: ignore[arg-type]
    day = window_of(rule, 1.0)
    day.admit(3_599.0, 2)
    assert day.state(3_599.0).used == 2
    day.admit(3_600.0, 2)
    assert day.state(3_600.0).used == 8
    assert not day.admits(7_199.0, 1)
    assert day.admits(7_200.0, 1)
    assert day.room_s(7_000.0, 1) == (86_400.0 if kind == "fixed" else 3_599.0 + 86_400.0)


def test_tokens_count_by_the_hour_their_request_came_in() -> None:
    hours = PeakRule(weight=3, from_time="01:00", to_time="02:00")
    day = window_of(WindowRule(duration_s=86_400.0, unit="tokens", limit=100, peaks=(hours,)), 1.0)
    day.settle(7_300.0, 10, arrived_s=7_000.0)
    day.settle(7_300.0, 10, arrived_s=7_200.0)
    day.settle(3_700.0, 10)
    assert day.state(7_300.0).used == 30 + 10 + 30
