"""The shadow price: positive from the start, between nothing and the displaced value, and worth its pains."""

import numpy as np
import pytest

from tidegate.estimator.columns import FloatArray
from tidegate.estimator.shadow_price import (
    BUCKETS,
    USE,
    VALUE,
    WEIGHT,
    ValueSketch,
    bid_price,
    dual_price,
    left_after,
    mean_value,
    outlay_of_longer,
    shadow_price,
)

ONE = np.array([0])
HOUR_MS = 3_600_000.0
NONE = np.zeros(1)


def _sketch(values: FloatArray, units: FloatArray | None = None, long_units: float = 0.0) -> ValueSketch:
    sketch = ValueSketch(1)
    units = np.ones(values.size) if units is None else units
    for k in range(values.size):
        at = np.array([(1_700_000_000_000 + k) * 1_000_000])
        alternative = np.array([values[k] * units[k]])
        sketch.observe(
            ONE,
            at,
            alternative,
            units[k : k + 1],
            np.array([long_units * units[k]]),
            np.array([30 * HOUR_MS]),
        )
    return sketch


def _bid(sketch: ValueSketch, quota: float, demand: list[float], outlay: float = 0.0) -> float:
    draws = np.array(demand)[:, None]
    return float(bid_price(sketch.take(ONE), np.array([quota]), draws, np.array([outlay]))[0])


def test_equal_values_come_back_exactly_where_quota_is_scarce() -> None:
    sketch = _sketch(np.full(50, 3e6))
    assert _bid(sketch, 10, [20.0]) == pytest.approx(3e6, rel=1e-12)
    assert _bid(sketch, 10, [20.0, 5.0]) == pytest.approx(1.5e6, rel=1e-12)
    assert _bid(sketch, 10, [5.0]) == pytest.approx(3e3, rel=1e-9)


def test_littlewood_two_classes_are_weighed_by_the_chance_of_exhaustion_by_the_dear_one() -> None:
    sketch = _sketch(np.array([1e6] * 80 + [1e7] * 20))
    assert _bid(sketch, 10, [100.0]) == pytest.approx(1e7, rel=1e-9)
    assert _bid(sketch, 30, [100.0]) == pytest.approx(1e6, rel=1e-9)
    assert _bid(sketch, 30, [100.0, 200.0, 25.0, 20.0]) == pytest.approx((1e6 + 1e7) / 4, rel=1e-9)


def test_the_price_falls_with_quota_and_rises_with_demand_and_stays_between_bounds() -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(14, 1, 400)
    sketch = _sketch(values)
    demand = rng.lognormal(6, 0.5, 32).tolist()
    by_quota = [_bid(sketch, q, demand) for q in (0, 10, 100, 300, 600, 2000, 1e6)]
    assert by_quota == sorted(by_quota, reverse=True)
    assert by_quota[-1] > 0
    assert by_quota[0] <= values.max() * (1 + 1e-12)
    by_demand = [_bid(sketch, 300, [scale * d for d in demand]) for scale in (0.1, 0.5, 1, 2, 10)]
    assert by_demand == sorted(by_demand)


def test_the_quantile_is_within_a_bucket_of_the_exact_one() -> None:
    rng = np.random.default_rng(2)
    values = rng.lognormal(10, 0.8, 2000)
    sketch = _sketch(values)
    for share in (0.1, 0.3, 0.5, 0.8):
        exact = np.quantile(values, 1 - share)
        assert _bid(sketch, share * 100, [100.0]) == pytest.approx(exact, rel=0.15)


def test_values_weigh_by_units() -> None:
    sketch = _sketch(np.array([1e6, 9e6]), units=np.array([900.0, 100.0]))
    assert _bid(sketch, 50, [1000.0]) == pytest.approx(9e6)
    assert _bid(sketch, 150, [1000.0]) == pytest.approx(1e6)


def test_a_shorter_window_pays_first_what_the_longer_one_asks() -> None:
    sketch = _sketch(np.full(30, 3e6), long_units=2.0)
    outlay = outlay_of_longer(sketch.take(ONE), np.array([1e6]), np.array([3e6]), np.array([7.0]))
    assert outlay[0] == pytest.approx(2e6)
    assert _bid(sketch, 10, [20.0], float(outlay[0])) == pytest.approx(1e6)
    assert _bid(sketch, 10, [20.0], 9e9) == 0.0


def test_before_any_demand_units_of_two_windows_compare_as_what_they_are_worth() -> None:
    block, worth = ValueSketch(1).take(ONE), np.array([6.0])
    assert outlay_of_longer(block, np.array([10.0]), worth, np.array([2.0]))[0] == 30.0
    assert outlay_of_longer(block, np.array([10.0]), worth, np.array([0.0]))[0] == 0.0
    unseen = _sketch(np.full(3, 3e6)).take(ONE)  # the longer window came after these demands
    assert outlay_of_longer(unseen, np.array([10.0]), worth, np.array([2.0]))[0] == 30.0


def test_what_longer_windows_ask_is_not_asked_again_but_a_trace_of_the_worth_stays() -> None:
    left = left_after(np.array([5.0, 5.0, 0.0]), np.array([2.0, 9.0, 0.0]), np.array([4.0, 4.0, 0.0]))
    assert left.tolist() == [3.0, 0.004, 0.0]


def test_demand_without_units_or_without_an_alternative_is_ignored() -> None:
    sketch = ValueSketch(3)
    at, life = np.full(3, 10**18), np.full(3, HOUR_MS)
    sketch.observe(
        np.arange(3), at, np.array([0.0, np.nan, 5.0]), np.array([1.0, 1.0, 0.0]), np.zeros(3), life
    )
    assert np.array_equal(sketch.data, ValueSketch(3).data)


def test_old_values_fade_by_half_in_a_half_life() -> None:
    sketch = _sketch(np.array([1e6]))
    later = np.array([int(1_700_000_000_000 + 30 * HOUR_MS) * 1_000_000])
    sketch.observe(ONE, later, np.array([8e6]), np.ones(1), np.zeros(1), np.array([30 * HOUR_MS]))
    assert sketch.data[WEIGHT].sum() == pytest.approx(1.5)
    assert sketch.data[USE, 0] == pytest.approx(1.5)
    assert mean_value(sketch.take(ONE), NONE)[0] == pytest.approx((0.5 * 1e6 + 8e6) / 1.5)


def test_values_far_from_the_first_stay_in_the_outer_buckets_and_keep_their_sum() -> None:
    sketch = _sketch(np.array([1.0, 1e12, 1e-6]))
    assert sketch.data[VALUE].sum() == pytest.approx(1e12 + 1.0)
    assert sketch.data[WEIGHT][BUCKETS - 1, 0] == pytest.approx(1.0)


def test_without_history_the_dual_price_is_positive_and_follows_the_pace() -> None:
    reference = np.full(4, 1e6)
    price = dual_price(reference, np.array([0.0, 0.5, 0.9, 0.1]), np.array([0.0, 0.5, 0.2, 0.9]))
    assert np.all(price > 0)
    assert price[0] == price[1] == 0.25e6
    assert price[2] > price[0] > price[3]
    assert np.all(price <= reference)


def test_trust_moves_from_the_dual_to_the_bid_over_the_first_window() -> None:
    bid, dual, evidence = np.full(4, 8.0), np.full(4, 2.0), np.array([0.0, 5.0, 5.0, 5.0])
    blended = shadow_price(bid, dual, np.array([30.0, 0.0, 15.0, 90.0]), evidence)
    assert blended.tolist() == [2.0, 2.0, 5.0, 8.0]
    assert shadow_price(np.array([np.nan]), np.array([2.0]), np.array([90.0]), np.ones(1))[0] == 2.0


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_bid_prices_keep_nine_tenths_of_the_saving_hindsight_would_have(share: float) -> None:
    rng = np.random.default_rng(3)
    windows, per_window = 12, 300
    quota_start = share * per_window
    saved = {"bid": 0.0, "first": 0.0, "best": 0.0}
    sketch = _sketch(rng.lognormal(12, 1, per_window))
    for _ in range(windows):
        values = rng.lognormal(12, 1, rng.poisson(per_window))
        left_bid, left_first, price = quota_start, quota_start, 0.0
        for k in range(values.size):
            rest = per_window * (1 - k / values.size)
            if k % 10 == 0:
                price = _bid(sketch, left_bid, [0.9 * rest, rest, 1.1 * rest])
            if left_bid >= 1 and values[k] >= price:
                left_bid -= 1
                saved["bid"] += values[k]
            if left_first >= 1:
                left_first -= 1
                saved["first"] += values[k]
        saved["best"] += np.sort(values)[::-1][: int(quota_start)].sum()
    assert saved["bid"] > 0.9 * saved["best"]
    assert saved["bid"] > saved["first"] * (1.05 if share < 0.8 else 1.0)
