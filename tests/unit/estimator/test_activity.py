"""The activity chain: exact over gaps, and it learns what it is fed."""

import numpy as np

from tidegate.estimator import activity
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.day_profile import HOUR_MS

BIN = 600_000.0


def _fresh(n: int = 1) -> FloatArray:
    return np.repeat(np.array(activity.PRIOR)[:, None], n, axis=1)


def _close(chain: FloatArray, bin_: int, active: bool) -> None:
    n = chain.shape[1]
    begin = np.full(n, bin_ * BIN)
    activity.close_bin(chain, np.full(n, active), begin, begin + BIN)


def test_a_gap_in_closed_form_equals_its_bins_one_by_one() -> None:
    for after_active in (True, False):
        for gap in (1, 2, 3, 6, 7, 30, 400):
            jumped, walked = _fresh(), _fresh()
            for chain in (jumped, walked):
                _close(chain, 0, active=True)
                _close(chain, 1, active=after_active)
            begin = np.full(1, 2 * BIN)
            activity.close_idle(jumped, np.array([float(gap)]), begin, begin + gap * BIN)
            for k in range(gap):
                _close(walked, 2 + k, active=False)
            assert np.allclose(jumped, walked, rtol=1e-9, atol=1e-12), (after_active, gap)


def test_the_chance_to_resume_falls_with_the_idle_age_it_was_seen_at() -> None:
    chain = _fresh()
    bin_ = 0
    for _ in range(60):  # always back after one idle bin, or else gone for 40
        for active, times in ((True, 3), (False, 1), (True, 3), (False, 40)):
            for _ in range(times):
                _close(chain, bin_, active)
                bin_ += 1
    share = [
        chain[activity.START + k, 0] / (chain[activity.START + k, 0] + chain[activity.STAY_IDLE + k, 0])
        for k in range(4)
    ]
    assert share[0] > 0.4
    assert max(share[1:3]) < 0.05
    assert share[3] < share[0] / 5


def test_the_first_bin_counts_no_move_and_counts_stay_bounded() -> None:
    chain = _fresh()
    _close(chain, 0, active=True)
    assert chain[activity.START : activity.GO_ON + 1, 0].tolist() == list(
        activity.PRIOR[activity.START : activity.GO_ON + 1]
    )
    begin = np.full(1, BIN)
    activity.close_idle(chain, np.array([1e7]), begin, begin + 1e7 * BIN)
    assert chain[activity.STAY_IDLE + 3, 0] <= 1 / 0.003 + activity.PRIOR_STAY_IDLE
    assert np.all(np.isfinite(chain))


def test_time_of_day_raises_the_odds_where_activity_was_seen() -> None:
    chain = _fresh()
    for bin_ in range(144 * 14):
        hour = bin_ * BIN / HOUR_MS % 24
        _close(chain, bin_, active=9.99 <= hour < 15.99)
    factor = activity.time_of_day_factor(chain)[:, 0]
    assert factor[5:8].min() > 2.0
    assert factor[[0, 1, 2, 3, 9, 10, 11]].max() < 0.7
    assert np.array_equal(activity.time_of_day_factor(_fresh())[:, 0], np.ones(12))
