"""What a failure means: the total table of the nine causes, for the request and for shared state. Pure."""

from typing import Literal, assert_never

import msgspec

from tidegate.events.types import Cause

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

QUOTA_COOLDOWN_NS = 3_600 * NS_PER_S
RATE_RETRY_NS = 60 * NS_PER_S
RATE_COOLDOWN_NS = 120 * NS_PER_S
FAULT_RETRY_NS = 30 * NS_PER_S
FAULT_COOLDOWN_NS = 300 * NS_PER_S
"""The longest that a throttle and a fault close a target when nobody said when they end."""
FIRST_COOLDOWN_NS = 30 * NS_PER_S
"""The first of several in a row, which double."""
MAX_HINT_NS = 32 * 86_400 * NS_PER_S
"""A provider's hint in the past or further ahead than this is not believed."""

SAME_TARGET_RETRIES = 1
"""Failures of one target that a request answers with another try there; as many throttles close nothing."""

STRIKES_TO_CLOSE = 5
"""Faults in a row that close a target."""

FAULTS: frozenset[Cause] = frozenset({"unavailable", "transport"})
"""Causes that say a target is ill, not that it refuses: how long it will be is a guess."""

CLOSING: frozenset[Cause] = frozenset(
    {"unavailable", "transport", "unknown", "auth", "rate_limited", "quota_exhausted"}
)
"""Causes that say something of the target; what a client did wrong never counts against one."""

ABOUT_A_REQUEST = frozenset({400, 404, 405, 409, 413, 415, 422})
"""Statuses of answers about the request itself, which they may quote."""

Action = Literal["proceed", "retry_same", "failover", "park"]
"""What the request does next; `park` ends it with an error, it is never rerouted."""

Operation = Literal["none", "target_cooldown", "target_disable", "pool_cooldown"]
"""What everybody else must know."""

Confidence = Literal["high", "medium", "low"]


class Consequence(msgspec.Struct, frozen=True, gc=False):
    """Action for the request and operation on shared state; times are absolute wall nanoseconds."""

    action: Action
    operation: Operation = "none"
    until_ns: int | None = None
    """End of the cooldown; None with `target_disable`: until an operator says otherwise."""
    retry_at_ns: int | None = None
    """Not before this, with `retry_same`."""

    @property
    def scope(self) -> Literal["none", "target", "pool"]:
        """Whom the operation closes."""
        if self.operation == "none":
            return "none"
        return "pool" if self.operation == "pool_cooldown" else "target"


def consequence(
    cause: Cause | None,
    *,
    now_ns: int,
    repeats: int = 0,
    closings: int = 0,
    retry_after_ms: int | None = None,
    reset_at_ns: int | None = None,
    confidence: Confidence = "high",
) -> Consequence:
    """The table: `cause` None is success, `repeats` the failures already seen here before this one, `closings`
    how often they closed it in a row.

    Odd error text must not close much for long: an exhaustion of low confidence closes only its target, and
    not for longer than a fault does; a credential is given up only on high confidence.
    """
    match cause:
        case None:
            return Consequence("proceed")
        case "quota_exhausted":
            if confidence == "low":
                return Consequence("failover", "target_cooldown", now_ns + _guess_ns(closings))
            until_ns = _until(now_ns, reset_at_ns, retry_after_ms, QUOTA_COOLDOWN_NS)
            return Consequence("failover", "pool_cooldown", until_ns)
        case "rate_limited":
            if repeats < SAME_TARGET_RETRIES:
                return Consequence(
                    "retry_same", retry_at_ns=_until(now_ns, None, retry_after_ms, RATE_RETRY_NS)
                )
            default_ns = _guess_ns(closings, RATE_COOLDOWN_NS)
            return Consequence(
                "failover", "target_cooldown", _until(now_ns, None, retry_after_ms, default_ns)
            )
        case "unavailable" | "transport":
            return _fault(now_ns, repeats, closings)
        case "auth":
            if confidence != "high":
                return Consequence("failover", "target_cooldown", now_ns + _guess_ns(closings))
            return Consequence("failover", "target_disable")
        case "invalid_request":
            return Consequence("failover")
        case "denied" | "execution" | "unknown":
            return Consequence("park")
        case _:
            assert_never(cause)


def says_of_target(cause: Cause, status: int | None) -> bool:
    """Whether a failure counts against its target: not what a client may have brought about."""
    return cause in CLOSING and not (cause == "unknown" and status in ABOUT_A_REQUEST)


def _fault(now_ns: int, repeats: int, closings: int) -> Consequence:
    if repeats < SAME_TARGET_RETRIES:
        return Consequence("retry_same", retry_at_ns=now_ns + FAULT_RETRY_NS)
    if repeats + 1 < STRIKES_TO_CLOSE:
        return Consequence("failover")
    return Consequence("failover", "target_cooldown", now_ns + _guess_ns(closings))


def _guess_ns(closings: int, longest_ns: int = FAULT_COOLDOWN_NS) -> int:
    """A closing of unknown length: longer each time in a row."""
    return min(FIRST_COOLDOWN_NS << min(closings, 10), longest_ns)


def _until(now_ns: int, reset_at_ns: int | None, retry_after_ms: int | None, default_ns: int) -> int:
    if reset_at_ns is not None and 0 < reset_at_ns - now_ns <= MAX_HINT_NS:
        return reset_at_ns
    if retry_after_ms is not None and 0 < retry_after_ms * NS_PER_MS <= MAX_HINT_NS:
        return now_ns + retry_after_ms * NS_PER_MS
    return now_ns + default_ns
