"""The seed's multipliers, health filter, amortisation and latency. Ids are of the seed's vectors."""

import math

import pytest

from tidegate.estimator.amortised import expected_amortised
from tidegate.estimator.seeds import amortisation
from tidegate.estimator.seeds.health import SeedHealth
from tidegate.estimator.seeds.latency import SeedLatency, within_band
from tidegate.estimator.seeds.multipliers import (
    credit_used,
    health,
    pace,
    pace_ratio,
    peak,
    per_valid_output,
    pressure,
    scarcity,
    target_pressure,
)


def test_vector_26_health_by_failures() -> None:
    expected = {-1: 1.0, 0: 1.0, 1: 1.5, 2: 1.5, 3: 3.0, 5: 3.0, 6: 10.0, 10: 10.0, 11: math.inf}
    assert {failures: health(failures) for failures in expected} == expected
    assert health(0, breaker=True) == math.inf


def test_vectors_27_and_28_peak_is_half_open() -> None:
    assert [peak(hour, counts_peak=True) for hour in (5, 6, 9, 10)] == [1.0, 3.0, 3.0, 1.0]
    assert peak(8, counts_peak=False) == 1.0


def test_scarcity_starts_at_half_of_the_quota() -> None:
    assert [scarcity(used) for used in (20, 50, 75, 85, 100, 150)] == [1.0, 1.0, 1.5, 1.7, 2.0, 3.0]


@pytest.mark.parametrize(
    ("used", "elapsed", "burn", "ratio", "factor"),
    [
        (0.5e6, 0.5, 200e3, 0.5, 0.5),
        (1.2e6, 0.5, 480e3, 1.2, 1.44),
        (1.8e6, 0.5, 1e6, 2.15, 3.0),
        (1.9e6, 1.0, 1e6, 0.95, 0.9025),
        (1e6, 0.4, 500e3, 1.25, 1.5625),
    ],
)
def test_vectors_29_to_36_pace(used: float, elapsed: float, burn: float, ratio: float, factor: float) -> None:
    found = pace_ratio(used, 2e6, elapsed, 5.0, burn)
    assert found == pytest.approx(ratio)
    assert pace([None, found, 0.1]) == pytest.approx(factor)


def test_vector_34_an_undefined_pace_is_one() -> None:
    assert pace_ratio(1.0, 2e6, 0.5, 5.0, 0.0) is None
    assert pace_ratio(1.0, 0.0, 0.5, 5.0, 1.0) is None
    assert pace_ratio(1.0, 2e6, 0.0, 5.0, 1.0) is None
    assert pace([None]) == pace([]) == 1.0


def test_vectors_37_to_41_pressure() -> None:
    curve = [pressure(u, 0.60) for u in (0.60, 0.70, 0.80, 0.90, 0.95, 0.99, 1.0)]
    assert curve == pytest.approx([1, 1.1667, 1.5, 2.5, 4.5, 20.5, math.inf], abs=5e-5)
    assert [pressure(u, 0.70) for u in (0.85, 0.90, 0.95)] == pytest.approx([1.5, 2.0, 3.5])
    assert pressure(0.90, 0.80) == pytest.approx(1.5)
    assert pressure(0.90, 0.70) * pressure(0.90, 0.70) == pytest.approx(4.0)
    steep = [pressure(u, 0.70, 6.25) for u in (0.80, 0.85, 0.90, 0.95)]
    assert steep == pytest.approx([3.625, 6.25, 11.5, 27.25])
    assert pressure(1.2, 0.70, hard=False) == 1.5


def test_vector_42_credit_is_never_divided_by_nothing() -> None:
    gone = credit_used(-0.003, 10.0)
    assert gone == pytest.approx(1.0003)
    assert gone is not None
    assert pressure(gone, 0.80) == math.inf
    assert credit_used(2.5, 5.0) == 0.5
    assert credit_used(5.0, 0.0) is None
    assert credit_used(15.0, 10.0) == 0.0


def test_vector_43_price_of_a_valid_output() -> None:
    assert per_valid_output(0.001, 0.92, 100) == pytest.approx(0.001087, abs=5e-7)
    assert per_valid_output(0.001, 0.80, 100) == pytest.approx(0.00125)
    assert per_valid_output(0.001, 0.96, 100) == 0.001
    assert per_valid_output(0.001, 0.10, 99) == 0.001
    assert per_valid_output(0.001, 0.0, 100) == math.inf


def test_vectors_44_and_46_health_filter() -> None:
    made, seen = SeedHealth(), []
    for failed in (True,) * 4 + (False,) * 3:
        made.observe(failed=failed)
        seen.append(made.x)
    assert seen == pytest.approx([0.335, 0.5161, 0.6371, 0.7215, 0.5629, 0.4445, 0.3540], abs=5e-5)
    factors = [SeedHealth(x).factor() for x in (0.15, 0.2, 0.335, 0.5, 0.54)]
    assert factors == pytest.approx([1, 1.188, 1.835, 3.1, 3.543], abs=5e-4)
    assert SeedHealth(1.0).factor() == math.inf
    assert [SeedHealth(0.55, samples=n).unreachable for n in (2, 3)] == [False, True]


def test_vectors_47_and_48_target_pressure() -> None:
    assert target_pressure(1e6, 2e6, 2.5, 800e3, 1.0) == pytest.approx(2.0)
    assert target_pressure(1e6, 2e6, 2.5, 800e3, 0.5) == pytest.approx(4.0)
    assert target_pressure(1e6, 2e6, 2.5, 100e3, 1.0) == 0.25
    assert target_pressure(2e6, 2e6, 2.5, 800e3, 1.0) == 8.0
    assert target_pressure(1e6, 2e6, 2.5, 0.0, 1.0) == 1.0
    assert target_pressure(1e6, 2e6, 2.5, 400e3, 0.0) == 0.25
    assert target_pressure(1e6, 2e6, 2.5, 5e8, 1.0) == 8.0


def test_amortisation_variants() -> None:
    assert amortisation.cycle_to_date(10.0, 5e6) == 2.0
    assert amortisation.cycle_to_date(10.0, 0.0) is None
    assert amortisation.assumed_volume(155.0, 500e6) == pytest.approx(0.31)
    assert amortisation.logged_outcome(1.0, 2e6, succeeded=True) == 0.5
    assert amortisation.logged_outcome(1.0, 0.0, succeeded=True) is None
    assert amortisation.logged_outcome(0.0, 0.0, succeeded=False, fallback=0.2) == pytest.approx(0.21)
    assert amortisation.logged_outcome(0.0, 0.0, succeeded=False) == 0.50
    assert amortisation.trailing_year(300.0, [1e6] * 29) == 0.014
    assert amortisation.trailing_year(300.0, [0.0] * 400) is None
    assert amortisation.trailing_year(365.0, [1e6] * 400, 1.21) == pytest.approx(1.21)
    assert amortisation.entitlement(80.0, 18.45e9) == pytest.approx(0.0043, abs=5e-5)
    assert (amortisation.sunk(9, 10, 3.0), amortisation.sunk(10, 10, 3.0)) == (0.0, 3.0)


def test_the_expected_price_of_a_plan_is_above_the_price_at_the_expected_volume() -> None:
    m, s = math.log(500e6), 0.6
    at_mean = 155.0 * 1e6 / math.exp(m + 0.5 * s * s)
    assert 1e6 * expected_amortised(155.0, m, s) == pytest.approx(at_mean * math.exp(s * s))


def test_pool_vectors_17_to_19_latency() -> None:
    slow = SeedLatency()
    seen = []
    for n in range(6):
        slow.observe(1000.0, float(n))
        seen.append(slow.ewma_ms)
    assert seen == pytest.approx([440, 608, 725.6, 807.92, 865.544, 905.881], abs=5e-4)
    once = SeedLatency()
    once.observe(5000.0, 0.0)
    assert once.ewma_ms == pytest.approx(1640)
    for n in range(11):
        once.observe(200.0, float(n))
    assert once.ewma_ms > 220
    once.observe(200.0, 12.0)
    assert once.ewma_ms <= 220


def test_pool_vectors_21_to_24_band_and_expiry() -> None:
    assert within_band(["a", "b"], {"a": 440.0, "b": 200.0}) == ["b"]
    assert within_band(["a", "b"], {"a": 440.0, "b": 200.0}, 0.0) == ["a", "b"]
    assert within_band(["a"], {"a": 10_000.0}) == ["a"]
    kept = SeedLatency(440.0, 1, 100.0)
    kept.expire(3_700.0)
    assert kept.ewma_ms == 440.0
    kept.expire(3_701.0)
    assert (kept.ewma_ms, kept.samples, kept.at_s) == (200.0, 0, 0.0)
    kept.expire(9e9)
    assert kept.ewma_ms == 200.0
