"""Hours of the day."""

import numpy as np

from tidegate.estimator.day_profile import DAY_MS, HOUR_MS, KNOTS, hours_in_knots, knot_at, knots_at


def test_hours_in_knots_add_up_to_the_interval_and_to_each_part_of_it() -> None:
    rng = np.random.default_rng(1)
    begin = rng.uniform(0, 30 * DAY_MS, 200)
    end = begin + rng.choice([60_000.0, HOUR_MS, 40 * HOUR_MS, 400 * DAY_MS], 200)
    middle = begin + 0.3 * (end - begin)
    hours = hours_in_knots(begin, end)
    assert np.allclose(hours.sum(axis=0), (end - begin) / HOUR_MS)
    assert np.allclose(hours, hours_in_knots(begin, middle) + hours_in_knots(middle, end), atol=1e-6)
    assert np.all(hours >= 0)


def test_an_interval_inside_two_hours_counts_in_its_own_knot_only() -> None:
    hours = hours_in_knots(np.array([9.5 * HOUR_MS]), np.array([9.75 * HOUR_MS]))
    assert hours[4, 0] == 0.25
    assert hours.sum() == 0.25
    assert knot_at(np.array([9.5 * HOUR_MS + 5 * DAY_MS]))[0] == 4


def test_weights_are_linear_between_the_middles_of_knots_and_close_the_circle() -> None:
    first, second, weight = knots_at(np.array([9.0, 9.5, 10.0, 0.0, 23.0]) * HOUR_MS)
    assert first.tolist() == [4, 4, 4, KNOTS - 1, KNOTS - 1]
    assert second.tolist() == [5, 5, 5, 0, 0]
    assert weight.tolist() == [0.0, 0.25, 0.5, 0.5, 0.0]
