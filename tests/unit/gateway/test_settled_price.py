"""The price a settlement tells: the one in force at the attempt's start, of this length and service tier."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.config import DatedPrice, Pool, Target, VariantPrice, Window
from tidegate.events.decision import WindowUse
from tidegate.events.journal.orphans import estimate
from tidegate.events.money import FREE, ListPrice, Tokens, cost_nanousd
from tidegate.events.signals import AttemptStarted, UsageSettled
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId
from tidegate.gateway import tiers
from tidegate.gateway.serving import ServedTarget
from tidegate.gateway.settlements import Ending, settle

MILLION = 1_000_000
LATER_NS = 1_000
PRICES = (
    DatedPrice(
        input_uncached=2 * MILLION,
        output=8 * MILLION,
        variants=(
            VariantPrice(above_input_tokens=100, input_uncached=4 * MILLION, output=12 * MILLION),
            VariantPrice(service_tier="priority", input_uncached=5 * MILLION),
        ),
    ),
    DatedPrice(from_ns=LATER_NS, input_uncached=MILLION, output=MILLION),
)
WINDOW = Window(id=WindowId("d"), unit="nanousd", limit=10**9, duration_s=60)


def served(billing: str = "per_token") -> ServedTarget:
    config = Target(
        id=TargetId("t"),
        dialect="openai",
        base_url="https://a.test",
        model="m",
        pool=PoolId("p"),
        prices=PRICES,
    )
    return ServedTarget(config, Pool(id=PoolId("p"), billing=billing, windows=(WINDOW,)), {})  # type: ignore[arg-type]


def started(target: ServedTarget, at_ns: int = 0, *, input_tokens: int = 50) -> AttemptStarted:
    return AttemptStarted(
        attempt=AttemptId("a"), target=TargetId("t"), pool=PoolId("p"), route="r", index=0,
        input_tokens=input_tokens, reserve_output_tokens=10, price=target.price(at_ns),
        windows=(WindowUse(WINDOW.id, 0, 77, 60 * 10**9),),
    )  # fmt: skip


def settled(tokens: Tokens, at_ns: int = 0, billing: str = "per_token") -> UsageSettled:
    target = served(billing)
    now = target.list_price(LATER_NS)  # the price has changed since
    return settle(started(target, at_ns), Ending(outcome="completed", tokens=tokens), target, now)


@pytest.mark.parametrize(
    ("tokens", "price"),
    [
        (Tokens(100, output=3), ListPrice(input_uncached=2 * MILLION, output=8 * MILLION)),
        (Tokens(1, 100, output=3), ListPrice(input_uncached=4 * MILLION, output=12 * MILLION)),
        (
            Tokens(100, output=3, service_tier="priority"),
            ListPrice(input_uncached=5 * MILLION, output=8 * MILLION),
        ),
        (
            Tokens(101, output=3, service_tier="priority"),
            ListPrice(input_uncached=5 * MILLION, output=12 * MILLION),
        ),
        (
            Tokens(100, output=3, service_tier="flex"),
            ListPrice(input_uncached=2 * MILLION, output=8 * MILLION),
        ),
    ],
)
def test_a_settlement_tells_the_one_price_it_was_charged_at(tokens: Tokens, price: ListPrice) -> None:
    event = settled(tokens)
    assert event.price == price
    assert event.cost_nanousd == cost_nanousd(tokens, price)
    assert [use.units for use in event.windows] == [event.cost_nanousd]


def test_a_price_that_changes_while_the_attempt_runs_changes_nothing_of_it() -> None:
    assert settled(Tokens(10, output=0)).cost_nanousd == 20
    assert settled(Tokens(10, output=0), LATER_NS).cost_nanousd == 10


def test_a_plain_price_is_told_as_it_is() -> None:
    target = served()
    start = started(target, LATER_NS)
    event = settle(start, Ending(outcome="completed", tokens=Tokens(1, output=1)), target, start.price)
    assert event.price is start.price


def test_in_a_flat_pool_dollars_of_windows_are_counted_at_the_list_price() -> None:
    event = settled(Tokens(10, output=0), billing="flat")
    assert (event.price, event.cost_nanousd) == (FREE, 0)
    assert [use.units for use in event.windows] == [10]


@pytest.mark.parametrize(
    "ending", [Ending(outcome="cancelled", produced_tokens=4), Ending(outcome="truncated")]
)
def test_streams_that_end_early_are_charged_by_the_length_that_was_estimated(ending: Ending) -> None:
    target = served()
    event = settle(started(target, input_tokens=200), ending, target, None)
    output = 10 if ending.produced_tokens is None else ending.produced_tokens
    assert (event.basis, event.cost_nanousd) == ("estimated", 200 * 4 + output * 12)
    assert event.price == ListPrice(input_uncached=4 * MILLION, output=12 * MILLION)
    assert event.tokens == Tokens()


def test_an_orphan_is_charged_by_the_length_that_was_estimated() -> None:
    event = estimate(started(served(), input_tokens=200))
    assert event.cost_nanousd == 200 * 4 + 10 * 12
    assert event.price == ListPrice(input_uncached=4 * MILLION, output=12 * MILLION)
    assert estimate(msgspec.structs.replace(started(served()), price=None)).price is None


TIERS = st.sampled_from([None, "standard", "priority", "flex"])


@given(
    asked=st.sampled_from([None, "priority", "flex"]),
    told=TIERS,
    usage=st.sampled_from([Tokens(), Tokens(120), Tokens(120, output=3), Tokens(90, 20, output=3)]),
    produced=st.none() | st.integers(0, 20),
    outcome=st.sampled_from(["completed", "cancelled", "truncated", "failed", "client_slow"]),
)
def test_however_an_attempt_ends_it_is_charged_as_the_tier_that_was_told_or_else_asked_for(
    asked: str | None, told: str | None, usage: Tokens, produced: int | None, outcome: Any
) -> None:
    """What the provider says of the tier counts, be it that it served as usual; where it says nothing, the ask does."""
    target = served()
    start = msgspec.structs.replace(started(target, input_tokens=200), service_tier=asked)
    tokens = msgspec.structs.replace(usage, service_tier=tiers.priced(told))
    ending = Ending(outcome=outcome, tokens=tokens, told_tier=told, produced_tokens=produced)
    event = settle(start, ending, target, None)
    is_priority = (asked if told is None else told) == "priority"
    is_long = (usage.known_input() or 200) > 100
    input_price, output_price = 5 if is_priority else 4 if is_long else 2, 12 if is_long else 8
    assert event.price == ListPrice(input_uncached=input_price * MILLION, output=output_price * MILLION)
    reads = 200 if usage.input_uncached is None else usage.known_input()
    output = usage.output if usage.output is not None else 10 if produced is None else produced
    assert event.cost_nanousd == reads * input_price + output * output_price
    assert event.tokens == tokens, "what was reported is told, not what was assumed"


@given(asked=st.sampled_from([None, "priority", "flex"]))
def test_an_orphan_is_charged_as_the_tier_it_asked_for(asked: str | None) -> None:
    start = msgspec.structs.replace(started(served(), input_tokens=100), service_tier=asked)
    event = estimate(start)
    assert event.cost_nanousd == 100 * (5 if asked == "priority" else 2) + 10 * 8
    assert event.tokens.service_tier is None


def test_a_start_of_before_tiers_were_told_is_charged_as_usual() -> None:
    old = msgspec.json.decode(msgspec.json.encode(started(served())), type=AttemptStarted)
    assert old.service_tier is None
    assert estimate(old).price == ListPrice(input_uncached=2 * MILLION, output=8 * MILLION)
