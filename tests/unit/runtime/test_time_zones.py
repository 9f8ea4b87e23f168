"""Zones of a config become offsets when the file is read: decisions need no time zone data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tidegate.events.config import Settings
from tidegate.runtime.settings import ConfigInvalid, parse_settings
from tidegate.runtime.time_zones import FIRST, LAST, offsets_of

CONFIG = """
[[pools]]
id = "plan"
billing = "flat"
[[pools.windows]]
id = "5h"
unit = "requests"
limit = 100
duration_s = 18000
[[pools.windows.peaks]]
weight = 3
from = "14:00"
to = "18:00"
days = ["mon", "tue"]
timezone = "Asia/Shanghai"
[[pools]]
id = "other"
"""


@pytest.mark.parametrize(
    "name", ["America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"]
)
def test_offsets_are_those_of_the_zone_at_every_week_of_twenty_years(name: str) -> None:
    offsets, at = offsets_of(name), FIRST
    while at < LAST:
        held = [offset_s for from_ns, offset_s in offsets if from_ns <= at.timestamp() * 1e9][-1]
        assert timedelta(seconds=held) == at.astimezone(ZoneInfo(name)).utcoffset()
        at += timedelta(days=6, hours=23)


def test_a_change_of_clocks_is_found_to_the_minute() -> None:
    changes = [from_ns for from_ns, _ in offsets_of("Europe/Berlin")]
    assert int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()) * 10**9 in changes
    assert offsets_of("UTC") == ()


def test_peaks_of_a_file_have_the_offsets_of_their_zone() -> None:
    settings: Settings = parse_settings(CONFIG)
    (peak,) = settings.pools[0].windows[0].peaks
    assert (peak.weight, peak.begin, peak.end, peak.days) == (3.0, "14:00", "18:00", ("mon", "tue"))
    assert peak.offsets == ((0, 28_800),)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Asia/Shanghai", "Asia/Nowhere", "there is no time zone `Asia/Nowhere`"),
        ("Asia/Shanghai", "../etc/passwd", "there is no time zone"),
        ("weight = 3", "weight = 3\noffsets = [[0, 1]]", "follow from `timezone`"),
        ('from = "14:00"', 'from = "2 pm"', "from"),
        ('"mon"', '"monday"', "days"),
    ],
)
def test_a_peak_that_is_wrong_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        parse_settings(CONFIG.replace(old, new))
