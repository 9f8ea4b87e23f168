"""The built-in price book is the pinned package's, number by number; names lead to prices or to near names."""

from __future__ import annotations

import datetime as dt
import json
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from genai_prices import types as package
from genai_prices.data import providers

from support import price_book_data
from support.shared_data import shared_data
from tidegate.events.config import DatedPrice, Target
from tidegate.events.money import MILLION, Tokens, cost_nanousd
from tidegate.runtime.pricebook import genai
from tidegate.runtime.pricebook.book import (
    PriceBook,
    UnknownModel,
    built_in,
    built_in_data,
    matches,
    read_genai,
)
from tidegate.runtime.pricebook.entries import PER_MILLION, ModelPrices, Unreadable, in_force, nanousd
from tidegate.runtime.pricebook.genai import SEARCH_FEES

UNREPORTED = {"cache_image_read_mtok", "input_video_mtok", "output_video_mtok", "output_citation_mtok"}
"""Prices of counts that no dialect of ours reports."""


def test_the_built_in_book_is_the_data_of_the_pinned_package() -> None:
    assert built_in_data() == price_book_data.book(), "run: python tests/support/price_book_data.py"
    assert price_book_data.encoded() == price_book_data.encoded()


def test_every_price_tells_where_it_comes_from_and_of_what_day_it_is() -> None:
    origin = f"genai-prices {built_in_data()['version']} of {built_in_data()['released']}"
    found = list(built_in().entries())
    assert len(found) > 2_000
    assert all((price.source or "").startswith(f"{origin} ") for each in found for price in each.prices)


USES = (
    Tokens(1_000, output=100),
    Tokens(1_000, 500, 300, output=100, reasoning=40),
    Tokens(90_000, 60_000, 55_000, output=2_000, web_searches=2),
    Tokens(200_000, 72_001, 10, output=1),
    Tokens(10, 100_000_000, output=1),
    Tokens(999, output=77, input_audio=99, output_audio=7),
)
CONTEXTS: tuple[tuple[str | None, dict[str, str]], ...] = (
    (None, {}),
    ("batch", {"processing": "batch"}),
    ("flex", {"service_tier": "flex"}),
    ("priority", {"service_tier": "priority"}),
    ("fast", {"service_tier": "fast", "speed": "fast"}),
)
DAYS = tuple(dt.datetime(2026, month, day, 12, tzinfo=dt.UTC) for month, day in ((1, 2), (9, 3), (11, 30)))


def in_package_words(tokens: Tokens) -> package.Usage:
    return package.Usage(
        input_tokens=tokens.known_input(),
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write_5m,
        output_tokens=tokens.output,
        output_reasoning_tokens=tokens.reasoning,
        input_audio_tokens=tokens.input_audio,
        output_audio_tokens=tokens.output_audio,
        web_searches=tokens.web_searches,
    )


def is_comparable(model: package.ModelInfo, prices: package.ModelPrice, tokens: Tokens) -> bool:
    """Left out: counts we never see, prices by the hour of the day, writes that cost our ceiling, not theirs."""
    listed = {name for name, value in vars(prices).items() if value is not None}
    hours = isinstance(model.prices, list) and any(
        isinstance(each.constraint, package.TimeOfDateConstraint) for each in model.prices
    )
    return not (hours or listed & UNREPORTED or (tokens.cache_write_5m and "cache_write_mtok" not in listed))


OFTEN = ("anthropic", "openai", "google", "aws", "x-ai", "perplexity", "mistral")


@pytest.mark.parametrize("vendor", OFTEN)
def test_a_cost_is_what_the_package_itself_works_out_of_its_prices(vendor: str) -> None:
    assert compared_with_the_package(vendor) > 50


@pytest.mark.nightly
def test_costs_of_every_vendor_are_what_the_package_works_out() -> None:
    counts = {each.id: compared_with_the_package(each.id) for each in providers if each.id not in OFTEN}
    assert sum(counts.values()) > 10_000
    assert sum(1 for count in counts.values() if count) > 30


def compared_with_the_package(vendor: str) -> int:
    """How many costs were compared; a difference fails."""
    (provider,) = [each for each in providers if each.id == vendor]
    book, compared = built_in(), 0
    for model in provider.models:
        found = book.get(f"{vendor}/{model.id}")
        if found is None:
            continue
        target = Target(id="t", dialect="openai", base_url="https://x.test", model="m", prices=found.prices)  # type: ignore[arg-type]
        for day in DAYS:
            price = target.list_price(int(day.timestamp()) * 10**9)
            assert price is not None
            for tier, context in CONTEXTS:
                theirs = model.get_prices(day, context)  # type: ignore[arg-type]
                for tokens in USES:
                    if is_comparable(model, theirs, tokens):
                        total = theirs.calc_price(in_package_words(tokens))["total_price"]
                        exact = (Decimal(total) * 10**9).to_integral_value(ROUND_HALF_UP) + fee_of(found)
                        used = Tokens(**{**as_dict(tokens), "service_tier": tier})
                        assert cost_nanousd(used, price) == exact, (model.id, day, tier, tokens)
                        compared += 1
    return compared


def fee_of(model: ModelPrices) -> int:
    """What we add of our own: the search in every answer of some models, which the package knows nothing of."""
    return SEARCH_FEES.get(model.id, 0) // MILLION


def test_models_that_always_search_have_a_fee_for_each_request_and_say_where_it_is_from() -> None:
    for name, fee in SEARCH_FEES.items():
        for price in built_in().find(name).prices:
            assert price.request == fee
            assert "search fee: OpenAI" in (price.source or "")
    assert built_in().find("openai/gpt-4o").prices[-1].request is None


def as_dict(tokens: Tokens) -> dict[str, Any]:
    return {name: getattr(tokens, name) for name in tokens.__struct_fields__}


def test_hours_of_the_day_are_charged_at_the_dearest_and_say_so() -> None:
    price = built_in().find("deepseek/deepseek-flash").prices[-1]
    assert (price.input_uncached, price.cache_read, price.output) == (300_000_000, 6_000_000, 1_200_000_000)
    assert (price.source or "").endswith("(dearest hour)")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("openai/gpt-4.1", "openai/gpt-4.1"),
        ("openai/gpt-4.1-2025-04-14", "openai/gpt-4.1"),
        ("openai/GPT-4.1", "openai/gpt-4.1"),
        ("anthropic/claude-sonnet-5-5-20261001", "anthropic/claude-sonnet-5-5"),
    ],
)
def test_a_model_is_found_by_every_name_its_provider_gives_it(name: str, found: str) -> None:
    assert built_in().find(name).id == found
    assert built_in().get(name) == built_in().find(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("openai/gpt-4.11", "openai/gpt-4.1"),
        ("gpt-4.1", "openai/gpt-4.1"),
        ("opnai/gpt-4.1", "openai/gpt-4.1"),
    ],
)
def test_an_unknown_model_is_refused_with_what_is_near(name: str, near: str) -> None:
    with pytest.raises(UnknownModel, match=f"`{name}` is not in the price book; near it: .*{near}"):
        built_in().find(name)
    assert built_in().get(name) is None


def test_a_name_that_is_like_none_is_told_where_to_look() -> None:
    with pytest.raises(UnknownModel, match="see `tidegate prices list`"):
        built_in().find("qqqqqqqqqqqq/zzzzzzzzzzzz")


def test_a_model_without_a_price_per_token_is_refused_as_such() -> None:
    names = [
        {"id": "free", "match": {"equals": "free"}},
        {"id": "sound", "match": {"equals": "x"}, "prices": {"audio_hours": "1"}},
    ]
    book = PriceBook([{"id": "p", "models": names}], "o")
    for name in ("p/free", "p/sound"):
        with pytest.raises(UnknownModel, match=f"`{name}` has no price per token"):
            book.find(name)
    assert list(book.entries()) == []


def test_models_of_a_file_go_before_those_of_the_book() -> None:
    own = ModelPrices(id="openai/gpt-4.1", prices=(DatedPrice(input_uncached=1, output=2),))
    new = ModelPrices(id="mine/m", prices=(DatedPrice(input_uncached=3, output=4),))
    book = built_in((own, new))
    assert book.find("openai/gpt-4.1") is own
    assert book.find("mine/m") is new
    entries = {each.id: each for each in book.entries()}
    assert entries["openai/gpt-4.1"] is own
    assert (new.provider, new.model) == ("mine", "m")


@pytest.mark.parametrize(
    ("rule", "name", "is_match"),
    [
        ({"equals": "A-b"}, "a-b", True),
        ({"equals": "a"}, "ab", False),
        ({"starts_with": "Gpt"}, "gpt-4", True),
        ({"starts_with": "gpt"}, "a-gpt", False),
        ({"ends_with": "-Latest"}, "x-latest", True),
        ({"ends_with": "-latest"}, "latest-x", False),
        ({"contains": "Claude"}, "a.claude.b", True),
        ({"contains": "claude"}, "clau", False),
        ({"regex": r"^o\d$"}, "o3", True),
        ({"regex": r"^o\d$"}, "o33", False),
        ({"or": [{"equals": "a"}, {"equals": "b"}]}, "b", True),
        ({"or": [{"equals": "a"}, {"equals": "b"}]}, "c", False),
        ({"and": [{"contains": "a"}, {"contains": "b"}]}, "ab", True),
        ({"and": [{"contains": "a"}, {"contains": "b"}]}, "a", False),
    ],
)
def test_names_match_by_the_rules_of_the_data(rule: dict[str, Any], name: str, is_match: bool) -> None:
    assert matches(rule, name) is is_match


def test_a_rule_that_nobody_knows_is_refused() -> None:
    with pytest.raises(Unreadable, match="`sounds_like`"):
        matches({"sounds_like": "a"}, "a")


@pytest.mark.parametrize("text", [b"{", b'{"a": 1}', b"[1]", b'[{"id": "x"}]'])
def test_what_is_not_the_data_of_the_package_is_refused(text: bytes) -> None:
    with pytest.raises(Unreadable, match=r"f\.json"):
        read_genai(text, "f.json")


@pytest.mark.parametrize(
    "prices", [[], None, {"input_mtok": "x", "output_mtok": "1"}, {"input_mtok": {"base": 1}}, [1]]
)
def test_a_model_whose_prices_cannot_be_read_is_named(prices: Any) -> None:
    book = PriceBook([{"id": "p", "models": [{"id": "m", "match": {"equals": "m"}, "prices": prices}]}], "o")
    with pytest.raises(Unreadable, match="model p/m cannot be read"):
        book.get("p/m")


def model(**fields: Any) -> dict[str, Any]:
    return {"id": "m", "match": {"equals": "m"}, **fields}


def test_variants_begin_on_their_own_days_and_the_first_of_two_wins() -> None:
    found = genai.model_prices(
        "p",
        model(
            prices=[
                {"prices": {"input_mtok": "4", "output_mtok": "8"}},
                {
                    "constraint": {"start_date": "2026-03-01"},
                    "prices": {"input_mtok": "3", "output_mtok": "6"},
                },
            ],
            price_variants=[
                {
                    "when": {"service_tier": "flex"},
                    "prices": {"input_mtok": "1"},
                    "constraint": {"start_date": "2026-02-01"},
                },
                {"when": {"service_tier": "flex"}, "prices": {"input_mtok": "9", "output_mtok": "2"}},
                {"when": {"service_tier": "default"}, "prices": {"input_mtok": "9"}},
                {"when": {"route": "eu"}, "prices": {"input_mtok": "9"}},
                {"when": {"speed": "fast"}, "prices": {"requests_kcount": "5"}},
                {"when": {"service_tier": "a", "speed": "b"}, "prices": {"input_mtok": "9"}},
                {"when": {"service_tier": "none"}, "prices": {"audio_hours": "9"}},
            ],
        ),
        "s",
    )
    assert found is not None
    assert [price.input_uncached for price in found.prices] == [
        4 * PER_MILLION,
        4 * PER_MILLION,
        3 * PER_MILLION,
    ]
    flex = [next(v for v in price.variants if v.service_tier == "flex") for price in found.prices]
    assert [(v.input_uncached, v.output) for v in flex] == [
        (9 * PER_MILLION, 2 * PER_MILLION),
        (1 * PER_MILLION, 2 * PER_MILLION),
        (1 * PER_MILLION, 2 * PER_MILLION),
    ]
    assert {v.service_tier for v in found.prices[0].variants} == {"flex", "fast"}
    assert (
        next(v.request for v in found.prices[0].variants if v.service_tier == "fast") == 5_000 * PER_MILLION
    )


def test_only_a_lifetime_that_has_a_price_of_its_own_has_one() -> None:
    found = genai.model_prices("p", model(prices={"input_mtok": 4, "cache_write_mtok": 5}), "s")
    assert found is not None
    price = found.prices[0]
    assert (price.cache_write_5m, price.cache_write_1h, price.output) == (5 * PER_MILLION, None, 0)
    both = {"input_mtok": 4, "cache_write_mtok": 5, "cache_write_5m_mtok": 6, "cache_write_1h_mtok": 8}
    found = genai.model_prices("p", model(prices=both), "s")
    assert found is not None
    assert (found.prices[0].cache_write_5m, found.prices[0].cache_write_1h) == (
        6 * PER_MILLION,
        8 * PER_MILLION,
    )


@pytest.mark.parametrize(
    ("amount", "numbers"),
    [("2.50", 2_500_000_000), (0, 0), (Decimal("0.0833333333333333"), 83_333_333), ("0.0000000005", 1)],
)
def test_amounts_become_integers_half_up(amount: Any, numbers: int) -> None:
    assert nanousd(amount, PER_MILLION) == numbers


@pytest.mark.parametrize("amount", ["x", "-1", "NaN", "Infinity", "1e10", 1.5, True, None, [], ""])
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(Unreadable, match="is no price"):
        nanousd(amount, PER_MILLION)


GOLDEN = "data/prices/genai_prices_usage_golden.json.gz"
DATA = "data/prices/genai_prices_data.json.gz"


def test_prices_of_recorded_answers_are_those_an_outside_party_worked_out() -> None:
    """Golden prices need the table of their own time, which lies beside them."""
    import gzip

    from tidegate.gateway.usage import from_answer
    from tidegate.gateway.usage_rules import Wire, rules_for

    book = read_genai(gzip.decompress(shared_data(DATA).read_bytes()), "data.json")
    wires: dict[str, Wire] = {
        "chat": "openai",
        "responses": "responses",
        "anthropic": "anthropic",
        "embeddings": "embeddings",
    }
    at_ns = int(dt.datetime(2026, 8, 21, tzinfo=dt.UTC).timestamp()) * 10**9
    compared, wrong = 0, []
    for record in json.loads(gzip.decompress(shared_data(GOLDEN).read_bytes())):
        for reading in record["extracted"]:
            for one in reading["extractors"]:
                vendor, flavor = one["provider_id"], one["api_flavor"]
                wire = "anthropic" if (vendor, flavor) == ("anthropic", "default") else wires.get(flavor)
                found = book.get(f"{vendor}/{record.get('model')}") if "input_price" in one and wire else None
                if found is None or wire is None:
                    continue
                tokens = from_answer(wire, record["body"], rules_for(wire, vendor))
                tokens = Tokens(**{**as_dict(tokens), "service_tier": None, "web_searches": None})
                price = in_force(found.prices, at_ns)
                assert price is not None
                if tokens.cache_write_5m and price.cache_write_5m is None:
                    continue
                exact = (Decimal(one["input_price"]) + Decimal(one["output_price"])) * 10**9 + fee_of(found)
                if cost_nanousd(tokens, price.list_price()) != exact.to_integral_value(ROUND_HALF_UP):
                    wrong.append((vendor, record["model"], one, cost_nanousd(tokens, price.list_price())))
                compared += 1
    assert compared > 1_000
    assert wrong == []
