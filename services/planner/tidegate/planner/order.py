"""Total orders over admitted candidates, by the route's strategy. Pure."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from tidegate.events.config import Strategy
from tidegate.events.types import TargetId
from tidegate.planner.appraise import Appraisal
from tidegate.planner.facts import UNBOUNDED

_NO_WINDOWS = 0.0, UNBOUNDED
_STANDING = attrgetter("standing")


def in_order(strategy: Strategy, admitted: Sequence[Appraisal]) -> list[Appraisal]:
    """The admitted candidates, best first."""
    return _STRATEGIES[strategy](admitted)


def cheapest(admitted: Sequence[Appraisal]) -> list[Appraisal]:
    """By grade, then price; ties by lower P(exhaust), earlier reset, current target, priority, id.

    Quota about to lapse is spent first. What is not believed of a window counts as sure to exhaust.
    """
    if len({each.standing for each in admitted}) == len(admitted):
        return sorted(admitted, key=_STANDING)
    current = current_target(admitted)
    keyed = [
        (
            each.standing,
            _NO_WINDOWS if each.quota is None else each.quota.tie,
            each.facts.target != current,
            each.facts.tie,
            each,
        )
        for each in admitted
    ]
    keyed.sort()
    return [key[-1] for key in keyed]


def declared(admitted: Sequence[Appraisal]) -> list[Appraisal]:
    """As the route lists them, which is the order they come in."""
    return list(admitted)


def current_target(admitted: Sequence[Appraisal]) -> TargetId | None:
    """Where the session was last, as far as this gateway remembers."""
    current, last_ns = None, -1
    for each in admitted:
        at_ns = each.local.session_at_ns
        if at_ns is not None and at_ns > last_ns:
            current, last_ns = each.facts.target, at_ns
    return current


_STRATEGIES: Mapping[Strategy, Callable[[Sequence[Appraisal]], list[Appraisal]]] = {
    "cheapest": cheapest,
    "declared": declared,
}
