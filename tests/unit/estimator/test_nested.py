"""Windows that hold at once: a request pays the scarcest, whatever the units and however many ample ones there are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from support.planning import flat, window
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.fold import Folding
from tidegate.estimator.nested import Dry, nested_prices
from tidegate.estimator.publish import publish
from tidegate.estimator.shadow_price import ValueSketch, dual_price, mean_value
from tidegate.estimator.state import State
from tidegate.events.config import Routing
from tidegate.events.decision import WindowUse
from tidegate.events.quota import NS_PER_S
from tidegate.events.signals import DemandSeen
from tidegate.events.types import DecisionId, PoolId

NS = 3_000 * 168 * 3_600 * 10**9
"""A week begins."""
TRACE = 0.004
"""Of the mean value: what windows cost that are not scarce at all, a thousandth each."""


class Plan(NamedTuple):
    """Windows, the longest first: units of a request, quota and demand in requests until the reset; and classes of
    requests: value and how many of them there are among so many."""

    units: list[float]
    quota: list[float]
    demand: list[float]
    values: list[float]
    counts: list[int]

    @property
    def mean(self) -> float:
        return float(np.average(self.values, weights=self.counts))


def prices_of(plan: Plan, bins: float = 1e9, used: list[float] | None = None) -> FloatArray:
    """What a request pays for each window, nano-dollars; `used` is of windows halfway through."""
    size = len(plan.units)
    sketch = ValueSketch(size)
    for value, count in zip(plan.values, plan.counts, strict=True):
        for k, unit in enumerate(plan.units):
            longer = plan.units[k - 1] * count if k else 0.0
            numbers = (value * count, unit * count, longer, 1e12)
            sketch.observe(np.array([k]), np.array([NS]), *(np.array([number]) for number in numbers))
    block, units = sketch.take(np.arange(size)), np.array(plan.units)
    dry = Dry(np.array(plan.quota) * units, np.array([plan.demand]) * units, np.full(size, bins))
    worth = mean_value(block, plan.mean / units)
    dual = dual_price(worth, np.array(used or [0.5] * size), np.full(size, 0.5))
    found: FloatArray = nested_prices(block, np.arange(size), dry, dual, worth) * units
    return found


@st.composite
def plans(draw: st.DrawFn, windows: int = 3) -> Plan:
    """Quotas that end within a class of requests, so that there is one price; values that the sketch tells apart."""
    steps = draw(st.lists(st.integers(2, 3), min_size=1, max_size=5))
    values = [1e6 * math.exp(0.25 * step) for step in np.cumsum(steps)]
    counts = draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    sizes = np.cumsum(draw(st.lists(st.integers(1, 6), min_size=windows, max_size=windows)))[::-1]
    demand = [float(size * sum(counts)) for size in sizes]
    shares = draw(st.lists(st.integers(1, 130), min_size=windows, max_size=windows))
    quota = [(share + 0.37) / 100 * each for share, each in zip(shares, demand, strict=True)]
    units = draw(st.lists(st.sampled_from([1.0, 50.0, 1e7, 3e-3]), min_size=windows, max_size=windows))
    return Plan(units, quota, demand, values, counts)


def lp_price(plan: Plan) -> float:
    """What the linear programme asks of a request that uses all windows, all of which count requests in it. All demand
    of the shorter ones is demand of the longer ones, each of which has some more."""
    zones = [a - b for a, b in zip(plan.demand, [*plan.demand[1:], 0.0], strict=True)]
    total = sum(plan.counts)
    bounds, gain, rows = [], [], []
    for zone, size in enumerate(zones):
        for value, count in zip(plan.values, plan.counts, strict=True):
            bounds.append((0.0, size * count / total))
            gain.append(-value / plan.mean)
            rows.append([float(k <= zone) for k in range(len(plan.units))])
    found = linprog(gain, A_ub=np.array(rows).T, b_ub=plan.quota, bounds=bounds, method="highs")
    assert found.status == 0
    return float(-found.ineqlin.marginals.sum()) * plan.mean


@settings(deadline=None, max_examples=40)
@given(plans())
def test_a_request_pays_what_the_linear_programme_asks_of_it(plan: Plan) -> None:
    paid = float(prices_of(plan).sum())
    assert paid == pytest.approx(lp_price(plan), rel=1e-6, abs=TRACE * plan.mean)


@settings(deadline=None, max_examples=40)
@given(plans(), st.lists(st.sampled_from([1e-4, 0.2, 1.0, 3e3, 1e8]), min_size=3, max_size=3), st.booleans())
def test_the_units_of_the_windows_change_nothing(plan: Plan, factors: list[float], history: bool) -> None:
    bins = 1e9 if history else 10.0
    other = plan._replace(units=[a * b for a, b in zip(plan.units, factors, strict=True)])
    assert prices_of(other, bins) == pytest.approx(prices_of(plan, bins), rel=1e-9, abs=1e-9 * plan.mean)


@settings(deadline=None, max_examples=40)
@given(plans(2), st.integers(0, 2), st.sampled_from([1.0, 7e4]))
def test_one_more_window_that_is_ample_changes_nothing(plan: Plan, place: int, unit: float) -> None:
    size = [plan.demand[0] * 3, sum(plan.demand) / 2, plan.demand[1] / 3][place]
    more = plan._replace(
        units=[*plan.units[:place], unit, *plan.units[place:]],
        demand=[*plan.demand[:place], size, *plan.demand[place:]],
        quota=[*plan.quota[:place], 50 * size, *plan.quota[place:]],
    )
    before, after = float(prices_of(plan).sum()), float(prices_of(more).sum())
    assert after == pytest.approx(before, rel=1e-6, abs=TRACE * plan.mean)


@settings(deadline=None, max_examples=40)
@given(plans(), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
def test_without_history_a_request_pays_the_window_that_is_furthest_ahead(
    plan: Plan, used: list[float]
) -> None:
    alone = [0.25 * plan.mean * min(math.exp(3 * (each - 0.5)), 4.0) for each in used]
    paid = prices_of(plan, 0.0, used)
    assert np.all(paid > 0)
    assert float(paid.sum()) == pytest.approx(max(alone), rel=1e-6, abs=TRACE * plan.mean)


HOURS = {"month": 720.0, "week": 168.0, "5h": 5.0}
OF_A_REQUEST = {"requests": 1, "tokens": 50_000, "nanousd": 10_000_000}


def published(units: tuple[str, ...], limits: dict[str, int]) -> float:
    """What a request of a pool pays after two weeks of four an hour, by what is published."""
    names = list(limits)
    windows = tuple(
        window(name, unit, limits[name] * OF_A_REQUEST[unit], duration_s=HOURS[name] * 3_600)
        for name, unit in zip(names, units, strict=True)
    )
    pool, state, now_ns = PoolId("p"), State(), NS
    index, rng = state.pool(pool, 0), np.random.default_rng(1)
    for each in windows:
        state.window_of(index, each.id, int(each.duration_s) * NS_PER_S, first_request=False)
    run = Folding(state)
    for _ in range(14 * 96):
        now_ns += 900 * NS_PER_S
        uses = []
        for each in windows:
            length_ns = int(each.duration_s) * NS_PER_S
            uses.append(WindowUse(each.id, now_ns - now_ns % length_ns, OF_A_REQUEST[each.unit], length_ns))
        alternative = int(1e7 * (0.5 + rng.random()))
        run.handlers[DemandSeen](
            DemandSeen(
                decision=DecisionId("d"), pool=pool, windows=tuple(uses), alternative_nanousd=alternative
            ),
            now_ns,
            0,
        )
    run.finish()
    routing = Routing(pools=(flat("p", *windows),))
    found = publish(state, now_ns, routing, (), (pool,)).pools[pool].windows
    unit_of = dict(zip(names, units, strict=True))
    return sum(each.shadow_nanousd * OF_A_REQUEST[unit_of[each.window]] for each in found)


def test_what_is_published_of_three_windows_is_of_no_unit_and_of_no_ample_window() -> None:
    scarce = {"week": 336, "5h": 10}
    ample = {"month": 100_000, **scarce}
    paid = published(("requests",) * 3, ample)
    for units in (("nanousd", "tokens", "requests"), ("requests", "tokens", "nanousd")):
        assert published(units, ample) == pytest.approx(paid, rel=1e-9)
    without = published(("requests",) * 2, scarce)
    assert 5e6 < without < 1.5e7
    assert paid == pytest.approx(without, rel=0.02)
