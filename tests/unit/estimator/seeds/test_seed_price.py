"""The seed's price filter gives the seed's numbers, faults included. Ids are of the seed's vectors."""

import math

import pytest

from tidegate.estimator.seeds.price import SeedPriceFilter, effective_price


def _after(seed: float, *observed: float) -> SeedPriceFilter:
    made = SeedPriceFilter(seed)
    for price in observed:
        made.update(price)
    return made


def test_vectors_1_to_3_the_first_update_sets_the_velocity() -> None:
    once = _after(0.31, 0.068)
    assert once.rate == pytest.approx(0.0680121, abs=5e-8)
    assert once.velocity == pytest.approx(-0.1209939, abs=5e-8)
    assert once.p00 == pytest.approx(9.9995e-5, rel=1e-4)
    assert once.p11 == pytest.approx(0.500026, abs=5e-7)
    twice = _after(0.31, 0.068, 0.068)
    assert twice.rate == pytest.approx(0.0679758, abs=5e-8)
    assert twice.velocity == pytest.approx(-7.279e-5, rel=1e-3)
    assert _after(0.31, *[0.068] * 8).rate == pytest.approx(0.0679948, abs=5e-8)


def test_vector_4_a_tripled_price_overshoots() -> None:
    expected = (0.74564, 0.93132, 1.01763, 1.05735, 1.07226, 1.07263)
    for count, rate in enumerate(expected, start=1):
        assert _after(0.31, *[0.31] * 3, *[0.93] * count).rate == pytest.approx(rate, abs=5e-6)


def test_a_price_swung_below_zero_is_shown_as_zero() -> None:
    swung = _after(0.31, 0.0, 0.0, 0.0)
    assert swung.rate < 0
    assert swung.price() == 0.0
    assert _after(0.31).price() == 0.31


@pytest.mark.parametrize(
    ("base", "factors", "price"),
    [
        (0.31, (3.0, 1.5, 1.5, 1.44), 3.0132),
        (0.0001, (1.0, 1.0, 1.0, 1.0), 0.001),
        (0.31, (1.0, 1.0, math.inf, 1.0), math.inf),
        (0.0, (1.0, 1.0, math.inf, 1.0), math.inf),
        (math.nan, (1.0,), math.inf),
        (0.31, (math.nan,), math.inf),
    ],
)
def test_vectors_6_to_9_effective_price(base: float, factors: tuple[float, ...], price: float) -> None:
    assert effective_price(base, *factors) == pytest.approx(price)
