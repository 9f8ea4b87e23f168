"""The index as the seed router computes it, and ours with the defects repaired. Ids are of the seed's vectors."""

import numpy as np
import pytest

from tidegate.estimator.uvi import (
    CRITICAL,
    EXHAUSTED,
    OK,
    STATUSES,
    STRESSED,
    SURPLUS,
    UNKNOWN,
    ParityWindow,
    Status,
    Thresholds,
    Uvi,
    aggregate_parity,
    elapsed_parity,
    partition_parity,
    pool_status,
    status_parity,
    thresholds_of,
    uvi,
    uvi_parity,
)
from tidegate.events.config import UviLimits

NOW = 1_700_000_000_000.0
HOUR = 3_600_000.0
DAY = 24 * HOUR


def _window(
    used: float, *, left_h: float | None = None, hours: float = 5.0, stale: bool = False
) -> ParityWindow:
    reset = None if left_h is None else NOW + left_h * HOUR
    return ParityWindow("session", used, NOW, hours * HOUR, resets_at_ms=reset, stale=stale)


@pytest.mark.parametrize(("left_h", "elapsed"), [(2.5, 0.5), (-1.0, 1.0), (5.0, 0.0), (None, 0.0)])
def test_v42_elapsed_share_of_a_five_hour_window(left_h: float | None, elapsed: float) -> None:
    assert elapsed_parity(_window(0, left_h=left_h), NOW) == pytest.approx(elapsed)


def test_v42_elapsed_share_from_seconds_to_reset_and_bad_durations() -> None:
    assert elapsed_parity(ParityWindow("session", 0, NOW, 5 * HOUR, resets_in_s=9000), NOW) == pytest.approx(
        0.5
    )
    assert elapsed_parity(ParityWindow("session", 0, NOW, 0.0, resets_in_s=9000), NOW) == 0.0
    assert elapsed_parity(ParityWindow("session", 0, NOW, float("nan"), resets_in_s=9000), NOW) == 0.0


@pytest.mark.parametrize(
    ("used", "elapsed", "index"), [(50, 0.5, 1.0), (75, 0.25, 3.0), (1, 0.0, 0.2), (10, 0.9, 0.111)]
)
def test_v43_parity_index(used: float, elapsed: float, index: float) -> None:
    assert round(uvi_parity(used, elapsed), 3) == index


@pytest.mark.parametrize(
    ("index", "elapsed", "status"),
    [
        (2.5, 0.5, "critical"),
        (1.7, 0.5, "stressed"),
        (0.3, 0.8, "surplus"),
        (0.3, 0.4, "ok"),
        (0.9, 0.5, "ok"),
        (2.0, 0.5, "critical"),
        (1.5, 0.5, "stressed"),
        (0.5, 0.7, "surplus"),
    ],
)
def test_v44_parity_status(index: float, elapsed: float, status: str) -> None:
    assert status_parity(index, elapsed) == status


def test_v46_the_worst_window_decides_and_is_named() -> None:
    week = ParityWindow("weekly", 30, NOW, 7 * DAY, resets_at_ms=NOW + 3 * DAY)
    verdict = aggregate_parity([_window(80, left_h=4), week], NOW)
    assert (verdict.value, verdict.status, verdict.stale) == (4.0, "critical", False)
    assert "worst session@80%" in verdict.reason
    assert "weekly@30%" in verdict.reason


def test_v47_no_windows_are_ok_and_one_stale_window_makes_all_stale() -> None:
    assert aggregate_parity([], NOW) == (0.0, "ok", "no data", False)
    assert aggregate_parity([_window(1, left_h=1), _window(1, left_h=1, stale=True)], NOW).stale


@pytest.mark.parametrize(("used", "value", "status"), [(80, 1.6, "stressed"), (100, 2.0, "critical")])
def test_v48_half_of_a_session_left(used: float, value: float, status: str) -> None:
    verdict = aggregate_parity([_window(used, left_h=2.5)], NOW)
    assert (verdict.value, verdict.status) == (value, status)


@pytest.mark.parametrize(("used", "status"), [(7.51, "stressed"), (10, "critical"), (30, "critical")])
def test_v49_parity_keeps_the_defect_of_windows_as_long_as_the_time_left(used: float, status: str) -> None:
    window = ParityWindow("session", used, NOW, 6 * HOUR, resets_at_ms=NOW + 6 * HOUR)
    assert aggregate_parity([window], NOW).status == status
    # The vector says 7.5: the quotient is 1.5 on paper and one unit in the last place less in float64.
    assert round(uvi_parity(7.5, 0.0), 3) == 1.5


def _ours(used: float, elapsed: float, *, age_s: float = 0.0, previous: int = UNKNOWN) -> tuple[float, int]:
    found: Uvi = uvi(np.array([used]), np.array([elapsed]), np.array([age_s]), np.array([previous]))
    return float(found.value[0]), int(found.status[0])


@pytest.mark.parametrize(
    ("used", "elapsed", "status"),
    [
        (0.5, 0.5, OK),
        (0.75, 0.25, CRITICAL),
        (0.01, 0.0, OK),
        (0.10, 0.9, SURPLUS),
        (0.10, 0.3, OK),
        (0.80, 0.2, CRITICAL),
        (0.80, 0.5, OK),
        (0.90, 0.5, STRESSED),
    ],
)
def test_ours_agrees_where_the_seed_is_right(used: float, elapsed: float, status: int) -> None:
    assert _ours(used, elapsed)[1] == status


@pytest.mark.parametrize(("used", "status"), [(0.07, OK), (0.10, STRESSED), (0.15, CRITICAL)])
def test_the_first_minutes_do_not_blow_the_index_up(used: float, status: int) -> None:
    index, found = _ours(used, 0.0)
    assert index <= (1 + 0.15) / 0.15
    assert index == pytest.approx((used + 0.15) / 0.15)
    assert found == status
    assert _ours(0.03, 0.01)[1] == OK


def test_on_schedule_the_index_is_exactly_one_at_any_time() -> None:
    share = np.linspace(0, 0.99, 50)
    found = uvi(share, share, np.zeros(50), np.zeros(50, dtype=np.int64))
    assert np.allclose(found.value, 1.0)
    assert set(found.status.tolist()) == {OK}


@pytest.mark.parametrize("elapsed", [0.0, 0.6, 0.999])
@pytest.mark.parametrize("used", [1.0, 1.4])
def test_used_up_is_exhausted_whenever_and_however_old_the_evidence(used: float, elapsed: float) -> None:
    assert _ours(used, elapsed)[1] == EXHAUSTED
    assert _ours(used, elapsed, age_s=1e6)[1] == EXHAUSTED


@pytest.mark.parametrize(
    ("used", "elapsed", "age_s"),
    [
        (float("nan"), 0.5, 0.0),
        (0.9, float("nan"), 0.0),
        (0.9, 1.0, 0.0),
        (1.0, 1.2, 0.0),
        (0.9, 0.5, 901.0),
        (0.9, -0.1, 0.0),
        (0.9, 0.5, float("nan")),
    ],
)
def test_what_is_not_known_or_stale_or_past_its_reset_is_unknown(
    used: float, elapsed: float, age_s: float
) -> None:
    index, status = _ours(used, elapsed, age_s=age_s)
    assert status == UNKNOWN
    assert np.isnan(index)


def test_a_status_ends_further_back_than_it_begins() -> None:
    just_below = 1.45 * 0.65 - 0.15
    assert _ours(just_below, 0.5)[1] == OK
    assert _ours(just_below, 0.5, previous=STRESSED)[1] == STRESSED
    assert _ours(just_below, 0.5, previous=CRITICAL)[1] == STRESSED
    near_critical = 1.95 * 0.5 - 0.15
    assert _ours(near_critical, 0.35)[1] == STRESSED
    assert _ours(near_critical, 0.35, previous=CRITICAL)[1] == CRITICAL
    cool = 0.55 * 0.95 - 0.15
    assert _ours(cool, 0.8)[1] == OK
    assert _ours(cool, 0.8, previous=SURPLUS)[1] == SURPLUS


def test_a_wobble_around_a_threshold_does_not_flip_the_status() -> None:
    rng = np.random.default_rng(1)
    status, changes = UNKNOWN, 0
    for _ in range(200):
        index = 1.5 + rng.uniform(-0.04, 0.04)
        now = _ours(index * 0.65 - 0.15, 0.5, previous=status)[1]
        changes += now != status
        status = now
    assert changes <= 2


def test_thresholds_are_the_callers_choice() -> None:
    eager = Thresholds(stressed=1.1, critical=1.2, hysteresis=0.0)
    found = uvi(np.array([0.6]), np.array([0.45]), np.zeros(1), np.zeros(1, dtype=np.int64), eager)
    assert found.status[0] == CRITICAL


def test_each_window_is_judged_by_the_limits_of_its_pool() -> None:
    eager = UviLimits(stressed=1.1, critical=1.2, surplus=0.9, surplus_min_elapsed=0.2, hysteresis=0.0)
    limits = thresholds_of([UviLimits(), eager, eager, UviLimits()])
    used, elapsed = np.array([0.6, 0.6, 0.2, 0.2]), np.array([0.45, 0.45, 0.4, 0.4])
    found = uvi(used, elapsed, np.zeros(4), np.zeros(4, dtype=np.int64), limits)
    assert found.status.tolist() == [OK, CRITICAL, SURPLUS, OK]


def test_the_configs_defaults_are_ours() -> None:
    for name in ("stressed", "critical", "surplus", "surplus_min_elapsed", "hysteresis", "max_age_s"):
        assert getattr(UviLimits(), name) == getattr(Thresholds(), name)


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ([], UNKNOWN),
        ([OK, SURPLUS], OK),
        ([SURPLUS, SURPLUS], SURPLUS),
        ([UNKNOWN, OK], UNKNOWN),
        ([UNKNOWN, STRESSED], STRESSED),
        ([SURPLUS, EXHAUSTED], EXHAUSTED),
    ],
)
def test_a_pool_is_as_its_worst_window(codes: list[int], status: int) -> None:
    assert pool_status(codes) == status


AUDITED: list[tuple[str, Status]] = [
    ("a", "stressed"),
    ("b", "ok"),
    ("c", "critical"),
    ("d", "surplus"),
    ("e", "unknown"),
    ("f", "exhausted"),
]


def test_providers_are_asked_surplus_first_stressed_last_critical_never() -> None:
    found = partition_parity(AUDITED)
    assert found.ordered == ("d", "b", "e", "a")
    assert (found.promoted, found.normal, found.demoted, found.blocked) == (
        ("d",),
        ("b", "e"),
        ("a",),
        ("c", "f"),
    )


def test_in_hard_mode_the_stressed_are_listed_but_not_asked() -> None:
    found = partition_parity(AUDITED, hard=True)
    assert found.ordered == ("d", "b", "e")
    assert found.demoted == ("a",)


def test_status_codes_name_the_contracts_words() -> None:
    assert [STATUSES[k] for k in (UNKNOWN, SURPLUS, OK, STRESSED, CRITICAL, EXHAUSTED)] == list(STATUSES)
