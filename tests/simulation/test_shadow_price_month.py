"""Weeks of a flat plan beside a metered target: λ feeds on demand, and demand does not depend on what λ chose.

Everything that decides is real and pure: plan, demand, fold, publish; snapshots every hour.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.fold import Folding
from tidegate.estimator.publish import publish
from tidegate.estimator.shadow_price import mean_value
from tidegate.estimator.state import State
from tidegate.events.config import Candidate, DatedPrice, Pool, Route, Routing, Target, Window
from tidegate.events.decision import NOTHING_LOCAL, Ask, DecisionMade, LocalView, WindowUse
from tidegate.events.signals import DemandSeen, UsageSettled
from tidegate.events.snapshots import RateSnapshot, pool_subject
from tidegate.events.types import AttemptId, DecisionId, PoolId, RouteName, TargetId, WindowId
from tidegate.planner.decide import decide
from tidegate.planner.demand import demand_of
from tidegate.planner.view import View, view_of

NS = 10**9
HOUR_NS = 3_600 * NS
STEP_NS = HOUR_NS
START_NS = 3_000 * 168 * HOUR_NS
A_MONTH, A_WEEK = 30, 7
PLAN, METERED, POOL = TargetId("plan"), TargetId("metered"), PoolId("p")
SHORT, LONG = WindowId("5h"), WindowId("week")
Strategy = Literal["cheapest", "declared"]


def requests(days: int) -> list[tuple[int, int]]:
    """(time, input tokens): some 200 a day, by day more than by night, large and small ones."""
    rng = np.random.default_rng(3)
    found: list[tuple[int, int]] = []
    for hour in range(days * 24):
        rate = 4.0 + 14.0 * max(0.0, math.sin((hour % 24 - 6) / 24 * 2 * math.pi))
        times = np.sort(rng.uniform(0, 1, rng.poisson(rate)))
        found += [
            (START_NS + int((hour + at) * HOUR_NS), int(math.exp(8.0 + 1.2 * rng.standard_normal())))
            for at in times
        ]
    return found


def routing(strategy: Strategy) -> Routing:
    """With `declared` the metered target is always preferred, so the plan is admissible and never used."""
    windows = (
        Window(id=SHORT, unit="requests", limit=22, duration_s=18_000),
        Window(id=LONG, unit="requests", limit=650, duration_s=604_800),
    )
    price = DatedPrice(input_uncached=3 * NS, output=15 * NS)
    names = (METERED, PLAN)
    return Routing(
        pools=(Pool(id=POOL, billing="flat", windows=windows),),
        targets=(
            Target(id=PLAN, dialect="openai", base_url="http://127.0.0.1:9", model="m", pool=POOL),
            Target(id=METERED, dialect="openai", base_url="http://127.0.0.1:9", model="m", prices=(price,)),
        ),
        routes=(
            Route(
                name=RouteName("code"),
                strategy=strategy,
                candidates=tuple(Candidate(target=name) for name in names),
            ),
        ),
    )


@dataclass
class Month:
    """What came of it; one entry per snapshot in `shadow`, `demand` and `worth`, (5 h, week) each."""

    shadow: list[tuple[float, float]] = field(default_factory=list)
    demand: list[float] = field(default_factory=list)
    worth: list[float] = field(default_factory=list)
    period: list[int] = field(default_factory=list)
    chosen: int = 0
    refused: int = 0


class World:
    """One gateway and the estimator, in turn."""

    def __init__(self, strategy: Strategy, hears: Callable[[DemandSeen], bool]) -> None:
        self.routing = routing(strategy)
        self.hears = hears
        self.state = State()
        pool = self.state.pool(POOL, 0)
        for window in self.routing.pools[0].windows:
            self.state.window_of(pool, window.id, int(window.duration_s) * NS, first_request=False)
        self.month = Month()
        self.versions = itertools.count(1)
        self.view: View | None = None
        self.own: list[WindowUse] = []

    def snapshot(self, now_ns: int) -> None:
        made = publish(self.state, now_ns, self.routing, (), (POOL,))
        for series, status in made.statuses.items():
            self.state.window[series].status = status
        belief = made.pools[POOL]
        read = RateSnapshot(
            subject=pool_subject(POOL),
            version=next(self.versions),
            at_ns=now_ns,
            config=self.routing.digest(),
            evidence=0,
            pool=belief,
        )
        self.view = view_of(self.routing, {read.subject: read})
        self.own = []
        known = {window.window: window for window in belief.windows}
        short = np.array([self.state.windows[0, SHORT]])
        resets = np.array([known[SHORT].resets_at_ns or now_ns])
        ahead = forecast(self.state.demand, short, now_ns, resets, np.array([1.0]))
        self.month.demand.append(float(ahead.demand_mean[0]))
        self.month.worth.append(float(mean_value(self.state.sketch.take(short), np.array([np.nan]))[0]))
        self.month.shadow.append((known[SHORT].shadow_nanousd, known[LONG].shadow_nanousd))
        self.month.period.append(known[SHORT].period_start_ns or 0)

    def serve(self, arrived: Sequence[tuple[int, int]]) -> None:
        run = Folding(self.state)
        for at_ns, tokens in arrived:
            made = self.decided(at_ns, tokens)
            assert self.view is not None
            for seen in demand_of(made, self.view.route("code")):
                self.month.refused += seen.refused_until_ns is not None
                if self.hears(seen):
                    run.handlers[DemandSeen](seen, at_ns, 0)
            if made.chosen == PLAN:
                self.month.chosen += 1
                uses = next(each.uses for each in made.candidates if each.target == PLAN)
                self.own += [msgspec.structs.replace(use, duration_ns=0) for use in uses]
                run.handlers[UsageSettled](settled(uses), at_ns, 0)
        run.finish()

    def decided(self, at_ns: int, tokens: int) -> DecisionMade:
        ask = Ask(
            request="r",
            tenant="t",
            key="k",
            route="code",
            dialect="openai",
            session="s",
            input_tokens=tokens,
            max_output_tokens=200,
        )
        assert self.view is not None
        local = {PLAN: LocalView(uses=tuple(self.own))} if self.own else {}
        return decide(
            self.view,
            ask,
            lambda target, _pool: local.get(target, NOTHING_LOCAL),
            now_ns=at_ns,
            seed=1,
            decision=DecisionId("d"),
            code="test",
        )


def settled(uses: tuple[WindowUse, ...]) -> UsageSettled:
    fields: dict[str, Any] = {"attempt": AttemptId("a"), "target": PLAN, "pool": POOL, "route": "code"}
    return UsageSettled(basis="reported", outcome="completed", windows=uses, evidence=False, **fields)


def lived(strategy: Strategy, days: int, hears: Callable[[DemandSeen], bool] = lambda _: True) -> Month:
    world, waiting, at = World(strategy, hears), requests(days), 0
    for step in range(days * 24):
        begin = START_NS + step * STEP_NS
        end = at
        while end < len(waiting) and waiting[end][0] < begin + STEP_NS:
            end += 1
        world.snapshot(begin)
        world.serve(waiting[at:end])
        at = end
    return world.month


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Largest relative difference after the first day."""
    a, b = np.array(one[24:]), np.array(other[24:])
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1e-9)))


def check_same_demand(routed: Month, unused: Month) -> None:
    assert unused.chosen == 0
    assert apart(routed.demand, unused.demand) < 0.02
    assert apart(routed.worth, unused.worth) < 0.02


def check_steady(month: Month) -> None:
    """λ > 0 from the start, and a move is not followed by one back."""
    prices = np.array(month.shadow)
    assert np.all(prices > 0)
    assert np.all(np.isfinite(prices))
    inside = np.diff(month.period) == 0
    moves = np.diff(np.log(prices[:, 0]))[inside]
    assert np.corrcoef(moves[1:], moves[:-1])[0, 1] > -0.3


def test_the_demand_that_makes_the_price_is_the_same_whether_or_not_the_plan_is_used() -> None:
    routed = lived("cheapest", A_WEEK)
    assert routed.chosen > 300
    assert routed.refused > 10
    check_same_demand(routed, lived("declared", A_WEEK))
    check_steady(routed)


@pytest.mark.nightly
def test_over_a_month_only_unheard_demand_would_bend_the_price() -> None:
    routed = lived("cheapest", A_MONTH)
    check_same_demand(routed, lived("declared", A_MONTH))
    check_steady(routed)
    deaf = lived("cheapest", A_MONTH, lambda seen: seen.refused_until_ns is None)
    assert apart(deaf.demand, routed.demand) > 0.10
