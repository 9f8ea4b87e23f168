"""Billed prices: a factor that bills alone teach, no logarithm of nothing, an unannounced change is noticed."""

import numpy as np
import pytest

from tidegate.estimator.price_filter import PriceBelief, PriceFilter

ONE = np.array([0])
MINUTE_NS = 60_000_000_000
USD = 1_000_000_000


class Bills:
    """One series that is billed once a minute, listed at `list_price`."""

    def __init__(self, list_price: int = 4 * USD) -> None:
        self.filter = PriceFilter(1)
        self.now = 1_700_000_000 * 10**9
        self.list_price = list_price

    def bill(self, factor: float, tokens: int = 10_000) -> None:
        self.now += MINUTE_NS
        listed = self.list_price * tokens // 10**6
        self.filter.observe(
            *(np.array([n]) for n in (0, self.now, round(factor * listed), listed, tokens, self.list_price))
        )

    def belief(self, later_ns: int = 0, list_price: float | None = None) -> PriceBelief:
        at = np.array([float(self.list_price if list_price is None else list_price)])
        return self.filter.belief(ONE, self.now + later_ns, at)


def test_without_a_bill_the_list_price_is_expected_and_that_is_a_prior() -> None:
    for later_ns in (0, 10**18):
        belief = Bills().belief(later_ns)
        assert (belief.factor[0], belief.prior[0], belief.changed[0]) == (1.0, True, False)
        assert 0 < belief.var[0] < 0.2**2


@pytest.mark.parametrize("factor", [0.3, 0.8, 1.0, 1.05, 2.5])
def test_what_is_billed_is_learned_from_few_bills(factor: float) -> None:
    bills = Bills()
    for _ in range(8):
        bills.bill(factor)
    belief = bills.belief()
    assert not belief.prior[0]
    assert belief.factor[0] == pytest.approx(factor, rel=0.01)
    assert belief.var[0] ** 0.5 < 0.05 * factor


def test_another_list_price_leaves_the_factor_and_doubts_it_until_a_bill_comes() -> None:
    bills = Bills()
    for _ in range(50):
        bills.bill(0.9)
    before, after = bills.belief(), bills.belief(list_price=2.0 * USD)
    assert after.factor[0] == before.factor[0]
    assert after.var[0] > 5 * before.var[0]
    assert bills.belief(list_price=float("nan")).var[0] == before.var[0]
    bills.list_price = 2 * USD
    bills.bill(0.7)
    bills.bill(0.7)
    assert bills.belief().factor[0] == pytest.approx(0.7, rel=0.03), "what came before weighs little"


def test_three_surprising_bills_in_a_row_raise_the_flag_and_are_believed() -> None:
    bills = Bills()
    for _ in range(40):
        bills.bill(1)
    bills.bill(2)
    bills.bill(2)
    assert not bills.belief().changed[0]
    bills.bill(2)
    assert bills.belief().changed[0]
    bills.bill(2)
    assert bills.belief().factor[0] == pytest.approx(2, rel=0.03)
    bills.list_price *= 2
    bills.bill(1)
    assert not bills.belief().changed[0]


def test_one_outlier_neither_raises_the_flag_nor_moves_the_price() -> None:
    bills = Bills()
    for k in range(60):
        bills.bill(100 if k == 30 else 1)
        assert not bills.belief().changed[0]
    assert bills.belief().factor[0] == pytest.approx(1, rel=0.02)


def test_honest_noise_raises_no_flag() -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(20):
        bills = Bills()
        for _ in range(200):
            bills.bill(float(np.exp(0.1 * rng.standard_normal())))
        alarms += int(bills.belief().changed[0])
        assert bills.belief().factor[0] == pytest.approx(1, rel=0.12)
    assert alarms <= 2


def test_small_bills_weigh_less_than_large_ones() -> None:
    small, large = Bills(), Bills()
    small.bill(1.1, tokens=20)
    large.bill(1.1, tokens=1_000_000)
    assert small.belief().factor[0] < large.belief().factor[0]
    assert large.belief().factor[0] == pytest.approx(1.1, rel=0.01)


def test_bills_of_nothing_lead_to_nothing_and_never_enter_a_logarithm() -> None:
    bills = Bills()
    for _ in range(5_000):
        bills.bill(0)
    belief = bills.belief()
    assert (belief.factor[0], belief.prior[0]) == (pytest.approx(0, abs=1e-12), False)
    assert belief.var[0] == pytest.approx(0, abs=1e-12)
    assert np.all(np.isfinite(bills.filter.data))


def test_zero_bills_among_paid_ones_give_the_mixture_and_paid_ones_end_it() -> None:
    bills = Bills()
    for _ in range(30):
        bills.bill(0)
    assert bills.belief().factor[0] < 0.02
    for _ in range(30):
        bills.bill(1)
    assert bills.belief().factor[0] == pytest.approx(1, rel=0.02)
    bills.bill(0)
    mixed = bills.belief()
    assert 0.75 < mixed.factor[0] < 0.875
    assert mixed.var[0] > 0.05


@pytest.mark.parametrize(
    ("billed", "listed", "tokens", "list_price"),
    [(5, 5, 0, USD), (-5, 5, 10, USD), (5, 0, 10, USD), (5, 5, 10, 0)],
    ids=["no tokens", "below zero", "nothing listed", "a class listed free"],
)
def test_what_says_nothing_of_a_factor_is_ignored(
    billed: int, listed: int, tokens: int, list_price: int
) -> None:
    bills = Bills()
    bills.filter.observe(*(np.array([n]) for n in (0, bills.now, billed, listed, tokens, list_price)))
    assert bills.filter.row(0) == list(PriceFilter.PRIOR)


def test_with_time_doubt_grows_but_not_without_bound_and_the_factor_stays() -> None:
    bills = Bills()
    for _ in range(20):
        bills.bill(1)
    soon, later = bills.belief(), bills.belief(90 * 1440 * MINUTE_NS)
    never = bills.belief(10**6 * 1440 * MINUTE_NS)
    assert soon.var[0] < later.var[0] < never.var[0]
    assert never.factor[0] == soon.factor[0]
    assert np.all(np.isfinite(never.var))
