"""Hours of the day at which a provider counts a window's units more than once."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from tidegate.simulator.config import PeakRule

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def weight_at(rules: Sequence[PeakRule], at_s: float) -> int:
    """How often a unit counts at a moment (Unix seconds): by the first rule that holds, else once."""
    return next((rule.weight for rule in rules if _holds(rule, at_s)), 1)


def _holds(rule: PeakRule, at_s: float) -> bool:
    """Whether the hours that began on this or on the local day before contain the moment."""
    local = datetime.fromtimestamp(at_s, ZoneInfo(rule.timezone)).replace(tzinfo=None)
    begin, end = time.fromisoformat(rule.from_time), time.fromisoformat(rule.to_time)
    for day in (local.date(), local.date() - timedelta(days=1)):
        if rule.days and _DAYS[day.weekday()] not in rule.days:
            continue
        opens = datetime.combine(day, begin)
        closes = datetime.combine(day if end > begin else day + timedelta(days=1), end)
        if opens <= local < closes:
            return True
    return False
