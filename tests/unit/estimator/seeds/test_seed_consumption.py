"""The seed's consumption filter and its runtime projection. Ids are of the seed's vectors."""

import pytest

from tidegate.estimator.seeds.consumption import SeedConsumption
from tidegate.estimator.seeds.projection import mean_rate, project


def _fed(values: list[float], q: float = 1.0, r: float = 1.0) -> SeedConsumption:
    made = SeedConsumption(q, r)
    for value in values:
        made.update(value)
    return made


RISING = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0]


@pytest.mark.parametrize(
    ("remaining", "steps", "expected"),
    [
        (250, 3, (True, 2.5)),
        (300, 3, (True, 3.0)),
        (301, 3, (False, None)),
        (1000, 5, (False, None)),
        (0, 3, (True, 0.0)),
        (-5, 3, (True, 0.0)),
    ],
)
def test_vectors_11_to_13_will_exhaust_at_a_steady_hundred(
    remaining: float, steps: int, expected: tuple[bool, float | None]
) -> None:
    assert _fed([100.0] * 5).will_exhaust(remaining, steps) == expected


def test_vector_14_without_data_only_what_is_gone_is_exhausted() -> None:
    empty = SeedConsumption()
    assert empty.will_exhaust(100, 5) == (False, None)
    assert empty.will_exhaust(0, 5) == (True, 0.0)
    assert _fed([100.0]).will_exhaust(100, 0) == (False, None)


def test_vector_16_a_line_is_extrapolated() -> None:
    made = _fed(RISING)
    assert made.state == pytest.approx([603.31, 111.24, 5.560], abs=5e-3)
    assert made.horizon(3) == pytest.approx([717.33, 836.91, 962.04], abs=1e-2)
    assert made.horizon(0) == []


def test_vector_17_with_the_deployed_noise() -> None:
    made = _fed(RISING, r=1e6)
    assert made.state == pytest.approx([615.67, 132.95, 14.557], abs=5e-3)
    assert made.horizon(3) == pytest.approx([755.90, 910.69, 1080.04], abs=1e-2)
    found, periods = made.will_exhaust(2500, 3)
    assert found
    assert periods == pytest.approx(2.7717, abs=5e-5)


def test_vector_18_a_falling_line_ends_at_zero() -> None:
    made = _fed([1000.0, 900.0, 790.0, 670.0, 540.0])
    assert made.horizon(6) == pytest.approx([367.37, 172.89, 0, 0, 0, 0], abs=1e-2)
    assert sum(made.horizon(6)) == pytest.approx(540.26, abs=1e-2)


def test_vector_19_no_period_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 0"):
        SeedConsumption(dt=0.0)


def test_noise_comes_from_a_history_when_there_is_one() -> None:
    assert (SeedConsumption.tuned([]).q, SeedConsumption.tuned([]).r) == (1.0, 1.0)
    tuned = SeedConsumption.tuned(RISING)
    assert [tuned.r, tuned.q] == pytest.approx([35_000.0, 35.0])
    assert tuned.updates == 6
    assert (SeedConsumption.tuned([7.0]).r, SeedConsumption.tuned([7.0]).state[0]) == (1.0, 7.0)


@pytest.mark.parametrize("rate", [1.0, 27e6])
def test_vectors_21_and_22_the_volume_cancels(rate: float) -> None:
    steady = project(67, 5.0, 5.0 - 3.205, rate)
    assert steady.projected == pytest.approx(20.9, abs=0.05)
    assert steady.total == pytest.approx(87.9, abs=0.05)
    assert steady.exhausts_in_h == pytest.approx(1.6, abs=0.05)
    assert not steady.will_exhaust
    alarm = project(81, 5.0, 5.0 - 3.96, rate)
    assert alarm.total == pytest.approx(101.5, abs=0.05)
    assert alarm.will_exhaust


def test_vector_23_the_last_hour_is_not_projected() -> None:
    late = project(85, 5.0, 0.79, 1000.0)
    assert (late.projected, late.will_exhaust) == (0.0, False)


def test_vector_24_a_projection_with_a_note_still_warns() -> None:
    alarm = project(81, 5.0, 1.04, 1000.0)
    assert alarm.will_exhaust
    assert alarm.note == "1.8 points over budget"
    assert project(10, 5.0, 1.0, 1000.0).note == "70.0 points under budget"


def test_nothing_is_projected_without_history_or_use() -> None:
    assert mean_rate([10, 20, 60, 30]) is None
    assert mean_rate([10, 20, 60, 30, 5]) == 25.0
    assert project(50, 5.0, 2.0, None).note == "under 5 hours of history"
    assert project(100, 5.0, 2.0, 0.0).will_exhaust
    assert project(0, 5.0, 2.0, 10.0).projected == pytest.approx(40.0)
    assert project(50, 5.0, 4.0, 10.0, velocity=-100.0).exhausts_in_h == pytest.approx(1.0)
