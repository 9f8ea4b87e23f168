"""Model time: an event's own, never later than the log took it: no wrong clock moves what all share. Pure."""

from typing import Any

import msgspec

from tidegate.events.decision import WindowUse
from tidegate.events.signals import AttemptFailed, DemandSeen

AHEAD_NS = 5_000_000_000
"""How far a source's clock may be ahead of the log's."""


def in_log_time(data: Any, ts: int, append_ns: int) -> tuple[Any, int]:
    """An event's data and time as the log's clock allows: at most AHEAD_NS after its append.

    What the source said of times to come moves along, so that it lasts as long as the source meant. An event
    from long before its append stays where it is: it came late, and counts in the period it belongs to.
    """
    lead_ns = ts - append_ns - AHEAD_NS
    if lead_ns <= 0:
        return data, ts
    if isinstance(data, AttemptFailed) and data.reset_at_ns is not None:
        data = msgspec.structs.replace(data, reset_at_ns=data.reset_at_ns - lead_ns)
    elif isinstance(data, DemandSeen) and data.refused_until_ns is not None:
        data = msgspec.structs.replace(data, refused_until_ns=data.refused_until_ns - lead_ns)
    return data, ts - lead_ns


def period_start_ns(use: WindowUse, ts: int) -> int:
    """Start of the period of a use that was settled at `ts`: no period begins after its uses.

    One that does was named by a clock that has been set back since. A fixed period becomes the one around
    `ts`; one that opens with its first request is joined at `ts`.
    """
    ahead_ns = use.period_start_ns - ts
    if ahead_ns <= AHEAD_NS:
        return use.period_start_ns
    if use.first_request or use.rolling:
        return ts
    return use.period_start_ns - -(-ahead_ns // use.duration_ns) * use.duration_ns
