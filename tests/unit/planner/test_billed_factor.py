"""What is billed is a factor on the list price in force when it is decided: dates, tiers and configs act at once."""

from __future__ import annotations

import pytest

from support.planning import (
    NOW_NS,
    S,
    ask,
    flat,
    of_target,
    plan,
    priced,
    reasons,
    routing,
    target,
    usd,
    verdict,
    window,
    world,
)
from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.events.decision import DecisionMade, LocalView, PriceParts
from tidegate.events.snapshots import Belief, BilledFactors, RateSnapshot
from tidegate.planner.view import View, view_of

DAY_NS = 86_400 * S
ASKED = ask(input_tokens=1_000, max_output_tokens=100)


def told(factor: float, *, prior: bool = False, old_price: float = 77.0) -> RateSnapshot:
    """What a target's bills say; beside it the price of the day the snapshot was made."""
    belief = Belief(factor, 1e-4, prior=prior)
    shown = Belief(usd(old_price), 1.0)
    return of_target(
        "a",
        billed=BilledFactors(input_uncached=belief, cache_read=belief, output=belief),
        price_input_uncached=shown,
        price_cache_read=shown,
        price_output=shown,
    )


def cash(view: View, now_ns: int = NOW_NS, local: dict[str, LocalView] | None = None) -> int:
    parts = verdict(plan(view, ASKED, local, now_ns=now_ns), "a").price
    assert parts is not None
    return parts.cash


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 1.25, 0.0])
@pytest.mark.parametrize(("before", "after"), [(10.0, 1.0), (1.0, 10.0)])
def test_a_dated_change_of_the_list_acts_at_its_date_at_the_factor_that_was_learned(
    factor: float, before: float, after: float
) -> None:
    first = DatedPrice(input_uncached=usd(before), output=usd(5 * before))
    second = DatedPrice(from_ns=NOW_NS, input_uncached=usd(after), output=usd(5 * after))
    view = world(routing([target("a", (first, second))]), told(factor))
    assert cash(view, NOW_NS - 1) == usd(factor * before * 1_500 / 1e6)
    assert cash(view) == cash(view, NOW_NS + 30 * DAY_NS) == usd(factor * after * 1_500 / 1e6)


def test_a_target_that_becomes_the_cheapest_by_date_is_chosen_from_then_on_without_a_bill() -> None:
    later = DatedPrice(from_ns=NOW_NS, input_uncached=usd(1), output=usd(5))
    config = routing([target("a", (*priced(10, 50), later)), target("b", priced(3, 15))])
    view = world(config, told(1.0, prior=True), of_target("b"))
    assert [plan(view, ASKED, now_ns=at_ns).chosen for at_ns in (NOW_NS - 1, NOW_NS)] == ["b", "a"]


def test_a_new_config_acts_at_once() -> None:
    snapshots = {each.subject: each for each in [told(0.8)]}
    found = [
        cash(view_of(routing([target("a", priced(usd_in, 5 * usd_in))]), snapshots)) for usd_in in (10, 1)
    ]
    assert found == [usd(0.8 * 10 * 1_500 / 1e6), usd(0.8 * 1_500 / 1e6)]


def test_without_a_bill_the_list_price_holds_to_the_last_nano_dollar() -> None:
    view = world(routing([target("a", priced(3, 15))]), told(0.999, prior=True))
    assert cash(view) == usd((3_000 + 1_500) / 1e6)


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0, 1e16])
def test_a_factor_that_is_no_number_leaves_the_list_price(nonsense: float) -> None:
    assert cash(world(routing([target("a", priced(3, 15))]), told(nonsense))) == usd((3_000 + 1_500) / 1e6)


def test_an_absurd_factor_leaves_a_price_that_can_be_recorded() -> None:
    assert cash(world(routing([target("a", priced(3, 15))]), told(1e14))) < 1 << 62


def test_each_class_has_its_own_factor_and_a_read_without_a_price_costs_its_share_of_the_uncached_one() -> (
    None
):
    snapshot = of_target(
        "a",
        billed=BilledFactors(
            input_uncached=Belief(0.5, 0.0), cache_read=Belief(0.25, 0.0), output=Belief(2.0, 0.0)
        ),
    )
    warm = {"a": LocalView(session_prompt_tokens=400, session_cached_tokens=400, session_at_ns=NOW_NS)}
    view = world(routing([target("a", priced(3, 15))]), snapshot)
    assert cash(view, local=warm) == usd((600 * 1.5 + 400 * 0.75 + 100 * 30) / 1e6)


def test_tiers_and_long_prompts_are_billed_at_the_same_factor() -> None:
    price = DatedPrice(
        input_uncached=usd(3), output=usd(15),
        variants=(
            VariantPrice(service_tier="flex", input_uncached=usd(1)),
            VariantPrice(above_input_tokens=999, input_uncached=usd(6)),
        ),
    )  # fmt: skip
    view = world(routing([target("a", (price,))]), told(0.5))
    assert cash(view) == usd(0.5 * (6_000 + 1_500) / 1e6)
    asked = ask(input_tokens=500, max_output_tokens=100, service_tiers=(("a", "flex"),))
    assert parts(plan(view, asked)).cash == usd(0.5 * (500 + 1_500) / 1e6)


def test_a_factor_of_no_list_price_is_no_price() -> None:
    assert reasons(plan(world(routing([target("a")]), told(0.8)), ASKED)) == {"a": "price_unknown"}


def test_in_a_flat_pool_nothing_is_billed_and_dollars_of_windows_are_counted_as_listed() -> None:
    pool = flat("p", window("w", "nanousd", usd(100)))
    made = plan(world(routing([target("a", priced(3, 15), pool="p")], [pool]), told(0.5)), ASKED)
    assert parts(made).cash == 0
    assert [use.units for use in verdict(made, "a").uses] == [usd((3_000 + 1_500) / 1e6)]


def parts(made: DecisionMade) -> PriceParts:
    found = verdict(made, "a").price
    assert found is not None
    return found
