"""Failures in a row: when they close a target, for how long, and what opens it again. Pure."""

import msgspec

from tidegate.events import causes
from tidegate.events.causes import NS_PER_S, Consequence
from tidegate.events.id_time import made_ns
from tidegate.events.signals import AttemptFailed
from tidegate.events.types import Cause

STRIKE_GAP_NS = NS_PER_S
"""Failures closer together than this are one strike: what a moment broke, however many requests it met."""

FORGOTTEN_NS = 3_600 * NS_PER_S
"""Strikes are counted anew after this long without one."""

SET_BACK_NS = 60 * NS_PER_S
"""A closing further in the future than this was made by a clock that has been set back since: it is void."""

FOR_GOOD = -1
"""`until_ns` of what stays closed until an operator acts."""


class Cooldown(msgspec.Struct, array_like=True):
    """A target or pool: strikes in a row, until when it is closed (None: open), why; times of one clock, ns."""

    strikes: int = 0
    until_ns: int | None = None
    cause: Cause | None = None
    struck_ns: int = 0
    """When the last strike was counted."""
    closed_ns: int = 0
    """When it was last closed."""
    closings: int = 0
    """How often in a row, without a success between."""

    def is_closed(self, now_ns: int) -> bool:
        """Whether nothing may be sent at `now_ns`."""
        if self.until_ns is None or self.until_ns == FOR_GOOD:
            return self.until_ns == FOR_GOOD
        return now_ns < self.until_ns and not self.is_ahead(now_ns)

    def is_ahead(self, now_ns: int) -> bool:
        """Whether it was closed at a time that has not come yet."""
        return self.closed_ns > now_ns + SET_BACK_NS

    def close(self, cause: Cause, until_ns: int | None, now_ns: int) -> bool:
        """Close until then, None for good; a shorter closing does not cut a longer one. True when it changed."""
        until = FOR_GOOD if until_ns is None else until_ns
        known = self.until_ns
        if known is not None and self.is_closed(now_ns) and (known == FOR_GOOD or FOR_GOOD < until <= known):
            return False
        self.until_ns, self.cause, self.closed_ns = until, cause, now_ns
        self.closings += 1
        return True


def strike(cooldown: Cooldown, failure: AttemptFailed, now_ns: int, wall_ahead_ns: int = 0) -> Consequence:
    """Count a failure of a target, close it where that follows; returns what the failure means for all.

    `wall_ahead_ns` is by how much the wall clock, in which a failure names times, is ahead of that of `now_ns`.
    Of requests begun before the last closing nothing is learned, nor while it lasts: they end with what closed it.
    """
    if abs(now_ns - cooldown.struck_ns) > FORGOTTEN_NS and not cooldown.is_closed(now_ns):
        cooldown.strikes = cooldown.closings = 0
    made = made_ns(failure.attempt)
    was_closed = cooldown.until_ns is not None and not cooldown.is_ahead(now_ns)
    is_old = was_closed and made is not None and made - wall_ahead_ns < cooldown.closed_ns
    is_closed = cooldown.is_closed(now_ns)
    is_same = cooldown.strikes > 0 and abs(now_ns - cooldown.struck_ns) < STRIKE_GAP_NS
    counts = not (is_closed or is_old or is_same)
    reset_at_ns = failure.reset_at_ns
    found = causes.consequence(
        failure.cause,
        now_ns=now_ns,
        repeats=cooldown.strikes if counts else 0,
        closings=cooldown.closings,
        retry_after_ms=failure.retry_after_ms,
        reset_at_ns=None if reset_at_ns is None else reset_at_ns - wall_ahead_ns,
        confidence=failure.confidence,
    )
    if counts:
        cooldown.strikes += 1
        cooldown.struck_ns = now_ns
    if found.operation == "target_cooldown" and (is_closed or is_old):
        return Consequence(found.action)
    if found.scope == "target":
        cooldown.close(failure.cause, found.until_ns, now_ns)
    return found


def is_proof(cooldown: Cooldown, begun_ns: int | None, now_ns: int) -> bool:
    """Whether a success at `now_ns` of a request begun then opens what is closed and ends a row of strikes.

    One that was under way when the target was closed shows nothing of now; where its begin is unknown, it does
    not undo what only an operator may.
    """
    if cooldown.until_ns is None or (cooldown.until_ns != FOR_GOOD and cooldown.is_ahead(now_ns)):
        return True
    if begun_ns is None:
        return cooldown.until_ns != FOR_GOOD
    return begun_ns >= cooldown.closed_ns
