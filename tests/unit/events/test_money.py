"""Money is exact: integers in, one rounding, unknown stays unknown."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.events.money import FREE, MILLION, ListPrice, Tokens, cost_nanousd, dollars, round_half_up

CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
counts = st.integers(0, 10**9)
prices = st.integers(0, 10**12)
all_tokens = st.builds(Tokens, **dict.fromkeys(CLASSES, counts))
full_prices = st.builds(ListPrice, **dict.fromkeys(CLASSES, prices))
gappy_prices = st.builds(ListPrice, **dict.fromkeys(CLASSES, st.none() | prices))


@given(st.integers(0, 10**30), st.integers(1, 10**12))
def test_rounding_is_half_up(numerator: int, denominator: int) -> None:
    assert round_half_up(numerator, denominator) == floor(Fraction(numerator, denominator) + Fraction(1, 2))


@pytest.mark.parametrize(("numerator", "rounded"), [(0, 0), (4, 0), (5, 1), (14, 1), (15, 2), (25, 3)])
def test_ties_go_up(numerator: int, rounded: int) -> None:
    assert round_half_up(numerator, 10) == rounded


@settings(max_examples=40)
@given(all_tokens, full_prices)
def test_a_cost_is_the_exact_sum_rounded_once(tokens: Tokens, price: ListPrice) -> None:
    exact = sum(Fraction(getattr(tokens, name) * getattr(price, name), MILLION) for name in CLASSES)
    assert cost_nanousd(tokens, price) == floor(exact + Fraction(1, 2))


@settings(max_examples=40)
@given(all_tokens, full_prices, st.integers(0, 10**9))
def test_reasoning_is_part_of_output_and_never_paid_twice(
    tokens: Tokens, price: ListPrice, reasoning: int
) -> None:
    thinking = Tokens(**{name: getattr(tokens, name) for name in CLASSES}, reasoning=reasoning)
    assert cost_nanousd(thinking, price) == cost_nanousd(tokens, price)


@settings(max_examples=40)
@given(all_tokens, full_prices, st.sampled_from(["input_uncached", "output"]))
def test_unknown_usage_or_price_of_what_every_request_uses_has_no_cost(
    tokens: Tokens, price: ListPrice, name: str
) -> None:
    known_tokens = {n: getattr(tokens, n) for n in CLASSES}
    known_prices = {n: getattr(price, n) for n in CLASSES}
    assert cost_nanousd(Tokens(**{**known_tokens, name: None}), price) is None
    assert cost_nanousd(tokens, ListPrice(**{**known_prices, name: None})) is None


@settings(max_examples=60)
@given(gappy_prices)
def test_missing_cache_prices_are_filled_without_flattery(price: ListPrice) -> None:
    if not price.is_complete():
        with pytest.raises(ValueError, match="price_unknown"):
            price.filled()
        return
    full = price.filled()
    listed = [value for name in CLASSES if (value := getattr(price, name)) is not None]
    for name in CLASSES:
        value = getattr(price, name)
        if value is not None:
            assert getattr(full, name) == value
    if price.cache_read is None:
        assert full.cache_read == price.input_uncached
    for write in ("cache_write_5m", "cache_write_1h"):
        if getattr(price, write) is None:
            assert getattr(full, write) == max(listed)
    assert full.filled() == full


def test_a_free_pool_costs_nothing_but_unknown_usage_stays_unknown() -> None:
    assert cost_nanousd(Tokens(input_uncached=10, output=5), FREE) == 0
    assert cost_nanousd(Tokens(input_uncached=10), FREE) is None


@given(all_tokens)
def test_known_sums_leave_reasoning_out(tokens: Tokens) -> None:
    assert tokens.known_total() == sum(getattr(tokens, name) for name in CLASSES)
    assert tokens.known_input() == tokens.known_total() - (tokens.output or 0)
    assert Tokens().known_total() == 0


@given(st.integers(-(10**24), 10**24))
def test_dollars_are_exact_decimal_text(nanousd: int) -> None:
    text = dollars(nanousd)
    assert Fraction(text) * 10**9 == nanousd
    whole, _, decimals = text.partition(".")
    assert 2 <= len(decimals) <= 9
    assert "e" not in text.lower()
    assert whole.lstrip("-").isdigit()


@pytest.mark.parametrize(
    ("nanousd", "text"),
    [(0, "0.00"), (1, "0.000000001"), (1_234_500_000, "1.2345"), (-10_000_000, "-0.01"), (5 * 10**9, "5.00")],
)
def test_dollars_have_at_least_two_decimals(nanousd: int, text: str) -> None:
    assert dollars(nanousd) == text
