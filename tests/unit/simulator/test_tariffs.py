"""What a request is charged by: tier, length and date, each tariff replacing what it names."""

from __future__ import annotations

import pytest

from tidegate.simulator.config import Model, Tariff
from tidegate.simulator.invoice import cost_nanousd
from tidegate.simulator.loading import ConfigError, load
from tidegate.simulator.tariffs import Charge, prices, served_tier
from tidegate.simulator.tokens import TokenClasses

MODEL = Model(
    name="m",
    input_uncached=10,
    output=20,
    web_search=7,
    tiers=("flex", "priority"),
    tariffs=(
        Tariff(above_input_tokens=100, input_uncached=30),
        Tariff(service_tier="flex", input_uncached=5, output=8),
        Tariff(service_tier="priority", above_input_tokens=100, output=90),
        Tariff(from_s=1000.0, service_tier="flex", output=9, request=1),
    ),
)


@pytest.mark.parametrize(
    ("prompt", "charge", "uncached", "output", "request_fee"),
    [
        (100, Charge(), 10, 20, 0),
        (101, Charge(), 30, 20, 0),
        (100, Charge("flex"), 5, 8, 0),
        (101, Charge("flex"), 5, 8, 0),
        (100, Charge("priority"), 10, 20, 0),
        (101, Charge("priority"), 30, 90, 0),
        (1, Charge("flex", 999.0), 5, 8, 0),
        (1, Charge("flex", 1000.0), 5, 9, 1),
        (1, Charge(None, 2000.0), 10, 20, 0),
    ],
)
def test_the_last_tariff_that_holds_and_names_a_price_sets_it(
    prompt: int, charge: Charge, uncached: int, output: int, request_fee: int
) -> None:
    found = prices(MODEL, prompt, charge)
    assert (found.input_uncached, found.output, found.request) == (uncached, output, request_fee)
    assert (found.cache_read, found.cache_write_5m, found.web_search) == (uncached, uncached, 7)


def test_length_counts_what_was_cached_and_searches_and_requests_are_charged_beside() -> None:
    tokens = TokenClasses(input_uncached=1, cache_read=100, output=1, web_searches=2)
    model = Model(
        name="m",
        input_uncached=10**6,
        output=10**6,
        web_search=10**8,
        request=5 * 10**6,
        tariffs=(Tariff(above_input_tokens=100, input_uncached=2 * 10**6),),
    )
    assert cost_nanousd(tokens, model) == 101 * 2 + 1 + 200 + 5


@pytest.mark.parametrize(
    ("asked", "usual", "served"),
    [
        (None, None, None),
        ("auto", "priority", "priority"),
        (None, "priority", "priority"),
        ("default", "priority", None),
        ("flex", "priority", "flex"),
        ("scale", None, None),
    ],
)
def test_a_tier_is_served_where_it_is_offered(
    asked: str | None, usual: str | None, served: str | None
) -> None:
    model = Model(name="m", tiers=("flex", "priority"), usual_tier=usual)
    assert served_tier(asked, model) == served


def test_a_tariff_of_a_tier_that_is_not_offered_is_a_mistake() -> None:
    model = {
        "name": "m",
        "input_uncached": 1,
        "output": 1,
        "tariffs": [{"service_tier": "flex", "output": 1}],
    }
    with pytest.raises(ConfigError, match="the tier flex is not among its tiers"):
        load({"providers": [{"id": "p", "models": [model]}]})
