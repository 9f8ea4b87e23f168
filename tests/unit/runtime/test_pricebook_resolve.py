"""A target that names a model gets its prices; what the operator writes goes before them; others stay as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.events.config import DatedPrice, Settings, VariantPrice
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.runtime.pricebook import price_file
from tidegate.runtime.pricebook.entries import ModelPrices, Unreadable
from tidegate.runtime.pricebook.resolve import overlaid, resolved
from tidegate.runtime.settings import ConfigInvalid, parse_settings, read_config
from tidegate.runtime.validation import BAD, Mistake

HEAD = '[[tenants]]\nid = "t"\n[[routes]]\nname = "r"\ncandidates = [{ target = "x" }]\n'
TARGET = '[[targets]]\nid = "x"\ndialect = "openai"\nbase_url = "https://api.example.test"\nmodel = "m"\n'
FILE = '[[models]]\nid = "mine/m"\n[[models.prices]]\nsource = "mine"\ninput_uncached = "1"\noutput = "2"\n'
USD = 10**9


def prices_of(text: str, folder: Path = Path()) -> tuple[DatedPrice, ...]:
    (target,) = parse_settings(HEAD + TARGET + text, folder=folder).targets
    return target.prices


def test_a_config_without_the_book_is_what_it_always_was() -> None:
    text = '[[targets.prices]]\ninput_uncached = "3"\noutput = "15"\n'
    assert prices_of(text) == (
        DatedPrice(input_uncached=3 * USD, output=15 * USD, source="operator, date unknown"),
    )

    def no_book() -> object:
        raise AssertionError("the book was loaded")

    settings = Settings()
    assert resolved(settings, no_book, []) is settings  # type: ignore[arg-type]


def test_a_named_model_is_resolved_into_numbers_with_their_origin() -> None:
    found = prices_of('price_book = "openai/gpt-4.1"\n')
    assert (found[0].input_uncached, found[0].cache_read, found[0].output) == (2 * USD, USD // 2, 8 * USD)
    assert all((price.source or "").startswith("genai-prices ") for price in found)
    priority = found[-1].list_price()
    assert cost_nanousd(Tokens(10**6, output=0, service_tier="priority"), priority) == 3_500_000_000


def test_an_unknown_model_is_a_mistake_of_its_line_that_names_near_ones() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        prices_of('price_book = "openai/gpt-4.11"\n')
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(
        "tidegate.toml:11: targets[0].price_book: `openai/gpt-4.11` is not in the price book"
    )
    assert "openai/gpt-4.1" in mistake


def test_other_mistakes_are_told_beside_it() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        prices_of(
            'price_book = "nobody/nothing"\npool = "none"\n[[targets]]\nid = "x"\ndialect = "openai"\nbase_url = "ftp://x"\nmodel = "m"\n'
        )
    assert len(caught.value.mistakes) > 1


def test_prices_of_a_file_go_before_those_of_the_book(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(FILE)
    text = 'price_file = "p.toml"\n' + HEAD + TARGET + 'price_book = "mine/m"\n'
    config = tmp_path / "tidegate.toml"
    config.write_text(text)
    (target,) = read_config(config).settings.targets
    assert target.prices == (DatedPrice(input_uncached=USD, output=2 * USD, source="mine"),)


@pytest.mark.parametrize("content", [None, "[[models]]\nid = 3\n"])
def test_a_price_file_that_cannot_be_used_is_a_mistake_also_where_nobody_needs_it(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "p.toml").write_text(content)
    with pytest.raises(ConfigInvalid, match=r"tidegate.toml:1: price_file: .*p\.toml"):
        parse_settings('price_file = "p.toml"\n' + HEAD + TARGET, folder=tmp_path)


def test_the_operators_number_holds_for_every_length_and_tier() -> None:
    found = prices_of('price_book = "openai/gpt-5.4"\n[[targets.prices]]\ninput_uncached = "1"\n')
    for price in found:
        assert price.input_uncached == USD
        assert all(variant.input_uncached is None for variant in price.variants)
        assert any(variant.output is not None for variant in price.variants)
        assert (price.source or "").startswith("operator, else genai-prices ")


def test_own_prices_need_rising_dates_beside_the_book_too() -> None:
    two = '[[targets.prices]]\noutput = "1"\n[[targets.prices]]\noutput = "2"\n'
    with pytest.raises(ConfigInvalid, match="must have rising `from` dates"):
        prices_of('price_book = "openai/gpt-4.1"\n' + two)


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        (['output = "1"'], "needs `service_tier` or `above_input_tokens`"),
        (['service_tier = "flex"', 'service_tier = "flex"'], "holds for the same requests already"),
        (["above_input_tokens = 0"], "above_input_tokens"),
        (['service_tier = "Flex"'], "service_tier"),
        (['service_tier = "flex"\ncolour = 1'], "unknown key"),
    ],
)
def test_variants_that_cannot_hold_are_mistakes(variants: list[str], said: str) -> None:
    base = '[[targets.prices]]\ninput_uncached = "3"\noutput = "15"\n'
    with pytest.raises(ConfigInvalid, match=said):
        prices_of(base + "".join(f"[[targets.prices.variants]]\n{each}\n" for each in variants))


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        (['output = "1"'], "a variant needs `service_tier` or `above_input_tokens`"),
        (['service_tier = "flex"', 'service_tier = "flex"'], "holds for the same requests already"),
    ],
)
def test_own_variants_beside_the_book_are_not_lost_silently(variants: list[str], said: str) -> None:
    base = 'price_book = "openai/gpt-5.4"\n[[targets.prices]]\noutput = "15"\n'
    with pytest.raises(ConfigInvalid) as caught:
        prices_of(base + "".join(f"[[targets.prices.variants]]\n{each}\n" for each in variants))
    (mistake,) = caught.value.mistakes
    assert said in mistake
    assert mistake.startswith(f"tidegate.toml:{12 + 2 * len(variants)}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[models]]\nid = "mine/m"\nprices = []\n', "f:7: `mine/m` has its prices already"),
        ('[[models.prices]]\noutput = "1"\n', "f:1: prices of `mine/m` must have rising `from` dates"),
        ('[[models.prices.variants]]\noutput = "1"\n', "f:7: a variant needs `service_tier`"),
        (
            '[[models.prices.variants]]\nservice_tier = "a"\n' * 2,
            "f:9: another variant holds for the same requests already",
        ),
    ],
)
def test_a_price_file_that_says_a_thing_twice_is_refused_by_line_and_name(text: str, said: str) -> None:
    with pytest.raises(Unreadable) as caught:
        price_file.parse(FILE + text, "f")
    assert str(caught.value).startswith(said)


def test_every_price_of_a_config_has_a_source() -> None:
    own = '[[targets.prices]]\ninput_uncached = "3"\noutput = "15"\n'
    later = f'{own}from = 2026-12-01\n[[targets.prices]]\nfrom = 2027-01-01\ninput_uncached = "3"\noutput = "15"\n'
    assert [price.source for price in prices_of(later)] == ["operator", "operator"]
    assert [price.source for price in prices_of(own + 'source = "contract of May"\n')] == ["contract of May"]
    for price in prices_of('price_book = "openai/gpt-5.4"\n' + own):
        assert price.source is not None
        assert price.source.startswith("operator, else genai-prices ")


def test_variants_are_read_from_toml() -> None:
    text = (
        '[[targets.prices]]\ninput_uncached = "3"\noutput = "15"\n'
        '[[targets.prices.variants]]\nabove_input_tokens = 200000\ninput_uncached = "6"\n'
        '[[targets.prices.variants]]\nservice_tier = "batch"\noutput = "7.5"\nweb_search = "10000"\n'
    )
    (price,) = prices_of(text)
    assert price.variants == (
        VariantPrice(above_input_tokens=200_000, input_uncached=6 * USD),
        VariantPrice(service_tier="batch", output=15 * USD // 2, web_search=10_000 * USD),
    )


LISTED = (
    DatedPrice(
        input_uncached=10, output=20, source="book", variants=(VariantPrice(service_tier="flex", output=9),)
    ),
    DatedPrice(from_ns=100, input_uncached=11, output=21, cache_read=1, source="book"),
)


def test_own_prices_hold_from_their_day_on_over_every_later_listed_one() -> None:
    own = (DatedPrice(from_ns=50, output=5, source="contract"),)
    assert overlaid(LISTED, own) == (
        LISTED[0],
        DatedPrice(from_ns=50, input_uncached=10, output=5, source="contract, else book"),
        DatedPrice(from_ns=100, input_uncached=11, output=5, cache_read=1, source="contract, else book"),
    )


def test_own_variants_are_laid_over_the_listed_ones() -> None:
    flex = VariantPrice(service_tier="flex", input_uncached=4)
    long = VariantPrice(above_input_tokens=7, output=3)
    first, _ = overlaid(LISTED, (DatedPrice(variants=(flex, long)),))
    assert first.variants == (VariantPrice(service_tier="flex", input_uncached=4, output=9), long)
    assert overlaid(LISTED, ()) == LISTED


def test_the_config_of_the_page_on_prices_is_a_good_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "prices.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "negotiated.toml").write_text(FILE)
    (target,) = parse_settings(example, folder=tmp_path).targets
    last = target.prices[-1]
    assert (last.input_uncached, last.output) == (5 * USD // 2, 12 * USD)
    priority = Tokens(0, output=10**6, service_tier="priority")
    assert cost_nanousd(priority, last.list_price()) == 20 * USD
    assert cost_nanousd(priority, target.prices[-2].list_price()) == 30 * USD


def test_where_nothing_is_listed_yet_the_own_price_stands_alone() -> None:
    own = (DatedPrice(input_uncached=1, output=2),)
    listed = (DatedPrice(from_ns=9, input_uncached=3, output=4, source="b"),)
    first, second = overlaid(listed, own)
    assert first == own[0]
    assert (second.input_uncached, second.from_ns, second.source) == (1, 9, "operator, else b")


def test_of_a_model_that_is_unknown_only_that_is_told() -> None:
    from tidegate.runtime.pricebook.book import PriceBook

    mistakes: list[Mistake] = []
    settings = parse_settings(HEAD + TARGET + '[[targets.prices]]\ninput_uncached = "1"\noutput = "2"\n')
    (target,) = settings.targets
    import msgspec

    named = msgspec.structs.replace(settings, targets=(msgspec.structs.replace(target, price_book="a/b"),))
    found = resolved(named, lambda: PriceBook([], "o", (ModelPrices(id="a/c", prices=()),)), mistakes)
    assert found.targets[0].prices is BAD
    assert [mistake.path for mistake in mistakes] == [("targets", 0, "price_book")]
