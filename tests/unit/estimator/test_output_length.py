"""Expected output by route: near the target's where little was seen, the route's own where much was."""

import math
import random

import pytest

from tidegate.estimator import output_length
from tidegate.estimator.output_length import Held, expected, observe

LEVEL, SCALE = math.log(500.0), 0.25


def seen(*tokens: int, route: str = "r") -> Held:
    held: Held = {}
    for each in tokens:
        observe(held, route, each)
    return held


def test_one_answer_hardly_moves_a_route_from_its_target() -> None:
    target = math.exp(LEVEL + 0.5 * SCALE)
    once = expected(seen(50)["r"], LEVEL, SCALE)
    assert 0.5 * target < once.mean < target
    assert once.var > 0


def test_many_answers_speak_for_themselves_mean_and_doubt() -> None:
    rng = random.Random(5)
    sizes = [max(1, round(rng.lognormvariate(math.log(80.0), 0.6))) for _ in range(600)]
    known = expected(seen(*sizes)["r"], LEVEL, SCALE)
    true_mean = 80.0 * math.exp(0.5 * 0.36)
    assert known.mean == pytest.approx(true_mean, rel=0.25)
    assert abs(known.mean - true_mean) < 4 * math.sqrt(known.var) + 0.1 * true_mean
    assert math.sqrt(known.var) / known.mean < 0.15


def test_older_answers_are_forgotten() -> None:
    held = seen(*[50] * 300, *[800] * 300)
    assert expected(held["r"], LEVEL, SCALE).mean > 700


def test_routes_of_a_target_are_told_apart() -> None:
    held = seen(*[50] * 30)
    for _ in range(30):
        observe(held, "other", 2_000)
    assert expected(held["other"], LEVEL, SCALE).mean > 5 * expected(held["r"], LEVEL, SCALE).mean


def test_an_absurd_level_stays_a_number() -> None:
    assert math.isfinite(expected(seen(10)["r"], 1e6, 1e6).mean)


def test_a_state_comes_back_as_it_was_and_of_another_shape_is_refused() -> None:
    held = seen(3, 4, 5)
    again = output_length.restored(held)
    assert again == held
    assert again["r"] is not held["r"]
    with pytest.raises(ValueError, match="'r' has 1 numbers"):
        output_length.restored({"r": [1.0]})
