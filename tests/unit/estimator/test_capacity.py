"""A provider that tells only a percentage: the capacity is found, with honest doubt, and so is what others use."""

import numpy as np
import pytest

from tidegate.estimator import capacity_bank as bank
from tidegate.estimator.capacity import Capacity, CapacityBelief
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
    sd = np.sqrt(belief.capacity_var) / belief.capacity
    z = np.abs(error) / sd
    # Alone, the truth is the least capacity that the reports allow: bars that leave room for strangers all hold it.
    assert 0.75 < np.mean(z < 1.2816) < (1.0 if outside == "none" else 0.9)
    assert np.mean(z < 1.96) > 0.88
    assert np.median(sd) < (0.02 if outside == "none" else 0.05)
    assert not belief.prior.any()


def test_where_nobody_else_uses_the_account_that_is_found_out_and_the_capacity_is_sharp() -> None:
    world = World("none")
    error = world.told().capacity / world.capacity - 1.0
    assert np.mean(np.abs(error) < 0.05) > 0.97
    assert np.median(np.abs(error)) < 0.005


def test_even_use_leaves_the_capacity_in_doubt_as_strangers_might_be_as_even() -> None:
    """Twice the same reports: nobody tells a steady stranger from a smaller window."""
    model, zero = Capacity(1), np.zeros(1, dtype=np.int64)
    model.guess(ONE, np.array([1e6]))
    for k in range(1, 31):
        model.observe(ONE, np.array([k * BIN_NS]), zero, np.array([3e4 * k]), np.array([2.0 * k]))
    even = model.belief(ONE, WINDOW_NS, zero, np.array([9e5]))
    assert np.sqrt(even.capacity_var[0]) > 0.01 * even.capacity[0]
    assert abs(even.capacity[0] - 1.5e6) < 2.0 * np.sqrt(even.capacity_var[0])


def _window(model: Capacity, number: int, theirs: float, rng: np.random.Generator) -> CapacityBelief:
    """A window of a million units with uneven use of ours and `theirs` by others in every bin."""
    start, own = np.array([number * WINDOW_NS]), 0.0
    for k in range(1, 31):
        own += 5e4 * rng.random() * (rng.random() < 0.6)
        percent = np.array([float(round((own + k * theirs) / 1e4))])
        model.observe(ONE, start + k * BIN_NS - 1, start, np.array([own]), percent)
    return model.belief(ONE, (number + 1) * WINDOW_NS - 1, start, np.array([own]))


def test_strangers_that_come_after_weeks_alone_are_noticed_within_a_window() -> None:
    rng = np.random.default_rng(6)
    model = Capacity(1)
    model.guess(ONE, np.array([2e6]))
    alone = [_window(model, number, 0.0, rng) for number in range(7)][-1]
    assert alone.outside[0] < 1e4
    joined = _window(model, 7, 1e4, rng)
    assert abs(joined.outside[0] - 3e5) < 4.5e4
    assert abs(joined.capacity[0] - 1e6) < 5e4


ONE_FILTER = [40.0, 120.0, 2.0, 0.5, 1.0, 0.2, 9.0, 0.1, 4.0, 1e6, 3.6e6, 0.0, 3e5, 7.0, 0.3, 3.6e6]
"""A column as the first version stored it: state, covariance, guess, times, use, evidence, and what is left out."""
FOUR_FILTERS = [
    *(20.0, 22.0, 22.0, 24.0), *(100.0, 80.0, 80.0, 90.0), *(0.0, 2.0, 2.0, 3.0), *(0.01, 0.05, 0.05, 0.5),
    *(0.05, 0.1, 0.1, -0.2), *(0.0, 0.0, 0.0, 0.1), *(1.0, 25.0, 25.0, 36.0), *(0.0, -1.0, -1.0, -2.0),
    *(0.0, 4.0, 5.0, 9.0), *(-2.0, 0.0, 0.0, -1.0), *(1e6, 3.6e6, 0.0, 2e5, 9.0, 3.6e6),
]  # fmt: skip
"""As the bank of four stored it: level, rate, pace, covariances and weight of each."""


def test_a_column_of_one_filter_is_read_as_a_bank_that_begins_where_it_stood() -> None:
    model = Capacity(1)
    model.load(0, ONE_FILTER)
    filters = _filters(model)[:, :, 0]
    assert len(model.row(0)) == len(Capacity.FIELDS)
    assert filters[bank.RATE].tolist() == [120.0] * bank.FILTERS
    assert np.linalg.eigvalsh(_covariance(model)).min() > -1e-12
    belief = model.belief(ONE, 3_600 * NS, np.zeros(1, dtype=np.int64), np.array([3e5]))
    assert belief.capacity[0] == pytest.approx(1e8 / 120.0)
    assert not belief.prior[0]
    assert belief.level[0] == pytest.approx(40.0)


def test_a_column_of_four_filters_is_read_as_a_bank_that_believes_the_same() -> None:
    model, rng = Capacity(1), np.random.default_rng(8)
    model.load(0, FOUR_FILTERS)
    filters = _filters(model)[:, :, 0]
    share = np.exp(np.array(FOUR_FILTERS[36:40]))
    share /= share.sum()
    assert filters[:3, 0].tolist() == [20.0, 100.0, 0.0]
    assert np.exp(filters[bank.LOG_WEIGHT, 0]) / np.exp(filters[bank.LOG_WEIGHT]).sum() == pytest.approx(
        share[0]
    )
    rates, variances = np.array(FOUR_FILTERS[4:8]), np.array(FOUR_FILTERS[24:28])
    mean = share @ rates
    assert np.allclose(filters[bank.RATE, 1:], mean)
    assert np.allclose(filters[bank.C11, 1:], share @ (variances + (rates - mean) ** 2))
    assert np.linalg.eigvalsh(_covariance(model)).min() > -1e-12
    belief = _window(model, 3, 0.0, rng)
    assert abs(belief.capacity[0] - 1e6) < 5e4


def test_a_column_of_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="needs"):
        Capacity(1).load(0, [0.0] * 20)


def test_when_strangers_rest_even_use_of_ours_tells_the_capacity() -> None:
    """What is the same in every bin may be anybody's; but strangers who come and go are not there at times."""
    rng = np.random.default_rng(9)
    n = 200
    model, who, zero = Capacity(n), np.arange(n), np.zeros(n, dtype=np.int64)
    model.guess(who, 1e6 * np.exp(rng.normal(0, 1, n)))
    own, others, busy = np.zeros(n), np.zeros(n), rng.random(n) < 0.5
    for k in range(1, 31):
        own += 2e4
        busy ^= rng.random(n) < 0.15
        others += np.where(busy, 1.3e4 * rng.lognormal(0, 0.4, n), 0.0)
        percent = np.round((own + others) / 1e4)
        open_ = percent < 100
        at = np.full(open_.sum(), k * BIN_NS)
        model.observe(who[open_], at, zero[open_], own[open_], percent[open_])
    belief = model.belief(who, WINDOW_NS - 1, zero, own)
    error = np.abs(belief.capacity / 1e6 - 1.0)
    assert np.mean(error < 0.05) > 0.65
    assert np.mean(error < 1.6449 * np.sqrt(belief.capacity_var) / 1e6) > 0.85


def test_two_filters_of_a_pair_are_merged_to_the_moments_of_both() -> None:
    model = Capacity(1)
    model.guess(ONE, np.array([1e6]))
    zero = np.zeros(1, dtype=np.int64)
    model.observe(ONE, np.array([BIN_NS]), zero, np.array([1e5]), np.array([12.0]))
    filters = _filters(model)
    idle, busy = filters[:, 5:6], filters[:, 5 + bank.PAIRS : 6 + bank.PAIRS]
    assert not np.allclose(idle[: bank.LOG_WEIGHT], busy[: bank.LOG_WEIGHT])
    share = 1.0 / (1.0 + np.exp(busy[bank.LOG_WEIGHT] - idle[bank.LOG_WEIGHT]))
    merged = bank.merged(idle, busy)
    rate = share * idle[bank.RATE] + (1.0 - share) * busy[bank.RATE]
    second = [x[bank.C01] + x[bank.LEVEL] * x[bank.RATE] for x in (idle, busy)]
    assert np.allclose(merged[bank.RATE], rate)
    assert np.allclose(
        merged[bank.C01] + merged[bank.LEVEL] * rate, share * second[0] + (1.0 - share) * second[1]
    )
    assert np.allclose(np.exp(merged[bank.LOG_WEIGHT]), sum(np.exp(x[bank.LOG_WEIGHT]) for x in (idle, busy)))


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


def _filters(model: Capacity) -> FloatArray:
    """Of every window, (GROUPS, FILTERS, n)."""
    return model.data[: bank.GROUPS * bank.FILTERS].reshape(bank.GROUPS, bank.FILTERS, -1)


def _covariance(model: Capacity) -> FloatArray:
    """Of every filter of every window, (…, 3, 3)."""
    filters = _filters(model)
    rows = [[filters[bank.COV[a][b]] for b in range(3)] for a in range(3)]
    return np.array(rows).transpose(2, 3, 0, 1)


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
        if k % 20 == 0:
            assert np.linalg.eigvalsh(_covariance(model)).min() > -1e-6
        assert _filters(model)[bank.RATE].min() > 0
