"""A provider that tells only a percentage: the capacity is found, with honest doubt, and so is what others use."""

import numpy as np
import pytest

from tidegate.estimator.capacity import RATE, Capacity, CapacityBelief
from tidegate.estimator.columns import FloatArray

NS = 1_000_000_000
BIN_NS = 600 * NS
WINDOW_NS = 30 * BIN_NS
ONE = np.array([0])


class World:
    """Accounts whose capacity is unknown; each bin we use some and perhaps others do; percent is told in whole numbers."""

    def __init__(self, outside: str, n: int = 300, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.capacity = np.exp(rng.normal(13, 1, n))
        guess = self.capacity * np.exp(rng.normal(0, 1, n))
        busy = rng.random((30, n)) < 0.6
        self.own = np.cumsum(self.capacity * busy * rng.lognormal(-0.3, 0.7, (30, n)) * 0.03, axis=0)
        others = {
            "none": np.zeros((30, n)),
            "steady": 0.006 * rng.lognormal(0, 0.3, (30, n)),
            "bursts": (rng.random((30, n)) < 0.08) * rng.uniform(0.01, 0.15, (30, n)),
        }[outside]
        self.others = np.cumsum(self.capacity * others, axis=0)
        self.model, self.who = Capacity(n), np.arange(n)
        self.model.guess(self.who, guess)

    def told(self) -> CapacityBelief:
        start = np.zeros(self.who.size, dtype=np.int64)
        for k in range(30):
            percent = np.round(100 * (self.own[k] + self.others[k]) / self.capacity)
            open_ = percent < 100
            at = np.full(open_.sum(), (k + 1) * BIN_NS)
            self.model.observe(self.who[open_], at, start[open_], self.own[k, open_], percent[open_])
        return self.model.belief(self.who, WINDOW_NS - 1, start, self.own[-1])


@pytest.mark.parametrize("outside", ["none", "steady", "bursts"])
def test_after_one_window_the_capacity_is_within_5_percent_and_the_bars_cover(outside: str) -> None:
    world = World(outside)
    belief = world.told()
    error = belief.capacity / world.capacity - 1.0
    assert np.median(np.abs(error)) < 0.03
    assert np.mean(np.abs(error) < 0.05) > 0.75
    z = np.abs(error) * belief.capacity / np.sqrt(belief.capacity_var)
    assert 0.7 < np.mean(z < 1.2816) < 0.95
    assert np.mean(z < 1.96) > 0.88
    assert not belief.prior.any()


def test_use_of_others_is_told_apart_from_ours() -> None:
    for outside in ("none", "steady"):
        world = World(outside)
        belief = world.told()
        assert np.median(np.abs(belief.outside - world.others[-1]) / world.capacity) < 0.03
    assert np.median(belief.outside_per_hour / world.capacity) > 0.02


def test_before_a_report_with_use_of_ours_nothing_is_claimed() -> None:
    model = Capacity(1)
    zero = np.zeros(1, dtype=np.int64)
    assert model.belief(ONE, BIN_NS, zero, np.zeros(1)).prior[0]
    model.observe(ONE, np.array([BIN_NS]), zero, np.zeros(1), np.array([7.0]))
    belief = model.belief(ONE, 2 * BIN_NS, zero, np.zeros(1))
    assert belief.prior[0]
    assert np.isnan(belief.capacity[0])


def test_a_reset_starts_at_exactly_nothing_and_keeps_what_was_learned() -> None:
    world = World("none", n=4)
    before = world.told()
    start = np.full(4, WINDOW_NS)
    fresh = world.model.belief(world.who, WINDOW_NS, start, np.zeros(4))
    assert np.array_equal(fresh.remaining, fresh.capacity)
    assert np.array_equal(fresh.outside, np.zeros(4))
    assert np.array_equal(fresh.capacity, before.capacity)


def test_what_is_no_number_negative_or_late_is_left_out() -> None:
    world = World("steady", n=1)
    world.told()
    state = world.model.data.copy()
    zero = np.zeros(1, dtype=np.int64)
    bad: list[tuple[float, float]] = [(np.nan, 50.0), (1.0, np.inf), (1.0, -1.0), (-1.0, 4.0)]
    for own, percent in bad:
        now = np.array([40 * BIN_NS])
        assert world.model.observe(ONE, now, zero, np.array([own]), np.array([percent])) == 1
    assert world.model.observe(ONE, np.array([1]), zero, np.array([1.0]), np.array([2.0])) == 1
    assert np.array_equal(world.model.data, state)


def test_a_guess_counts_only_until_evidence_comes() -> None:
    world = World("none", n=1)
    before = world.told()
    world.model.guess(ONE, np.array([1e-3]))
    assert (
        world.model.belief(ONE, WINDOW_NS - 1, np.zeros(1, dtype=np.int64), world.own[-1]).capacity
        == before.capacity
    )


def _covariance(model: Capacity) -> FloatArray:
    c00, c01, c02, c11, c12, c22 = model.data[3:9]
    return np.array([[c00, c01, c02], [c01, c11, c12], [c02, c12, c22]]).transpose(2, 0, 1)


def test_wild_reports_leave_the_covariance_positive_and_the_rate_above_nothing() -> None:
    rng = np.random.default_rng(4)
    model, who = Capacity(50), np.arange(50)
    model.guess(who, np.full(50, 1e6))
    own = np.zeros(50)
    for k in range(600):
        start = np.full(50, (k // 40) * 40 * BIN_NS)
        own = np.where(k % 40 == 0, 0.0, own) + rng.exponential(1e5, 50) * (rng.random(50) < 0.5)
        model.observe(who, np.full(50, (k + 1) * BIN_NS), start, own, rng.uniform(0, 300, 50))
        assert np.all(np.isfinite(model.data))
        assert np.linalg.eigvalsh(_covariance(model)).min() > -1e-6
        assert model.data[RATE].min() > 0
