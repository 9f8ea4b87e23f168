"""The questions of the forecast bench, and that nobody who answers them has seen the future."""

import numpy as np

from bench.forecast.baselines import candidates, residuals, tuned
from bench.forecast.hurdle import answers
from bench.forecast.questions import PLACES, asked, fixed, lead_s, past_quota, relative
from bench.forecast.traffic import Traffic


def _traffic(seed: int = 1, series: int = 4, windows: int = 8) -> Traffic:
    rng = np.random.default_rng(seed)
    busy = rng.random((series, windows, 30)) < 0.6
    units = np.ceil(busy * rng.lognormal(6, 1, (series, windows, 30)))
    return Traffic([f"s_{k}" for k in range(series)], units, 18_000)


def test_used_and_rest_make_the_window_and_outcomes_follow_the_quota() -> None:
    traffic = _traffic()
    facts, quota = asked(traffic), past_quota(traffic, range(4))
    total = traffic.units.sum(axis=2).T
    assert np.allclose((facts.used + facts.rest)[:, 0], total)
    task = fixed(facts, quota, range(4, 8))
    assert set(task.window) <= {4, 5, 6, 7}
    assert np.all(task.left > 0)
    assert np.array_equal(task.outcome > 0, total[task.window, task.series] >= quota[task.series])


def test_relative_quotas_weigh_hits_and_misses_alike() -> None:
    task = relative(asked(_traffic()), range(4, 8))
    assert np.isclose(task.weight[task.outcome > 0].sum(), task.weight[task.outcome == 0].sum())
    assert np.isclose(np.average((0.5 - task.outcome) ** 2, weights=task.weight), 0.25)


def test_lead_is_the_time_to_the_begin_of_the_bin_that_passes_the_quota() -> None:
    units = np.ones((1, 1, 30))
    traffic = Traffic(["one"], units, 18_000)
    task = fixed(asked(traffic), np.array([12.0]), range(1))
    assert [*task.place] == [0, 1, 2]
    assert lead_s(traffic, task, np.array([12.0])).tolist() == [8 * 600, 5 * 600, 2 * 600]
    assert np.all(np.isinf(lead_s(traffic, task, np.array([31.0]))))


def test_no_forecaster_sees_what_comes_after_its_question() -> None:
    traffic = _traffic()
    cut = 6
    altered = traffic.units.copy()
    altered[:, cut, 15:] = altered[:, cut, 15:][:, ::-1] * 5 + 1
    altered[:, cut + 1 :] = 7
    other = Traffic(traffic.names, altered, traffic.window_s)
    before = [place <= 15 for place in PLACES]
    one, two = answers(traffic, range(8)), answers(other, range(8))
    assert np.array_equal(one.draws[:cut], two.draws[:cut])
    assert np.array_equal(one.draws[cut, before], two.draws[cut, before])
    assert np.array_equal(one.record[cut, before], two.record[cut, before])
    assert not np.array_equal(one.draws[cut], two.draws[cut])
    for name, points in candidates(traffic, asked(traffic), 30).items():
        for mine, theirs in zip(points, candidates(other, asked(other), 30)[name], strict=True):
            assert np.array_equal(mine[:cut], theirs[:cut]), name
            assert np.array_equal(mine[cut, before], theirs[cut, before]), name


def test_calibrated_baselines_give_probabilities_that_fall_with_the_quota() -> None:
    traffic = _traffic(series=20)
    facts = asked(traffic)
    task = fixed(facts, past_quota(traffic, range(4)), range(4, 8))
    for _, points, errors in tuned(traffic, range(4), 30):
        p = errors.chance(points, facts, task)
        assert p.min() > 0
        assert p.max() < 1
        task.left[:] += 1e4
        assert np.all(errors.chance(points, facts, task) <= p)
        task.left[:] -= 1e4


def test_residuals_of_a_perfect_forecast_are_nothing() -> None:
    traffic = _traffic()
    facts = asked(traffic)
    for past in residuals(facts.rest, facts, range(4)).by_class:
        assert np.array_equal(past, np.zeros(past.size))
