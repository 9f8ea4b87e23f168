"""Expected cash where prices differ by length: what the ledger will charge for that request, and nothing new elsewhere."""

from __future__ import annotations

import pytest

from support.planning import (
    NOW_NS,
    ask,
    flat,
    of_target,
    plan,
    priced,
    routing,
    target,
    usd,
    verdict,
    window,
    world,
)
from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.events.decision import DecisionMade
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.events.snapshots import Belief

LONG = DatedPrice(
    input_uncached=usd(3), cache_read=usd(0.3), output=usd(15),
    variants=(
        VariantPrice(above_input_tokens=500, input_uncached=usd(6), output=usd(22.5)),
        VariantPrice(above_input_tokens=900, cache_read=usd(1), input_uncached=usd(7)),
        VariantPrice(service_tier="batch", input_uncached=usd(1), output=usd(1)),
        VariantPrice(service_tier="batch", above_input_tokens=100, input_uncached=usd(2)),
    ),
)  # fmt: skip


def cash(decision: DecisionMade, name: str = "a") -> int:
    found = verdict(decision, name).price
    assert found is not None
    return found.cash


@pytest.mark.parametrize("length", [1, 500, 501, 900, 901, 10_000])
def test_expected_cash_of_a_long_prompt_is_what_the_ledger_would_charge(length: int) -> None:
    decision = plan(world(routing([target("a", (LONG,))])), ask(input_tokens=length, max_output_tokens=100))
    assert cash(decision) == cost_nanousd(Tokens(length, output=100), LONG.list_price())


def test_the_long_price_decides_between_targets() -> None:
    flat_rate = target("b", priced(4, 15))
    config = routing([target("a", (LONG,)), flat_rate])
    short = plan(world(config), ask(input_tokens=500, max_output_tokens=1))
    long = plan(world(config), ask(input_tokens=501, max_output_tokens=1))
    assert (short.chosen, long.chosen) == ("a", "b")


def test_lengths_hold_from_the_day_of_their_price() -> None:
    later = DatedPrice(from_ns=NOW_NS + 1, input_uncached=usd(1), output=usd(1))
    config = routing([target("a", (LONG, later))])
    asked = ask(input_tokens=1_000, max_output_tokens=100)
    assert cash(plan(world(config), asked)) == usd((1_000 * 7 + 100 * 22.5) / 1e6)
    assert cash(plan(world(config), asked, now_ns=NOW_NS + 1)) == usd(1_100 / 1e6)


def test_what_is_billed_on_average_says_nothing_of_one_length() -> None:
    seen = of_target("a", price_input_uncached=Belief(usd(6), 1.0), price_output=Belief(usd(22), 1.0))
    config = routing([target("a", (LONG,))])
    asked = ask(input_tokens=500, max_output_tokens=100)
    assert cash(plan(world(config, seen), asked)) == usd((500 * 3 + 100 * 15) / 1e6)


def test_tiers_alone_leave_the_usual_price() -> None:
    tiers = DatedPrice(
        input_uncached=usd(3), output=usd(15),
        variants=(VariantPrice(service_tier="batch", input_uncached=usd(1), output=usd(1)),),
    )  # fmt: skip
    asked = ask(input_tokens=1_000, max_output_tokens=100)
    assert cash(plan(world(routing([target("a", (tiers,))])), asked)) == usd((3_000 + 1_500) / 1e6)


def test_variants_of_a_price_without_its_base_leave_the_price_unknown() -> None:
    nothing = DatedPrice(variants=(VariantPrice(above_input_tokens=10, input_uncached=usd(1)),))
    decision = plan(world(routing([target("a", (nothing,))])), ask(input_tokens=1_000))
    assert verdict(decision, "a").reason == "price_unknown"


def test_windows_in_dollars_count_the_long_price() -> None:
    pool = flat("p", window("w", "nanousd", usd(100)))
    decision = plan(
        world(routing([target("a", (LONG,), pool="p")], [pool])),
        ask(input_tokens=1_000, max_output_tokens=100),
    )
    (use,) = verdict(decision, "a").uses
    assert use.units == usd((1_000 * 7 + 100 * 22.5) / 1e6)
