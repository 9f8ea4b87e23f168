"""A request that asks for a service tier is planned at the prices of that tier, by which it will be settled."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given

from support.planning import (
    NOW_NS,
    ask,
    flat,
    of_pool,
    of_target,
    plan,
    priced,
    reasons,
    routing,
    target,
    usd,
    used,
    verdict,
    window,
    world,
)
from support.planning_worlds import FAIR, World, tiered_worlds
from tidegate.events.clock import ManualClock
from tidegate.events.config import DatedPrice, Target, VariantPrice
from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.ids import IdSource
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.events.snapshots import Belief
from tidegate.events.types import TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner
from tidegate.planner.rng import SplitMix64
from tidegate.planner.view import View, view_of

TIERED = DatedPrice(
    input_uncached=usd(3), cache_read=usd(0.3), output=usd(15),
    variants=(
        VariantPrice(above_input_tokens=900, input_uncached=usd(6), output=usd(22.5)),
        VariantPrice(service_tier="flex", input_uncached=usd(1.5), output=usd(7.5)),
        VariantPrice(service_tier="priority", input_uncached=usd(6), output=usd(30)),
        VariantPrice(service_tier="priority", above_input_tokens=500, input_uncached=usd(9)),
    ),
)  # fmt: skip
PER_TOKEN = {
    (None, 500): (3, 15), (None, 901): (6, 22.5),
    ("flex", 500): (1.5, 7.5), ("flex", 901): (1.5, 7.5),
    ("priority", 500): (6, 30), ("priority", 901): (9, 30),
    ("batch", 500): (3, 15), ("batch", 901): (6, 22.5),
}  # fmt: skip
"""Dollars per million in and out, by tier and length. Of `flex` no long price is listed: that of all tiers comes before
what the tier says."""


def asking(tier: str | None, *names: str, **fields: int) -> Ask:
    return ask(
        service_tiers=() if tier is None else tuple((TargetId(name), tier) for name in names), **fields
    )


def cash(decision: DecisionMade, name: str = "a") -> int:
    found = verdict(decision, name).price
    assert found is not None
    return found.cash


def verdict_total(decision: DecisionMade, name: str) -> int:
    found = verdict(decision, name).price
    assert found is not None
    return found.total


@pytest.mark.parametrize(("tier", "length"), [*PER_TOKEN])
def test_expected_cash_is_that_of_the_tier_and_length(tier: str | None, length: int) -> None:
    asked = asking(tier, "a", input_tokens=length, max_output_tokens=100)
    into, out = PER_TOKEN[tier, length]
    assert cash(plan(world(routing([target("a", (TIERED,))])), asked)) == usd(
        (length * into + 100 * out) / 1e6
    )


PLACES: dict[str, tuple[Target, dict[str, str]]] = {
    "tiered": (target("a", (TIERED,)), {"flex": "a", "priority": "b"}),
    "untiered": (target("a", priced(3, 15)), {"flex": "a", "priority": "a"}),
    "half": (
        target("a", (DatedPrice(
            input_uncached=usd(3), output=usd(15), variants=(VariantPrice(service_tier="flex", output=usd(1)),)
        ),)),
        {"flex": "a", "priority": "a"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("place", "tier"), [*product(PLACES, ["flex", "priority"])])
def test_the_price_of_the_tier_decides_between_targets(place: str, tier: str) -> None:
    """Beside a target whose prices know no tiers; what it lists not for the tier costs as usual."""
    first, chosen = PLACES[place]
    config = routing([first, target("b", priced(4, 16))])
    asked = asking(tier, "a", "b", input_tokens=100, max_output_tokens=100)
    assert plan(world(config), asked).chosen == chosen[tier]


def test_a_target_that_cannot_be_told_of_the_tier_costs_as_usual_and_may_be_the_better_one() -> None:
    config = routing([target("a", (TIERED,)), target("b", (TIERED,))])
    asked = asking("priority", "a", input_tokens=100, max_output_tokens=100)
    made = plan(world(config), asked)
    assert (made.chosen, cash(made, "a"), cash(made, "b")) == ("b", 2 * cash(made, "b"), usd(1_800 / 1e6))


@pytest.mark.parametrize(("tier", "admitted"), [(None, True), ("flex", True), ("priority", False)])
def test_the_cap_of_a_route_holds_against_the_price_of_the_tier(tier: str | None, admitted: bool) -> None:
    config = routing([target("a", (TIERED,))], max_cost_nanousd=usd(0.002))
    made = plan(world(config), asking(tier, "a", input_tokens=100, max_output_tokens=100))
    assert reasons(made) == {"a": None if admitted else "cost_cap"}


def test_windows_in_dollars_take_what_the_tier_is_worth() -> None:
    pool = flat("p", window("w", "nanousd", usd(100)))
    view = world(routing([target("a", (TIERED,), pool="p")], [pool]))
    units = [
        verdict(plan(view, asking(tier, "a", input_tokens=100, max_output_tokens=100)), "a").uses[0].units
        for tier in (None, "flex", "priority")
    ]
    assert units == [usd(0.0018), usd(0.0009), usd(0.0036)]


def test_a_tier_of_which_alone_a_price_is_known_can_be_asked_for() -> None:
    only = DatedPrice(variants=(VariantPrice(service_tier="batch", input_uncached=usd(1), output=usd(2)),))
    view = world(routing([target("a", (only,))]))
    assert reasons(plan(view, asking(None, "a"))) == {"a": "price_unknown"}
    assert cash(plan(view, asking("batch", "a"))) == usd(0.0012)


def test_a_tier_costs_what_it_is_listed_at_from_the_day_it_is_listed() -> None:
    before = DatedPrice(input_uncached=usd(1), output=usd(1))
    after = DatedPrice(
        from_ns=NOW_NS, input_uncached=usd(2), output=usd(2),
        variants=(VariantPrice(service_tier="flex", input_uncached=usd(1.5)),),
    )  # fmt: skip
    seen = of_target("a", price_input_uncached=Belief(usd(1.25), 1.0))
    view = world(routing([target("a", (before, after))]), seen)
    asked = asking("flex", "a", input_tokens=1_000, max_output_tokens=100)
    assert cash(plan(view, asked, now_ns=NOW_NS - 1)) == usd((1_250 + 100) / 1e6), "as it was billed then"
    assert cash(plan(view, asked)) == usd((1_500 + 200) / 1e6)


def test_a_price_that_begins_later_is_unknown_before_at_every_tier() -> None:
    later = DatedPrice(
        from_ns=NOW_NS + 1, input_uncached=usd(2), output=usd(2),
        variants=(VariantPrice(service_tier="flex", input_uncached=usd(1)),),
    )  # fmt: skip
    view = world(routing([target("a", (later,))]))
    asked = asking("flex", "a", input_tokens=1_000, max_output_tokens=100)
    assert reasons(plan(view, asked)) == {"a": "price_unknown"}
    assert cash(plan(view, asked, now_ns=NOW_NS + 1)) == usd((1_000 + 200) / 1e6)


class Held:
    def __init__(self, view: View) -> None:
        self.view = view


def planner_of(view: View) -> Planner:
    clock = ManualClock(NOW_NS)
    return Planner(
        Held(view), Overlay("gw@1"), clock, IdSource(clock, lambda bits: 0), SplitMix64(0), "build-1"
    )


def test_what_is_tried_next_is_held_against_the_cap_at_the_price_of_the_tier() -> None:
    planner = planner_of(world(routing([target("a", (TIERED,))], max_cost_nanousd=usd(0.002))))
    size = {"input_tokens": 100, "max_output_tokens": 100}
    assert planner.may_still_try(asking("flex", "a", **size), TargetId("a"))
    assert not planner.may_still_try(asking("priority", "a", **size), TargetId("a"))


def test_demand_is_worth_what_the_tier_costs_elsewhere() -> None:
    """Also where the pool itself was refused for want of quota, and its dollars are those of the tier."""
    pool = flat("p", window("w", "nanousd", usd(1)))
    asked = asking("priority", "a", "b", input_tokens=100, max_output_tokens=100)
    full = of_pool("p", used("w", usd(0.998), usd(1)))
    config = routing([target("a", (TIERED,), pool="p"), target("b", (TIERED,))], [pool])
    planner = planner_of(world(config, full))
    planned = planner.plan(asked)
    assert reasons(planned) == {"a": "window_exhausted", "b": None}
    (seen,) = planner.demand(planned)
    assert (seen.windows[0].units, seen.alternative_nanousd) == (usd(0.0036), verdict_total(planned, "b"))
    alone = planner_of(world(routing([target("a", (TIERED,), pool="p")], [pool])))
    (seen,) = alone.demand(alone.plan(asked))
    assert (seen.windows[0].units, seen.alternative_nanousd) == (usd(0.0036), usd(0.0036))


@FAIR
@given(tiered_worlds())
def test_what_is_planned_is_what_will_be_settled_for_as_many_tokens(world: World) -> None:
    """At list prices, whatever tiers, lengths, days and cached tokens there are."""
    made = plan(view_of(world.routing), world.ask, world.local)
    tiers = dict(world.ask.service_tiers)
    for listed, found in zip(world.routing.targets, made.candidates, strict=True):
        price = listed.list_price(NOW_NS)
        if (
            found.price is None
            or found.expected_output_tokens is None
            or price is None
            or listed.pool == "flat"
        ):
            continue
        cached = found.expected_cached_tokens or 0
        tokens = Tokens(
            input_uncached=world.ask.input_tokens - cached,
            cache_read=cached,
            output=found.expected_output_tokens,
            service_tier=tiers.get(listed.id),
        )
        assert found.price.cash == cost_nanousd(tokens, price)
