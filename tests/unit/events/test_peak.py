"""Peak hours by integers alone agree with the calendar, at clock changes, over midnight, and until they change."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.config import Peak, Weekday
from tidegate.events.peak import DAYS, peak_at, peak_steps, peak_until_ns
from tidegate.runtime.time_zones import offsets_of
from tidegate.simulator.config import PeakRule
from tidegate.simulator.peak_hours import weight_at

S = 10**9
ZONES = ("UTC", "America/Los_Angeles", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe")
FROM_NS, TO_NS = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * S for year in (2024, 2044))


def peak(begin: str, end: str, zone: str = "UTC", *days: Weekday, weight: float = 3.0) -> Peak:
    return Peak(weight=weight, begin=begin, end=end, timezone=zone, days=days, offsets=offsets_of(zone))


def ns(zone: str, *when: int) -> int:
    return int(datetime(*when, tzinfo=ZoneInfo(zone)).timestamp()) * S  # type: ignore[arg-type, misc]


clocks = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.sampled_from((0, 15, 30, 59)))


@given(
    st.integers(FROM_NS // S, TO_NS // S - 1), clocks, clocks, st.sampled_from(ZONES), st.sets(st.sampled_from(DAYS))
)  # fmt: skip
def test_whether_it_is_peak_is_what_the_calendar_says(
    at_s: int, begin: str, end: str, zone: str, days: set[Weekday]
) -> None:
    ours = peak_at((peak(begin, end, zone, *days),), at_s * S)
    rule = PeakRule(weight=3, from_time=begin, to_time=end, timezone=zone, days=tuple(days))
    assert ours == weight_at((rule,), float(at_s))


@given(st.integers(FROM_NS, TO_NS - 1), clocks, clocks, st.sampled_from(ZONES))
def test_until_it_may_change_it_does_not(at_ns: int, begin: str, end: str, zone: str) -> None:
    peaks = (peak(begin, end, zone),)
    until_ns = peak_until_ns(peaks, at_ns)
    assert at_ns < until_ns <= at_ns + 25 * 3_600 * S
    for k in range(8):
        assert peak_at(peaks, at_ns + k * (until_ns - at_ns) // 8) == peak_at(peaks, at_ns)
    assert peak_at(peaks, until_ns - 1) == peak_at(peaks, at_ns)


def test_hours_are_half_open_in_their_zone_and_go_over_midnight_on_the_day_they_began() -> None:
    zone = "America/Los_Angeles"
    night = (peak("22:00", "02:00", zone, "fri"),)
    assert peak_at(night, ns(zone, 2026, 7, 3, 22) - 1) == 1.0
    assert peak_at(night, ns(zone, 2026, 7, 3, 22)) == 3.0
    assert peak_at(night, ns(zone, 2026, 7, 4, 2) - 1) == 3.0
    assert peak_at(night, ns(zone, 2026, 7, 4, 2)) == 1.0
    assert peak_at(night, ns(zone, 2026, 7, 3, 1)) == 1.0, "that night began on a Thursday"


def test_the_first_of_several_that_hold_counts_and_none_counts_once() -> None:
    both = (peak("09:00", "12:00", weight=2.0), peak("08:00", "24:00", weight=0.5))
    day = ns("UTC", 2026, 3, 1)
    weights = [peak_at(both, day + hour * 3_600 * S) for hour in (7, 8, 9, 12, 23)]
    assert weights == [1.0, 0.5, 2.0, 0.5, 0.5]
    assert peak_at((), day) == 1.0


def test_steps_cover_a_span_without_gaps_also_over_a_change_of_clocks() -> None:
    zone = "Europe/Berlin"
    peaks = (peak("02:30", "06:00", zone),)
    begin = ns("UTC", 2026, 3, 28)
    steps = peak_steps(peaks, begin, begin + 3 * 86_400 * S)
    assert steps[-1][0] == begin + 3 * 86_400 * S
    hours = sum(
        (until - since) / 3.6e12
        for (since, _), (until, weight) in zip([(begin, 0.0), *steps], steps, strict=False)
        if weight == 3.0
    )
    assert hours == pytest.approx(3.5 + 3.0 + 3.5), "the clock goes from two to three"
    assert peak_steps(peaks, begin, begin) == []
