"""Billed prices: exact steps, no logarithm of nothing, and a change nobody announced is noticed."""

import numpy as np
import pytest

from tidegate.estimator.price_filter import PriceBelief, PriceFilter

ONE = np.array([0])
MINUTE_NS = 60_000_000_000
USD = 1_000_000_000


class Bills:
    """One series that is billed once a minute."""

    def __init__(self, list_price: int | None = None) -> None:
        self.filter = PriceFilter(1)
        self.now = 1_700_000_000 * 10**9
        if list_price is not None:
            self.list(list_price)

    def list(self, price: int) -> None:
        self.filter.price_event(ONE, np.array([self.now]), np.array([price]))

    def bill(self, price: float, tokens: int = 10_000) -> None:
        self.now += MINUTE_NS
        cost = int(price * tokens / 1e6 + 0.5)
        self.filter.observe(ONE, np.array([self.now]), np.array([cost]), np.array([tokens]))

    def belief(self, later_ns: int = 0) -> PriceBelief:
        return self.filter.belief(ONE, self.now + later_ns)


def test_nothing_seen_is_unknown_and_a_list_price_is_a_prior() -> None:
    assert not Bills().belief().known[0]
    listed = Bills(3 * USD).belief()
    assert listed.known[0]
    assert listed.prior[0]
    assert abs(int(listed.mean_nanousd[0]) - 3 * USD) <= 2
    assert 0 < listed.var_nanousd2[0] < (0.2 * 3 * USD) ** 2


def test_what_is_billed_is_learned_from_few_bills_without_a_list_price() -> None:
    bills = Bills()
    for _ in range(5):
        bills.bill(2.5 * USD)
    belief = bills.belief()
    assert not belief.prior[0]
    assert belief.mean_nanousd[0] == pytest.approx(2.5 * USD, rel=0.01)
    assert belief.var_nanousd2[0] ** 0.5 < 0.05 * 2.5 * USD


def test_a_price_event_moves_the_mean_by_exactly_the_announced_factor() -> None:
    bills = Bills(4 * USD)
    for _ in range(50):
        bills.bill(3.6 * USD)
    before = int(bills.belief().mean_nanousd[0])
    var = bills.belief().var_nanousd2[0] / before**2
    bills.list(2 * USD)
    after = bills.belief()
    assert after.mean_nanousd[0] == pytest.approx(before / 2, rel=1e-8)
    assert after.var_nanousd2[0] / int(after.mean_nanousd[0]) ** 2 > 5 * var
    assert not after.changed[0]


def test_the_same_list_price_again_is_no_event() -> None:
    bills = Bills(4 * USD)
    for _ in range(10):
        bills.bill(3.6 * USD)
    before = bills.filter.row(0)
    bills.list(4 * USD)
    assert bills.filter.row(0)[:-1] == before[:-1]


def test_three_surprising_bills_in_a_row_raise_the_flag_and_are_believed() -> None:
    bills = Bills(4 * USD)
    for _ in range(40):
        bills.bill(4 * USD)
    bills.bill(8 * USD)
    bills.bill(8 * USD)
    assert not bills.belief().changed[0]
    bills.bill(8 * USD)
    assert bills.belief().changed[0]
    bills.bill(8 * USD)
    assert bills.belief().mean_nanousd[0] == pytest.approx(8 * USD, rel=0.03)
    bills.list(8 * USD)
    assert not bills.belief().changed[0]


def test_one_outlier_neither_raises_the_flag_nor_moves_the_price() -> None:
    bills = Bills(4 * USD)
    for k in range(60):
        bills.bill(400 * USD if k == 30 else 4 * USD)
        assert not bills.belief().changed[0]
    assert bills.belief().mean_nanousd[0] == pytest.approx(4 * USD, rel=0.02)


def test_honest_noise_raises_no_flag() -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(20):
        bills = Bills(4 * USD)
        for _ in range(200):
            bills.bill(4 * USD * float(np.exp(0.1 * rng.standard_normal())))
        alarms += int(bills.belief().changed[0])
        assert bills.belief().mean_nanousd[0] == pytest.approx(4 * USD, rel=0.12)
    assert alarms <= 2


def test_small_bills_weigh_less_than_large_ones() -> None:
    small, large = Bills(4 * USD), Bills(4 * USD)
    small.bill(4.4 * USD, tokens=20)
    large.bill(4.4 * USD, tokens=1_000_000)
    assert small.belief().mean_nanousd[0] < large.belief().mean_nanousd[0]
    assert large.belief().mean_nanousd[0] == pytest.approx(4.4 * USD, rel=0.01)


def test_a_flat_plan_bills_zero_and_its_price_is_known_to_be_zero() -> None:
    for bills in (Bills(0), Bills()):
        for _ in range(20):
            bills.bill(0)
        belief = bills.belief()
        assert belief.known[0]
        assert belief.mean_nanousd[0] == 0
        assert belief.var_nanousd2[0] == 0.0
        assert np.all(np.isfinite(bills.filter.data))


def test_zero_bills_among_paid_ones_give_the_mixture_and_paid_ones_end_it() -> None:
    bills = Bills(4 * USD)
    for _ in range(30):
        bills.bill(0)
    assert bills.belief().mean_nanousd[0] < 0.02 * USD
    for _ in range(30):
        bills.bill(4 * USD)
    assert bills.belief().mean_nanousd[0] == pytest.approx(4 * USD, rel=0.02)
    bills.bill(0)
    mixed = bills.belief()
    assert 3 * USD < mixed.mean_nanousd[0] < 3.5 * USD
    assert mixed.var_nanousd2[0] > USD**2


def test_a_plan_that_starts_to_bill_per_token_takes_the_list_price() -> None:
    bills = Bills(0)
    for _ in range(10):
        bills.bill(0)
    bills.list(3 * USD)
    assert abs(int(bills.belief().mean_nanousd[0]) - 3 * USD) <= 2


def test_bills_without_tokens_or_below_zero_are_ignored() -> None:
    bills = Bills(4 * USD)
    before = bills.filter.row(0)
    when = np.array([bills.now, bills.now])
    bills.filter.ensure(2)
    bills.filter.observe(np.array([0, 1]), when, np.array([5, -5]), np.array([0, 10]))
    assert bills.filter.row(0) == before
    assert bills.filter.row(1) == list(PriceFilter.PRIOR)


def test_doubt_grows_with_time_but_not_without_bound() -> None:
    bills = Bills(4 * USD)
    for _ in range(20):
        bills.bill(4 * USD)
    soon, later = bills.belief(), bills.belief(90 * 1440 * MINUTE_NS)
    never = bills.belief(10**6 * 1440 * MINUTE_NS)
    assert soon.var_nanousd2[0] < later.var_nanousd2[0] < never.var_nanousd2[0]
    assert never.mean_nanousd[0] < 2 * 4 * USD
    assert np.all(np.isfinite(never.var_nanousd2))
