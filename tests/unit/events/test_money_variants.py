"""Parts, long prompts and service tiers: every number of a price list counts, exactly once, and no other."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.events.config import (
    Candidate,
    DatedPrice,
    Pool,
    Route,
    Routing,
    Target,
    Tenant,
    VariantPrice,
    Window,
)
from tidegate.events.money import MILLION, ListPrice, PartPrices, PriceVariant, Tokens, cost_nanousd
from tidegate.events.types import PoolId, RouteName, TargetId, TenantId, WindowId

CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
WHOLE_OF = {
    "reasoning": "output",
    "input_audio": "input_uncached",
    "input_image": "input_uncached",
    "cache_read_audio": "cache_read",
    "output_audio": "output",
    "output_image": "output",
}
BESIDE = {"web_search": "web_searches", "request": None}
PARTS = (*WHOLE_OF, *BESIDE)
prices = st.integers(0, 10**12)
maybe_price = st.none() | prices
full_prices = st.builds(ListPrice, **dict.fromkeys(CLASSES, prices))
gappy_prices = st.builds(
    ListPrice, **dict.fromkeys(CLASSES, maybe_price),
    parts=st.none() | st.builds(PartPrices, **dict.fromkeys(PARTS, maybe_price)),
)  # fmt: skip
part_prices = st.builds(PartPrices, **dict.fromkeys(PARTS, maybe_price))
tiers = st.sampled_from([None, "batch", "flex", "priority"])
variants = st.builds(PriceVariant, gappy_prices, st.integers(-1, 500_000), tiers)
variant_prices = st.builds(
    ListPrice, **dict.fromkeys(CLASSES, prices), parts=st.none() | part_prices,
    variants=st.lists(variants, max_size=4).map(tuple),
)  # fmt: skip


@st.composite
def uses(draw: st.DrawFn) -> Tokens:
    """Classes, and parts that together are no more than their class."""
    counts = {name: draw(st.integers(0, 200_000)) for name in CLASSES}
    left = dict(counts)
    for part, whole in WHOLE_OF.items():
        counts[part] = draw(st.integers(0, left[whole]))
        left[whole] -= counts[part]
    return Tokens(**counts, web_searches=draw(st.none() | st.integers(0, 50)), service_tier=draw(tiers))


def exact_cost(tokens: Tokens, price: ListPrice) -> int:
    """By Fractions, and the other way round: each part is billed by itself, the rest of its class after it."""
    rates: dict[str, int | None] = {name: getattr(price, name) for name in (*CLASSES,)}
    parts: dict[str, int | None] = {name: getattr(price.parts or PartPrices(), name) for name in PARTS}
    for variant in price.variants:
        fits = variant.service_tier is None or variant.service_tier == tokens.service_tier
        if fits and tokens.known_input() > variant.above_input_tokens:
            for names, into, of in ((CLASSES, rates, variant.price), (PARTS, parts, variant.price.parts)):
                into.update({n: getattr(of, n) for n in names if of and getattr(of, n) is not None})
    total = Fraction(parts["request"] or 0, MILLION)
    total += Fraction((tokens.web_searches or 0) * (parts["web_search"] or 0), MILLION)
    rest = {name: getattr(tokens, name) or 0 for name in CLASSES}
    for part, whole in WHOLE_OF.items():
        count, rate = getattr(tokens, part) or 0, parts[part]
        if rate is not None:
            rest[whole] -= count
            total += Fraction(count * rate, MILLION)
    for name in CLASSES:
        total += Fraction(rest[name] * (rates[name] or 0), MILLION)
    return floor(total + Fraction(1, 2))


@pytest.mark.unmeasured
@settings(max_examples=120)
@given(uses(), variant_prices)
def test_a_cost_with_parts_and_variants_is_the_exact_sum_rounded_once(
    tokens: Tokens, price: ListPrice
) -> None:
    assert cost_nanousd(tokens, price) == exact_cost(tokens, price)


@pytest.mark.unmeasured
@settings(max_examples=60)
@given(uses(), variant_prices)
def test_the_plain_price_of_a_use_costs_the_same_and_has_no_variants(
    tokens: Tokens, price: ListPrice
) -> None:
    plain = price.plain_for(tokens)
    assert plain.variants == ()
    assert cost_nanousd(tokens, plain) == cost_nanousd(tokens, price)
    assert plain.plain_for(tokens) is plain


USE = Tokens(
    1_000, 2_000, 300, 400, 500, reasoning=50, input_audio=60, input_image=70, cache_read_audio=80,
    output_audio=90, output_image=100, web_searches=3, service_tier="flex",
)  # fmt: skip
PRICE = ListPrice(
    3_000_000, 300_000, 3_750_000, 6_000_000, 15_000_000,
    parts=PartPrices(16_000_000, 40_000_000, 5_000_000, 2_000_000, 80_000_000, 120_000_000, 10**10, 5 * 10**9),
)  # fmt: skip


@pytest.mark.parametrize("name", [*CLASSES, *PARTS])
def test_each_number_of_a_price_list_is_charged(name: str) -> None:
    """What one more nano-dollar per token adds says how many tokens are charged at it."""
    parts = {n: getattr(PRICE.parts, n) for n in PARTS}
    if name in PARTS:
        dearer = msgspec.structs.replace(PRICE, parts=PartPrices(**{**parts, name: parts[name] + MILLION}))
        counted = 1 if name == "request" else getattr(USE, BESIDE.get(name) or name)
    else:
        dearer = msgspec.structs.replace(PRICE, **{name: getattr(PRICE, name) + MILLION})
        apart = sum(getattr(USE, part) for part, whole in WHOLE_OF.items() if whole == name)
        counted = getattr(USE, name) - apart
    before, after = cost_nanousd(USE, PRICE), cost_nanousd(USE, dearer)
    assert isinstance(before, int)
    assert after == before + counted


@pytest.mark.parametrize("name", [*CLASSES, *WHOLE_OF, "web_searches"])
def test_each_count_of_a_use_is_charged_at_its_own_price(name: str) -> None:
    more = msgspec.structs.replace(USE, **{name: getattr(USE, name) + 1})
    if name in WHOLE_OF:  # one more of the part is one less of the rest
        added = getattr(PRICE.parts, name) - getattr(PRICE, WHOLE_OF[name])
    else:
        added = getattr(PRICE.parts, "web_search", 0) if name == "web_searches" else getattr(PRICE, name)
    before, after = cost_nanousd(USE, PRICE), cost_nanousd(more, PRICE)
    assert before is not None
    assert after == floor(Fraction(before * MILLION + added, MILLION) + Fraction(1, 2))


def test_a_part_without_a_price_costs_what_its_class_costs() -> None:
    plain = msgspec.structs.replace(PRICE, parts=None)
    assert cost_nanousd(USE, msgspec.structs.replace(PRICE, parts=PartPrices())) == cost_nanousd(USE, plain)


def test_sound_from_the_cache_is_compared_with_what_a_read_costs_where_reads_are_not_listed() -> None:
    price = ListPrice(input_uncached=4 * MILLION, output=MILLION, parts=PartPrices(cache_read_audio=MILLION))
    assert cost_nanousd(Tokens(0, 10, output=0, cache_read_audio=4), price) == 6 * 4 + 4


def test_more_of_a_part_than_of_its_class_is_charged_as_the_class_only() -> None:
    price = ListPrice(
        input_uncached=MILLION, output=2 * MILLION, parts=PartPrices(reasoning=0, output_audio=0)
    )
    assert cost_nanousd(Tokens(10, output=5, reasoning=9), price) == 10


MARK = 200_000
LONG = ListPrice(
    input_uncached=3 * MILLION, cache_read=MILLION, output=15 * MILLION,
    variants=(PriceVariant(ListPrice(input_uncached=6 * MILLION, output=22 * MILLION), MARK),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        (Tokens(MARK, output=1), 3 * MARK + 15),
        (Tokens(MARK + 1, output=1), 6 * (MARK + 1) + 22),
        (Tokens(1, MARK - 1, output=1), 3 + MARK - 1 + 15),
        (Tokens(1, MARK, output=1), 6 + MARK + 22),
        (Tokens(1, 0, MARK, output=1), None),
    ],
)
def test_a_long_prompt_is_charged_at_the_long_price_from_its_first_token(
    tokens: Tokens, cost: int | None
) -> None:
    if cost is None:  # a write without a price costs the dearest class of the price in force
        cost = 6 + MARK * 22 + 22
    assert cost_nanousd(tokens, LONG) == cost


def tiered() -> ListPrice:
    return DatedPrice(
        input_uncached=4 * MILLION,
        output=8 * MILLION,
        web_search=MILLION,
        variants=(
            VariantPrice(service_tier="batch", above_input_tokens=100, input_uncached=3 * MILLION),
            VariantPrice(service_tier="batch", input_uncached=2 * MILLION, output=4 * MILLION, web_search=7),
            VariantPrice(above_input_tokens=100, input_uncached=6 * MILLION),
            VariantPrice(service_tier="priority", input_uncached=9 * MILLION),
        ),
    ).list_price()


@pytest.mark.parametrize(
    ("tier", "length", "rates"),
    [
        (None, 100, (4, 8)),
        (None, 101, (6, 8)),
        ("batch", 100, (2, 4)),
        ("batch", 101, (3, 4)),
        ("priority", 100, (9, 8)),
        ("priority", 101, (9, 8)),
        ("flex", 100, (4, 8)),
        ("flex", 101, (6, 8)),
    ],
)
def test_the_most_particular_variant_wins_in_whatever_order_it_was_declared(
    tier: str | None, length: int, rates: tuple[int, int]
) -> None:
    tokens = Tokens(length, output=10, service_tier=tier)
    assert cost_nanousd(tokens, tiered()) == length * rates[0] + 10 * rates[1]


def test_a_part_of_a_variant_replaces_only_that_part() -> None:
    plain = tiered().plain_for(Tokens(1, output=1, service_tier="batch"))
    assert plain.parts == PartPrices(web_search=7)
    with_request = msgspec.structs.replace(tiered(), parts=PartPrices(request=5, web_search=6))
    batch = with_request.plain_for(Tokens(1, output=1, service_tier="batch"))
    assert batch.parts == PartPrices(request=5, web_search=7)


def test_a_price_whose_variant_lacks_what_the_base_lacks_stays_unknown() -> None:
    price = ListPrice(input_uncached=1, variants=(PriceVariant(ListPrice(input_uncached=2)),))
    assert cost_nanousd(Tokens(1, output=1), price) is None


def test_filled_prices_keep_parts_and_variants() -> None:
    assert LONG.filled().variants == LONG.variants
    assert PRICE.filled().parts == PRICE.parts


def test_plain_prices_and_tokens_are_written_as_they_always_were() -> None:
    price = DatedPrice(input_uncached=1, output=2).list_price()
    assert msgspec.json.encode(price) == b'{"input_uncached":1,"output":2}'
    assert msgspec.json.encode(DatedPrice(input_uncached=1, output=2)) == b'{"input_uncached":1,"output":2}'
    assert msgspec.json.encode(Tokens(1, output=2)) == b'{"input_uncached":1,"output":2}'


def test_a_config_of_plain_prices_has_the_digest_it_always_had() -> None:
    """Decisions name it: they are replayed with the config of that digest."""
    prices = (
        DatedPrice(input_uncached=3, cache_read=1, cache_write_5m=4, cache_write_1h=5, output=15),
        DatedPrice(from_ns=7, input_uncached=2, output=9),
    )
    target = Target(
        id=TargetId("x"),
        dialect="openai",
        base_url="https://a.test",
        model="m",
        pool=PoolId("p"),
        prices=prices,
    )
    window = Window(id=WindowId("w"), unit="tokens", limit=5, duration_s=60)
    routing = Routing(
        tenants=(Tenant(id=TenantId("t")),),
        pools=(Pool(id=PoolId("p"), billing="flat", windows=(window,)),),
        targets=(target,),
        routes=(Route(name=RouteName("r"), candidates=(Candidate(target=target.id),)),),
    )
    assert routing.digest() == "sha256:23c6a4c17696d71d5f7eaf3ef219ddd2b01c43aa3f37582d7ac8d32cb70f371d"


@pytest.mark.unmeasured
@given(variant_prices)
def test_a_price_with_everything_survives_the_log(price: ListPrice) -> None:
    assert msgspec.json.decode(msgspec.json.encode(price), type=ListPrice) == price
    assert hash(price) == hash(msgspec.json.decode(msgspec.json.encode(price), type=ListPrice))


@pytest.mark.parametrize(
    "bad",
    [
        {"service_tier": "Priority"},
        {"service_tier": ""},
        {"above_input_tokens": 0},
        {"input_uncached": -1},
        {"cache": 1},
    ],
)
def test_a_variant_that_cannot_hold_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, VariantPrice)
