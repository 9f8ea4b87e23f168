"""The record of a series' own forecasts: it corrects what was said, and keeps what was right as it was."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.estimator import activity, bank, calibration
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.series_fields import FIELDS, LEVEL, PRIOR, RECORD, UNSEEN
from tidegate.estimator.series_upcast import ONE_FILTER_FIELDS, upcast


def _fresh(n: int = 1) -> FloatArray:
    return np.repeat(np.array(calibration.PRIOR)[:, None], n, axis=1)


def _draws(rng: np.random.Generator, n: int, sd: float = 1.0) -> FloatArray:
    return np.sort(np.exp(sd * rng.standard_normal((DRAWS, n))), axis=0)


def _taught(bias: float, windows: int = 120) -> FloatArray:
    """A hundred series whose truth is the forecast's law times `bias`."""
    rng = np.random.default_rng(1)
    record = _fresh(100)
    for _ in range(windows):
        calibration.ask(record, _draws(rng, 100))
        calibration.settle(record, bias * np.exp(rng.standard_normal(100)))
    return record


def test_a_forecast_that_is_half_too_low_is_read_higher_and_one_that_is_too_high_lower() -> None:
    rng = np.random.default_rng(2)
    draws = _draws(rng, 100)
    plain = calibration.chance(_fresh(100), draws - 2.0)
    assert calibration.chance(_taught(2.0), draws - 2.0).mean() > plain.mean() + 0.07
    assert calibration.chance(_taught(0.5), draws - 2.0).mean() < plain.mean() - 0.07


def test_right_forecasts_cover_what_they_promise_and_wrong_ones_are_mended() -> None:
    for bias in (1.0, 1.7):
        record = _taught(bias)
        covered_80, covered_90, settled = calibration.coverage(record)
        assert abs(covered_80.mean() - 0.8) < 0.04
        assert abs(covered_90.mean() - 0.9) < 0.04
        assert settled.min() > 40


def test_before_any_forecast_coverage_is_unknown() -> None:
    covered_80, covered_90, settled = calibration.coverage(_fresh())
    assert np.isnan(covered_80[0])
    assert np.isnan(covered_90[0])
    assert settled[0] == 0


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.0, 3.0]))
@settings(max_examples=30, deadline=None)
def test_the_chance_falls_with_the_quota_and_stays_between_0_and_1(seed: int, bias: float) -> None:
    rng = np.random.default_rng(seed)
    record, draws = _taught(bias, 3)[:, :1], _draws(rng, 1, 2.0)
    quotas = np.sort(np.concatenate((draws[::7, 0], np.exp(rng.normal(0, 3, 30)))))
    p = np.array([calibration.chance(record, draws - quota)[0] for quota in quotas])
    assert np.all(np.diff(p) <= 1e-12)
    assert p.min() > 0
    assert p.max() < 1


def test_where_all_draws_are_alike_the_truth_counts_for_every_cell_and_the_chance_is_small() -> None:
    record = _fresh()
    calibration.ask(record, np.zeros((DRAWS, 1)))
    calibration.settle(record, np.zeros(1))
    assert np.allclose(record[calibration.CELL, 0], 1.0 / calibration.CELLS)
    assert calibration.coverage(record)[0][0] == 1.0
    assert calibration.chance(record, np.full((DRAWS, 1), -5.0))[0] < 0.02


def test_corrected_draws_are_ascending_and_agree_with_the_chance() -> None:
    rng = np.random.default_rng(3)
    record, draws = _taught(1.6), _draws(rng, 100)
    corrected = calibration.corrected(record, draws)
    assert np.all(np.diff(corrected, axis=0) >= 0)
    assert np.all(corrected <= draws[-1])
    middle = corrected[DRAWS // 2]
    assert np.all(np.abs(calibration.chance(record, draws - middle) - 0.5) < 0.04)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.0, 3.0]))
@settings(max_examples=30, deadline=None)
def test_the_published_points_are_where_the_chance_says_so_the_tail_included(seed: int, bias: float) -> None:
    rng = np.random.default_rng(seed)
    record, draws = _taught(bias, 4)[:, :20], _draws(rng, 20, 2.0)
    points, spread = calibration.points(record, draws), draws[-1] - draws[0]
    assert np.all(np.diff(points, axis=0) >= 0)
    assert np.all(points <= draws[-1] + 4.0 * spread * (1 + 1e-9))
    for level, at in zip(calibration.LEVELS, points, strict=True):
        said = calibration.chance(record, draws - at)
        own = (at > draws[0]) & (at < draws[-1] + 3.9 * spread) & ~np.any(np.isclose(draws, at), axis=0)
        assert np.allclose(said[own], 1.0 - level)
    assert np.any(points[-1] > draws[-1]) or bias < 3.0, (
        "a record of too low forecasts looks beyond the draws"
    )


def test_where_half_of_the_lowest_cell_suffices_no_use_at_all_is_expected() -> None:
    record = _fresh(2)
    for _ in range(12):
        calibration.ask(record, np.ones((DRAWS, 2)) + np.arange(DRAWS)[:, None])
        calibration.settle(record, np.array([0.5, 20.5]))
    assert calibration.points(record, np.arange(5.0, 37.0)[:, None] * np.ones(2))[0].tolist()[0] == 0.0
    assert calibration.points(record, np.full((DRAWS, 2), 7.0))[-1].tolist() == [7.0, 7.0], (
        "no spread, no tail"
    )


def test_a_series_of_the_single_filter_begins_the_bank_where_it_stood() -> None:
    old = [float(k + 1) for k in range(ONE_FILTER_FIELDS)]
    new = np.array(upcast(old))
    assert new.size == len(FIELDS) == len(PRIOR)
    first = 4 + len(activity.FIELDS)
    assert new[:4].tolist() == old[:4]
    assert new[4:6].tolist() == [UNSEEN, 0.0]
    for place, group in enumerate((bank.SLOW, bank.FAST, bank.P00, bank.P01, bank.P11, bank.SCALE)):
        assert set(new[LEVEL][group]) == {old[first + place]}
    assert new[LEVEL][bank.KNOT].tolist() == old[first + 8 : first + 20]
    assert set(new[LEVEL][bank.LOG_WEIGHT]) == {0.0}
    assert set(new[RECORD]) == {0.0}
