"""The scores say what they are called: against cases worked out by hand and against brute force."""

import numpy as np

from bench.forecast import scores


def test_brier_log_score_and_its_parts() -> None:
    p, outcome = np.array([0.05, 0.05, 0.95, 0.95]), np.array([0.0, 1.0, 1.0, 1.0])
    assert np.isclose(scores.brier(p, outcome), (3 * 0.05**2 + 0.95**2) / 4)
    assert np.isclose(scores.brier(p, outcome, np.array([1.0, 0.0, 0.0, 0.0])), 0.05**2)
    assert np.isclose(scores.log_score(np.array([0.0]), np.array([1.0])), -np.log(1e-4))
    reliability, resolution, uncertainty = scores.murphy(p, outcome)
    assert np.isclose(reliability - resolution + uncertainty, scores.brier(p, outcome))


def test_a_forecast_of_the_frequency_has_no_calibration_error_and_one_beside_it_has() -> None:
    outcome = np.tile([1.0, 0.0, 0.0, 0.0], 25)
    assert np.isclose(scores.calibration_error(np.full(100, 0.25), outcome), 0.0)
    assert np.isclose(scores.calibration_error(np.full(100, 0.45), outcome), 0.2)


def test_auc_is_the_chance_of_the_right_order_with_ties_counting_half() -> None:
    rng = np.random.default_rng(1)
    p, outcome = rng.integers(0, 5, 60) / 5, (rng.random(60) < 0.4).astype(float)
    pairs = [(a > b) + 0.5 * (a == b) for a in p[outcome > 0] for b in p[outcome == 0]]
    assert np.isclose(scores.auc(p, outcome), np.mean(pairs))


def test_crps_agrees_with_all_pairs() -> None:
    rng = np.random.default_rng(2)
    draws, value = np.sort(rng.normal(size=(9, 4)), axis=0), rng.normal(size=4)
    slow = np.abs(draws - value).mean(axis=0) - 0.5 * np.abs(draws[:, None] - draws[None]).mean(axis=(0, 1))
    assert np.allclose(scores.crps(draws, value), slow)


def test_the_limit_lets_at_most_the_named_share_of_quiet_windows_ring() -> None:
    rng = np.random.default_rng(3)
    for quiet in (rng.random(200), np.repeat([0.1, 0.9], [188, 12]), np.full(40, 0.5)):
        limit = scores.limit_at(quiet, 0.05)
        assert np.mean(quiet >= limit) <= 0.05


def test_recall_counts_windows_that_could_be_announced_in_time_and_lead_is_that_of_the_first_alarm() -> None:
    score = np.array([0.2, 0.9, 0.9, 0.1, 0.9, 0.9, *np.full(19, 0.5), 0.95])
    window = np.array([0, 0, 0, 1, 1, 2, *range(3, 23)])
    lead_s = np.array([7200.0, 3600.0, 600.0, 3600.0, 900.0, 1200.0, *np.full(20, np.inf)])
    outcome = np.where(window < 3, 1.0, 0.0)
    recall, first = scores.announced(score, outcome, window, lead_s, 1800.0)
    assert recall == 0.5, "one quiet window of twenty may ring, so 0.95 does not set the limit"
    assert first.tolist() == [3600.0, 900.0, 1200.0]
    recall, first = scores.announced(0.0 * score, outcome, window, lead_s, 1800.0)
    assert (recall, first.size) == (0.0, 0)


def test_the_interval_of_a_gain_is_over_series_not_over_decisions() -> None:
    rng = np.random.default_rng(4)
    series = np.repeat(np.arange(40), 25)
    gain = np.repeat(rng.normal(0.1, 0.2, 40), 25)
    mean, low, high = scores.gain_interval(np.zeros(1000), gain, series)
    assert np.isclose(mean, gain.mean())
    assert 0.08 < high - low < 0.18
    narrow = scores.gain_interval(np.zeros(1000), gain, np.arange(1000))
    assert narrow[2] - narrow[1] < 0.5 * (high - low)
