"""The pace of a window so far, weighed into the chance that its quota is used up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.estimator.pace import Pace, weighed

CHANCES = st.floats(0.0, 1.0)
SHARES = st.floats(0.01, 0.99)
UNITS = st.floats(0.0, 1e12)


def one(p: float, used: float, left: float, elapsed: float, *, busy: bool = True) -> float:
    pace = Pace(np.array([used]), np.array([elapsed]))
    return float(weighed(np.array([p]), pace, np.array([left]), np.array([busy]))[0])


def test_a_window_on_its_way_over_the_quota_is_likelier_to_get_there_than_the_model_says() -> None:
    assert one(0.5, used=70, left=30, elapsed=0.5) > 0.6
    assert one(0.5, used=20, left=80, elapsed=0.5) < 0.35
    assert one(0.5, used=50, left=50, elapsed=0.5) == pytest.approx(0.5)


def test_a_window_that_is_idle_now_has_no_pace_only_less_certainty() -> None:
    assert one(0.9, used=70, left=30, elapsed=0.5, busy=False) == one(0.9, 1, 99, 0.5, busy=False)
    assert 0.8 < one(0.9, used=70, left=30, elapsed=0.5, busy=False) < 0.9
    assert 0.1 < one(0.1, used=70, left=30, elapsed=0.5, busy=False) < 0.2


@pytest.mark.parametrize("elapsed", [np.nan, 0.0, 1.0])
def test_without_a_pace_the_chance_stays_to_the_bit(elapsed: float) -> None:
    assert one(0.123456789, used=70, left=30, elapsed=elapsed) == 0.123456789
    assert one(0.7, used=0, left=0, elapsed=0.5) == 0.7


def test_the_first_moments_of_a_window_say_little() -> None:
    assert one(0.3, used=1, left=99, elapsed=0.0005) == pytest.approx(0.3, abs=0.01)
    assert one(0.3, used=10, left=90, elapsed=0.02) < one(0.3, used=30, left=70, elapsed=0.1)


@given(p=CHANCES, used=UNITS, left=UNITS, elapsed=SHARES)
def test_it_stays_a_chance(p: float, used: float, left: float, elapsed: float) -> None:
    assert 0.0 <= one(p, used, left, elapsed) <= 1.0


@given(p=CHANCES, used=UNITS, left=st.floats(1.0, 1e12), more=UNITS, elapsed=SHARES)
def test_more_left_of_the_same_quota_is_never_likelier_to_be_used_up(
    p: float, used: float, left: float, more: float, elapsed: float
) -> None:
    assert one(p, used, left + more, elapsed) <= one(p, used, left, elapsed) + 1e-12


@given(p=CHANCES, less=CHANCES, used=UNITS, left=UNITS, elapsed=SHARES)
def test_the_order_of_the_models_chances_is_kept(
    p: float, less: float, used: float, left: float, elapsed: float
) -> None:
    low, high = sorted((p, less))
    assert one(low, used, left, elapsed) <= one(high, used, left, elapsed)


def test_each_window_is_weighed_for_itself() -> None:
    rng = np.random.default_rng(1)
    p, used, left, elapsed = rng.random(50), rng.random(50) * 9, rng.random(50) * 9, rng.random(50)
    elapsed[::7], busy = np.nan, rng.random(50) < 0.7
    together = weighed(p, Pace(used, elapsed), left, busy)
    for k in range(50):
        assert together[k] == one(p[k], used[k], left[k], elapsed[k], busy=bool(busy[k]))
