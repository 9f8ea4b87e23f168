"""The bill is exact: checked against rational arithmetic done here, from the classes alone."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.simulator.config import Model, Provider
from tidegate.simulator.invoice import CLASSES, Line, cost_nanousd, invoice, usage
from tidegate.simulator.tokens import TokenClasses

counts = st.integers(0, 10**7)
prices = st.integers(0, 10**13)


def half_up(value: Fraction) -> int:
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP))


@given(st.tuples(counts, counts, counts, counts, counts), st.tuples(prices, prices, prices, prices, prices))
def test_cost_is_the_sum_over_disjoint_classes_rounded_once_half_up(
    tokens: tuple[int, int, int, int, int], price: tuple[int, int, int, int, int]
) -> None:
    classes = dict(zip(CLASSES, tokens, strict=False))
    model = Model(name="m", **dict(zip(CLASSES, price, strict=False)))
    expected = sum(
        (Fraction(count * each, 10**6) for count, each in zip(tokens, price, strict=True)), Fraction(0)
    )
    assert cost_nanousd(TokenClasses(**classes), model) == half_up(expected)


@pytest.mark.parametrize(("price", "cost"), [(499_999, 0), (500_000, 1), (1_499_999, 1), (1_500_000, 2)])
def test_half_a_nano_dollar_rounds_up(price: int, cost: int) -> None:
    assert cost_nanousd(TokenClasses(output=1), Model(name="m", output=price)) == cost


@given(counts, counts, prices)
def test_reasoning_is_paid_once_as_the_output_it_is_part_of(output: int, reasoning: int, price: int) -> None:
    model = Model(name="m", output=price)
    plain = TokenClasses(output=output)
    thought = TokenClasses(output=output, reasoning=min(reasoning, output))
    assert cost_nanousd(plain, model) == cost_nanousd(thought, model)


def test_a_missing_cache_price_is_the_uncached_input_price() -> None:
    tokens = TokenClasses(cache_read=1, cache_write_5m=2, cache_write_1h=4)
    assert cost_nanousd(tokens, Model(name="m", input_uncached=10_000_000)) == 70


def line(ordinal: int, *, attempt: str, outcome: str | None, cost: int, model: str = "m") -> Line:
    billed = outcome in ("completed", "cut", "lost", "cancelled")
    tokens = TokenClasses(input_uncached=cost, output=1) if billed else TokenClasses()
    return Line(
        ordinal=ordinal,
        provider="p",
        attempt=attempt,
        dialect="openai",
        model=model,
        arrived_s=0.0,
        outcome=outcome,
        billed=billed,
        tokens=tokens,
        cost_nanousd=cost if billed else 0,
    )


LINES = [
    line(1, attempt="a", outcome="completed", cost=5),
    line(2, attempt="b", outcome="refused", cost=0),
    line(3, attempt="a", outcome="cut", cost=7, model="n"),
    line(4, attempt="c", outcome=None, cost=0),
]


def test_the_invoice_lists_what_is_billed_and_its_sums_are_those_of_its_lines() -> None:
    bill = invoice(Provider(id="p", models=(Model(name="m"),)), LINES, None)
    assert [entry["attempt"] for entry in bill["lines"]] == ["a", "a"]
    assert bill["totals"]["cost_nanousd"] == bill["total_nanousd"] == 12
    assert bill["totals"]["requests"] == 2
    assert {name: each["cost_nanousd"] for name, each in bill["models"].items()} == {"m": 5, "n": 7}


def test_a_flat_plan_costs_its_fee_whatever_was_used() -> None:
    flat = Provider(id="p", models=(Model(name="m"),), billing="flat", fee_nanousd=20_000)
    bill = invoice(flat, [], None)
    assert bill["fees"] == [{"kind": "flat_plan", "fee_nanousd": 20_000}]
    assert bill["total_nanousd"] == 20_000


def test_usage_of_an_attempt_tells_unknown_from_open_from_closed() -> None:
    assert usage("x", [])["state"] == "unknown"
    assert usage("c", LINES[3:])["state"] == "open"
    closed = usage("a", [LINES[0], LINES[2]])
    assert (closed["state"], closed["billed"], len(closed["lines"])) == ("closed", True, 2)
    assert closed["totals"]["cost_nanousd"] == 12
    assert usage("b", LINES[1:2])["billed"] is False
