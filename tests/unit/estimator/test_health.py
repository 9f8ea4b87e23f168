"""Health: ejection needs evidence, throttling is no illness, and faults are found in time."""

from math import comb

import numpy as np
import pytest

from tidegate.estimator.beta import beta_cdf, beta_quantile
from tidegate.estimator.health import SUSPICION, Health

SECOND_NS = 1_000_000_000
START = 1_700_000_000 * SECOND_NS


@pytest.mark.parametrize(
    ("a", "b", "x"), [(2, 5, 0.3), (10, 90, 0.05), (50, 3, 0.9), (88, 12, 0.95), (1, 1, 0.2)]
)
def test_the_beta_distribution_equals_the_binomial_sum(a: int, b: int, x: float) -> None:
    n = a + b - 1
    exact = sum(comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1))
    mine = beta_cdf(np.array([x]), np.array([float(a)]), np.array([float(b)]))[0]
    assert mine == pytest.approx(exact, rel=1e-9)


def test_the_beta_quantile_inverts_the_distribution_also_for_tiny_shapes() -> None:
    rng = np.random.default_rng(1)
    a, b = 10 ** rng.uniform(-1, 2, (2, 2000))
    for p in (0.01, 0.05, 0.1):
        assert np.allclose(beta_cdf(beta_quantile(p, a, b), a, b), p, atol=1e-8)
    power = beta_quantile(0.05, np.array([0.25, 3.0]), np.ones(2))
    assert np.allclose(power, [0.05**4, 0.05 ** (1 / 3)], rtol=1e-8)


def _steady(model: Health, rate: float, seconds: int, rng: np.random.Generator, since: int = 0) -> int:
    who = np.arange(model.size)
    no = np.zeros(model.size, dtype=np.bool_)
    for k in range(since + 1, since + seconds + 1):
        model.observe(who, np.full(model.size, START + k * SECOND_NS), rng.random(model.size) < rate, no)
    return since + seconds


@pytest.mark.parametrize(("rate", "within", "suspected_within"), [(0.2, 45, 20), (0.6, 15, 8)])
def test_a_fault_is_suspected_and_then_ejected_within_the_stated_requests(
    rate: float, within: int, suspected_within: int
) -> None:
    rng = np.random.default_rng(2)
    model = Health(100)
    at = _steady(model, 0.01, 300, rng)
    ejected, suspected = np.full(100, 999), np.full(100, 999)
    for k in range(1, 2 * within):
        at = _steady(model, rate, 1, rng, at)
        belief = model.belief(np.arange(100), START + at * SECOND_NS)
        ejected = np.where(belief.ejected, np.minimum(ejected, k), ejected)
        suspected = np.where(belief.suspected, np.minimum(suspected, k), suspected)
    assert np.median(ejected) <= within
    assert np.median(suspected) <= suspected_within


def test_one_percent_errors_eject_at_most_once_a_day() -> None:
    rng = np.random.default_rng(3)
    model, who = Health(400), np.arange(400)
    entered, before = 0, np.zeros(400, dtype=np.bool_)
    for at in range(0, 2160, 20):  # ten target-days at one request a second
        _steady(model, 0.01, 20, rng, at)
        ejected = model.belief(who, START + (at + 20) * SECOND_NS).ejected
        entered += int(np.count_nonzero(ejected & ~before))
        before = ejected
    assert entered <= 10


def test_a_new_target_is_not_ejected_by_its_prior_nor_by_two_failures() -> None:
    model, one = Health(1), np.array([0])
    no, yes = np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_)
    fresh = model.belief(one, START)
    assert fresh.prior[0]
    assert not fresh.ejected[0]
    assert not fresh.suspected[0]
    for k in range(6):
        belief = model.belief(one, START + k * SECOND_NS)
        assert belief.ejected[0] == (k >= 3)
        model.observe(one, np.array([START + k * SECOND_NS]), yes, no)


def test_throttling_is_counted_and_is_no_ill_health() -> None:
    model, one = Health(1), np.array([0])
    no, yes = np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_)
    model.observe(one, np.array([START]), no, no)
    before = model.belief(one, START)
    for _ in range(50):
        model.observe(one, np.array([START]), yes, yes)
    after = model.belief(one, START)
    assert after.throttled[0] == 50
    assert after.success_mean[0] == before.success_mean[0]
    assert after.error_lower[0] == before.error_lower[0]
    assert not after.suspected[0]
    assert model.belief(one, START + 600 * SECOND_NS).throttled[0] == pytest.approx(25)


def test_evidence_halves_in_sixty_requests_and_in_ten_minutes() -> None:
    model, one = Health(1), np.array([0])
    no, yes = np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_)
    model.observe(one, np.array([START]), yes, no)
    for _ in range(60):
        model.observe(one, np.array([START]), no, no)
    assert model.data[0, 0] == pytest.approx(0.5)
    model.observe(one, np.array([START + 600 * SECOND_NS]), no, no)
    assert model.data[0, 0] == pytest.approx(0.25, rel=0.02)


def test_an_ejected_target_comes_back_with_time_and_with_successes() -> None:
    rng = np.random.default_rng(4)
    model, one = Health(1), np.array([0])
    at = _steady(model, 0.8, 60, rng)
    assert model.belief(one, START + at * SECOND_NS).ejected[0]
    assert not model.belief(one, START + (at + 3600) * SECOND_NS).ejected[0]
    at = _steady(model, 0.0, 400, rng, at)
    belief = model.belief(one, START + at * SECOND_NS)
    assert not belief.ejected[0]
    assert not belief.suspected[0]
    assert model.data[2, 0] < SUSPICION


def test_bounds_lie_on_the_right_side_of_the_mean() -> None:
    rng = np.random.default_rng(5)
    model = Health(50)
    at = _steady(model, 0.1, 100, rng)
    belief = model.belief(np.arange(50), START + at * SECOND_NS)
    assert np.all(belief.success_lower < belief.success_mean)
    assert np.all(belief.error_lower < 1 - belief.success_mean)
    assert np.all(belief.success_var > 0)
