"""Quota ledgers: exact sums, exact resets, use counted by its period."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.estimator.windows import (
    NO_ANCHOR,
    OLDER_USED,
    PREVIOUS_USED,
    WindowLedger,
    WindowState,
    fixed_start_ns,
)
from tidegate.events.config import Window
from tidegate.events.quota import period_start_ns
from tidegate.events.types import WindowId

ONE = np.array([0])
HOUR_NS = 3600 * 10**9
FIVE_H = 5 * HOUR_NS
T0 = 1_700_000_000 * 10**9


def _use(ledger: WindowLedger, start: int, units: int, overlap: int = 0) -> None:
    ledger.use(ONE, np.array([start]), np.array([units]), np.array([overlap]))


def _state(ledger: WindowLedger, now: int, *, anchor: int = NO_ANCHOR, limit: int = 1000) -> WindowState:
    return ledger.state(ONE, now, np.array([FIVE_H]), np.array([limit]), np.array([anchor]))


def test_sums_are_exact_far_beyond_float() -> None:
    ledger = WindowLedger(1)
    for _ in range(3):
        _use(ledger, T0, 2**61 - 1)
    assert _state(ledger, T0, limit=2**62).used[0] == 3 * (2**61 - 1)


def test_a_period_ends_exactly_at_its_reset() -> None:
    ledger = WindowLedger(1)
    _use(ledger, T0, 400)
    last = _state(ledger, T0 + FIVE_H - 1)
    assert (last.used[0], last.remaining[0], last.known[0]) == (400, 600, True)
    assert last.resets_at_ns[0] == T0 + FIVE_H
    first = _state(ledger, T0 + FIVE_H)
    assert (first.used[0], first.remaining[0], first.known[0]) == (0, 1000, False)
    assert np.isnan(first.elapsed[0])
    fixed = _state(ledger, T0 + FIVE_H, anchor=T0)
    assert (fixed.used[0], fixed.start_ns[0], fixed.known[0]) == (0, T0 + FIVE_H, True)
    assert fixed.elapsed[0] == 0.0


def test_a_new_period_starts_from_nothing_and_the_old_one_still_takes_late_use() -> None:
    ledger = WindowLedger(1)
    _use(ledger, T0, 400)
    _use(ledger, T0 + FIVE_H, 7)
    _use(ledger, T0, 50)
    assert _state(ledger, T0 + FIVE_H).used[0] == 7
    assert ledger.data[PREVIOUS_USED, 0] == 450


@pytest.mark.unmeasured
@given(st.permutations([(k, units) for k, units in enumerate((5, 11, 0, 400, 2)) for _ in range(3)]))
def test_the_ledger_does_not_depend_on_the_order_of_arrival(uses: list[tuple[int, int]]) -> None:
    ledger = WindowLedger(1)
    for period, units in uses:
        _use(ledger, T0 + period * FIVE_H, units)
    assert _state(ledger, T0 + 4 * FIVE_H).used[0] == 6
    assert ledger.data[PREVIOUS_USED, 0] == 1200
    assert ledger.data[OLDER_USED, 0] == 48


def test_two_gateways_that_open_one_period_count_into_one() -> None:
    ledger = WindowLedger(1)
    for start, units in ((T0 + 90, 10), (T0, 5), (T0 + 40, 1)):
        _use(ledger, start, units, FIVE_H)
    state = _state(ledger, T0 + HOUR_NS)
    assert (state.used[0], state.start_ns[0]) == (16, T0)
    _use(ledger, T0 + FIVE_H, 3, FIVE_H)
    assert _state(ledger, T0 + FIVE_H).used[0] == 3


def test_corrections_take_back_units() -> None:
    ledger = WindowLedger(1)
    _use(ledger, T0, 400)
    _use(ledger, T0, -150)
    assert _state(ledger, T0).used[0] == 250


def test_what_the_provider_counts_beyond_our_own_is_outside_use_until_the_reset() -> None:
    ledger = WindowLedger(1)
    zero = np.array([0])
    _use(ledger, T0, 100)
    ledger.observe(ONE, np.array([T0 + 5]), np.array([T0]), np.array([160]), zero)
    _use(ledger, T0, 40)
    assert _state(ledger, T0 + 9).used[0] == 200
    ledger.observe(ONE, np.array([T0 + 4]), np.array([T0]), np.array([1]), zero)
    assert _state(ledger, T0 + 9).used[0] == 200
    _use(ledger, T0 + FIVE_H, 1)
    assert _state(ledger, T0 + FIVE_H).used[0] == 1


def test_nobody_used_it_yet_is_unknown_unless_the_clock_alone_tells() -> None:
    ledger = WindowLedger(1)
    opened = _state(ledger, T0 + HOUR_NS)
    assert not opened.known[0]
    assert opened.resets_at_ns[0] == 0
    fixed = _state(ledger, T0 + HOUR_NS, anchor=T0)
    assert fixed.known[0]
    assert fixed.elapsed[0] == pytest.approx(0.2)


def test_more_used_than_allowed_leaves_nothing_not_less() -> None:
    ledger = WindowLedger(1)
    _use(ledger, T0, 4000)
    assert _state(ledger, T0).remaining[0] == 0


@given(st.integers(0, 4 * 10**18), st.integers(0, 2 * 10**18), st.integers(1, 40 * 86_400))
def test_fixed_starts_are_those_of_the_contract(now: int, anchor: int, duration_s: int) -> None:
    window = Window(
        id=WindowId("w"),
        unit="requests",
        limit=1,
        duration_s=float(duration_s),
        kind="fixed",
        anchor_ns=anchor,
    )
    mine = fixed_start_ns(np.array([now]), np.array([anchor]), np.array([duration_s * 10**9]))
    assert int(mine[0]) == period_start_ns(window, now)
