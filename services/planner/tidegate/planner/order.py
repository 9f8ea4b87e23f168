"""Total orders over admitted candidates, by the route's strategy. Pure."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from tidegate.events.config import Strategy
from tidegate.events.types import TargetId
from tidegate.planner.appraise import Totalled
from tidegate.planner.beliefs import half_up
from tidegate.planner.facts import UNBOUNDED, CandidateFacts
from tidegate.planner.uvi import bucket_of

_NO_WINDOWS = 0.0, UNBOUNDED
_STANDING = itemgetter(0)


def in_order(strategy: Strategy, admitted: Sequence[Totalled], now_ns: int) -> list[Totalled]:
    """The admitted candidates, best first."""
    return _STRATEGIES[strategy](admitted, now_ns)


def cheapest(admitted: Sequence[Totalled], _now_ns: int = 0) -> list[Totalled]:
    """By grade, well before ejected, then price; ties by lower P(exhaust), earlier reset, current target, priority, id.

    Quota about to lapse is spent first. What is not believed of a window counts as sure to exhaust.
    """
    if len(set(map(_STANDING, admitted))) == len(admitted):
        return sorted(admitted, key=_STANDING)
    current = current_target(admitted)
    keyed = [
        (
            each[0],
            _NO_WINDOWS if quota is None else quota.tie,
            facts.target != current,
            facts.tie,
            each,
        )
        for each in admitted
        for _, facts, _, _, (_, _, quota, _, _) in [each]
    ]
    keyed.sort()
    return [key[-1] for key in keyed]


def _is_ejected(each: Totalled) -> bool:
    return each[1].ejected


def declared(admitted: Sequence[Totalled], _now_ns: int = 0) -> list[Totalled]:
    """As the route lists them, which is the order they come in; ejected ones after the others."""
    return sorted(admitted, key=_is_ejected)


def adaptive(admitted: Sequence[Totalled], now_ns: int) -> list[Totalled]:
    """By grade, well before ejected, then by how the pool keeps to its quota, then expected latency, then price.

    What is expected of an unknown target is the declared prior: it neither wins nor loses by being unknown.
    """
    keyed = [
        (facts.standing, bucket_of(facts.uvi, now_ns), latency_ms(facts), each[0], facts.tie, each)
        for each in admitted
        for facts in [each[1]]
    ]
    keyed.sort()
    return [key[-1] for key in keyed]


def latency_ms(facts: CandidateFacts) -> int:
    """Expected time of a usual answer, whole."""
    return half_up(1_000.0 * (facts.ttft_s + facts.output_tokens / facts.output_tokens_per_s))


def current_target(admitted: Sequence[Totalled]) -> TargetId | None:
    """Where the session was last, as far as this gateway remembers."""
    current, last_ns = None, -1
    for _, facts, _, _, (local, *_) in admitted:
        at_ns = local.session_at_ns
        if at_ns is not None and at_ns > last_ns:
            current, last_ns = facts.target, at_ns
    return current


_STRATEGIES: Mapping[Strategy, Callable[[Sequence[Totalled], int], list[Totalled]]] = {
    "cheapest": cheapest,
    "declared": declared,
    "adaptive": adaptive,
}
