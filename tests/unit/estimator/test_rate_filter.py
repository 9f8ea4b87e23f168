"""Time to first token and output rate: finished numbers that cover what they say."""

import numpy as np
import pytest

from tidegate.estimator.rate_filter import P00, P01, P11, RateFilter, prompt_feature

ONE = np.array([0])
SECOND_NS = 1_000_000_000
START = 1_700_000_000 * SECOND_NS
EXACT = np.zeros(1, dtype=np.bool_)


def _feed(values: np.ndarray, prompts: np.ndarray, n: int = 1) -> RateFilter:
    model = RateFilter(n)
    who, exact = np.arange(n), np.zeros(n, dtype=np.bool_)
    for k in range(values.shape[0]):
        at = np.full(n, START + k * SECOND_NS)
        model.observe(who, at, values[k], prompt_feature(prompts[k]), exact)
    return model


def test_mean_and_p90_of_lognormal_times_are_learned() -> None:
    rng = np.random.default_rng(1)
    n = 200
    values = np.exp(6 + 0.5 * rng.standard_normal((300, n)))
    model = _feed(values, np.full((300, n), 2000), n)
    belief = model.belief(np.arange(n), START + 300 * SECOND_NS)
    assert np.median(belief.mean) == pytest.approx(np.exp(6 + 0.125), rel=0.05)
    assert np.median(belief.p90) == pytest.approx(np.exp(6 + 0.5 * 1.2816), rel=0.06)
    fresh = np.exp(6 + 0.5 * rng.standard_normal((200, n)))
    assert 0.86 < (fresh < belief.p90).mean() < 0.94


def test_heavy_tails_leave_the_p90_near_nine_in_ten() -> None:
    rng = np.random.default_rng(2)
    n = 200
    values = np.exp(6 + 0.3 * rng.standard_t(3, (400, n)))
    model = _feed(values, np.full((400, n), 500), n)
    p90 = model.belief(np.arange(n), START + 400 * SECOND_NS).p90
    assert 0.86 < (np.exp(6 + 0.3 * rng.standard_t(3, (200, n))) < p90).mean() < 0.96


def test_the_prompt_length_is_told_apart_from_the_level() -> None:
    rng = np.random.default_rng(3)
    prompts = rng.integers(100, 100_000, (400, 1))
    values = 200 * (1 + prompts / 1000) ** 0.7 * np.exp(0.2 * rng.standard_normal((400, 1)))
    model = _feed(values, prompts)
    for tokens in (500, 5_000, 80_000):
        at = prompt_feature(np.array([tokens]))
        belief = model.belief(ONE, START + 400 * SECOND_NS, at)
        assert belief.mean[0] == pytest.approx(200 * (1 + tokens / 1000) ** 0.7, rel=0.15)


def test_an_outlier_moves_the_belief_little_and_nonsense_not_at_all() -> None:
    values = np.full((100, 1), 300.0) * np.exp(0.1 * np.random.default_rng(4).standard_normal((100, 1)))
    model = _feed(values, np.full((100, 1), 1000))
    before = model.belief(ONE, START + 100 * SECOND_NS).mean[0]
    row = model.row(0)
    for nonsense in (np.nan, np.inf, -np.inf, 0.0, -3.0):
        at = np.array([START + 100 * SECOND_NS])
        assert model.observe(ONE, at, np.array([nonsense]), np.zeros(1), EXACT) == 1
    assert model.row(0) == row
    at = np.array([START + 100 * SECOND_NS])
    assert model.observe(ONE, at, np.array([3e7]), prompt_feature(np.array([1000])), EXACT) == 0
    assert model.belief(ONE, START + 101 * SECOND_NS).mean[0] < 1.35 * before


def test_a_timeout_counts_only_where_it_says_more_than_was_expected() -> None:
    values = np.full((100, 1), 1000.0) * np.exp(0.2 * np.random.default_rng(5).standard_normal((100, 1)))
    model = _feed(values, np.full((100, 1), 1000))
    feature, at_least = prompt_feature(np.array([1000])), np.ones(1, dtype=np.bool_)
    at = np.array([START + 100 * SECOND_NS])
    mean = model.belief(ONE, int(at[0])).mean[0]
    model.observe(ONE, at, np.array([10.0]), feature, at_least)
    assert model.belief(ONE, int(at[0])).mean[0] == pytest.approx(mean, rel=1e-3)
    for _ in range(20):
        model.observe(ONE, at, np.array([60_000.0]), feature, at_least)
    assert model.belief(ONE, int(at[0])).mean[0] > 3 * mean


def test_a_slow_down_is_followed_within_some_tens_of_requests() -> None:
    rng = np.random.default_rng(6)
    values = np.where(np.arange(260) < 200, 300.0, 1500.0)[:, None]
    model = _feed(values * np.exp(0.2 * rng.standard_normal((260, 1))), np.full((260, 1), 1000))
    assert model.belief(ONE, START + 260 * SECOND_NS).mean[0] > 800


def test_before_evidence_it_is_a_prior_and_doubt_grows_when_idle() -> None:
    model = RateFilter(1)
    assert model.belief(ONE, START).prior[0]
    model = _feed(np.full((30, 1), 50.0), np.zeros((30, 1), dtype=np.int64))
    soon, later = (model.belief(ONE, START + s * SECOND_NS) for s in (30, 30 + 86_400))
    assert not soon.prior[0]
    assert soon.var[0] < later.var[0]
    assert soon.p90[0] < later.p90[0]


def _hammer(updates: int) -> None:
    rng = np.random.default_rng(7)
    n = 100
    model, who = RateFilter(n), np.arange(n)
    at = np.full(n, START)
    for k in range(updates // n):
        at = at + rng.choice([0, SECOND_NS, 10**7 * SECOND_NS], n, p=[0.4, 0.59, 0.01])
        value = np.exp(np.clip(rng.standard_t(1, n) * 5, -600, 600))
        model.observe(who, at, value, rng.choice([0.0, 1e-9, 3.0, 12.0], n), rng.random(n) < 0.1)
        if k % 10 == 0:
            p00, p01, p11 = model.data[P00], model.data[P01], model.data[P11]
            assert p00.min() > 0
            assert p11.min() > 0
            assert (p00 * p11 - p01 * p01).min() > 0
    assert np.all(np.isfinite(model.data))
    assert all(np.all(np.isfinite(field)) for field in model.belief(who, int(at.max())))


def test_covariance_stays_positive_over_a_hundred_thousand_wild_updates() -> None:
    _hammer(100_000)


@pytest.mark.nightly
def test_covariance_stays_positive_over_a_million_wild_updates() -> None:
    _hammer(1_000_000)
