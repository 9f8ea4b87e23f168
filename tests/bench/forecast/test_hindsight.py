"""The bound is the linear programme's value, and a policy that knows nothing of value stays below it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from bench.forecast.hindsight import Policy, shares, told_shares
from bench.forecast.hindsight import limit_of as limit
from bench.forecast.hindsight_bound import knapsack, one_window, two_windows
from bench.forecast.hindsight_streams import NS, START_NS, Stream


def test_a_fractional_knapsack_takes_the_dearest_units_and_a_part_of_the_last() -> None:
    value, units = np.array([10.0, 6.0, 9.0, -1.0]), np.array([5.0, 2.0, 3.0, 1.0])
    assert knapsack(value, units, 6.0) == pytest.approx(9.0 + 6.0 + 2.0)
    assert knapsack(value, units, 100.0) == pytest.approx(25.0)


def test_two_windows_of_requests_are_bounded_by_the_best_subset() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        value = rng.uniform(1, 10, 10)
        day = np.repeat(np.arange(5), 2)
        ones, week = np.ones(10), np.zeros(10, dtype=np.int64)
        best = 0.0
        for taken in itertools.product((0, 1), repeat=10):
            x = np.array(taken)
            if x.sum() <= 4 and max(x[day == d].sum() for d in range(5)) <= 1:
                best = max(best, float(x @ value))
        assert two_windows(value, (ones, day, 1.0), (ones, week, 4.0)) == pytest.approx(best, rel=1e-9)
        assert one_window(value, ones, day, 1.0) >= best - 1e-9


def test_with_two_kinds_of_requests_the_price_saves_more_than_who_comes_first() -> None:
    rng = np.random.default_rng(5)
    count = 1_500
    at_ns = START_NS + np.sort(rng.integers(0, 4 * 3_600 * NS, count))
    cost = np.where(rng.random(count) < 0.3, 1e7, 1e6)
    ones = np.ones(count, dtype=np.int64)
    stream = Stream(
        "s",
        at_ns,
        ones,
        ones,
        cost,
        cost,
        cost,
        600 * NS,
        60 * NS,
        START_NS + 1_800 * NS,
        START_NS + 4 * 3_600 * NS,
    )
    found = shares(stream, {"0.4": [limit(stream, "requests", 0.4, stream.window_ns)]})
    assert found["s:0.4:first_come"] < 0.7
    assert 0.9 < found["s:0.4:price"] <= 1.0 + 1e-9


def _of_many_values(count: int, hours: int, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    at_ns = START_NS + np.sort(rng.integers(0, hours * 3_600 * NS, count))
    cost = 1e6 * rng.lognormal(0.0, 1.0, count)
    ones = np.ones(count, dtype=np.int64)
    begin_ns, end_ns = START_NS + 1_800 * NS, START_NS + hours * 3_600 * NS
    return Stream("s", at_ns, ones, ones, cost, cost, cost, 600 * NS, 60 * NS, begin_ns, end_ns)


def test_who_is_told_the_future_saves_more() -> None:
    stream = _of_many_values(600, 2, 6)
    quota = {"0.4": [limit(stream, "requests", 0.4, stream.window_ns)]}
    told = told_shares(stream, quota)
    live = shares(stream, quota, policies=("price",))["s:0.4:price"]
    assert live < told["s:0.4:told_all"] <= 1.0 + 1e-9
    assert 0.8 < told["s:0.4:told_demand"] <= 1.0 + 1e-9


def test_a_window_that_the_end_of_the_recording_cuts_short_is_not_scored() -> None:
    stream = _of_many_values(600, 2, 6)
    quota = {"0.4": [limit(stream, "requests", 0.4, stream.window_ns)]}
    cut = replace(stream, ends_ns=stream.ends_ns - 1)
    late = stream.at_ns >= stream.ends_ns - stream.window_ns
    dear = np.where(late & (stream.at_ns < stream.ends_ns - stream.window_ns // 2), 1e10, stream.cost)
    policies: tuple[Policy, ...] = ("first_come",)
    as_it_is, as_dear = (shares(each, quota, policies=policies) for each in (cut, replace(cut, cost=dear)))
    assert as_it_is == as_dear
    assert shares(replace(stream, cost=dear), quota, policies=policies) != as_dear
