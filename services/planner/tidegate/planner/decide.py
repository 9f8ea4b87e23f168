"""Admit → price → order → record: the pure function behind every plan, replayed bit by bit."""

from collections.abc import Callable, Sequence

from tidegate.events.decision import Ask, DecisionMade, LocalView
from tidegate.events.types import DecisionId, PoolId, TargetId
from tidegate.planner.admission import Refusal, asked_of
from tidegate.planner.appraise import Admitted, Refused, appraise_all, totals_of, verdicts_of
from tidegate.planner.order import in_order
from tidegate.planner.panic import let_through
from tidegate.planner.view import RouteFacts, View

DECIDE_VERSION = 5
"""Raised with every change that can change a decision: replay counts other versions apart.

3: where nothing is admitted, a target closed by its failures alone is tried again.
4: a request that asks for a service tier is priced at it; an ejected target ranks after the others.
5: what is billed is a factor on the list price in force.
"""

Locals = Callable[[TargetId, PoolId], LocalView]
"""What this gateway alone knows of a candidate."""


def decide(
    view: View, ask: Ask, local_of: Locals, *, now_ns: int, seed: int, decision: DecisionId, code: str
) -> DecisionMade:
    """The plan for an ask. Raises RouteUnknown; every other outcome, a refusal too, is a decision."""
    facts = view.route(ask.route)
    views = [local_of(target, pool) for target, pool in facts.places.pairs]
    return decide_on(
        facts, ask, views, now_ns=now_ns, seed=seed, decision=decision, config=view.digest, code=code
    )


def decide_on(
    facts: RouteFacts,
    ask: Ask,
    views: Sequence[LocalView],
    *,
    now_ns: int,
    seed: int,
    decision: DecisionId,
    config: str,
    code: str,
) -> DecisionMade:
    """The plan on a compiled route; `views` are the local views of its `places`, in that order.

    No strategy of this version draws random numbers: `seed` is recorded for those that will.
    """
    if ask.service_tiers:
        facts = facts.at_tiers(ask.service_tiers)
    route = facts.route
    asked = asked_of(ask, route)
    admitted, refused = appraise_all(facts, asked, views, now_ns)
    if not admitted:
        admitted, refused = let_through(refused, asked, now_ns)
    if facts.mixed_grades and not route.allow_downgrade:
        admitted = _best_grade(admitted, refused)
    ranked = in_order(route.strategy, totals_of(admitted), now_ns)
    return DecisionMade(
        decision=decision,
        ask=ask,
        now_ns=now_ns,
        seed=seed,
        config=config,
        code=code,
        decide_version=DECIDE_VERSION,
        strategy=route.strategy,
        candidates=verdicts_of(ranked, refused),
        chosen=ranked[0][1].target if ranked else None,
        retry_at_ns=None if ranked else _earliest_retry_ns(refused),
    )


def _best_grade(admitted: list[Admitted], refused: list[Refused]) -> list[Admitted]:
    """Only the best admissible grade stays: to go below it needs `allow_downgrade`."""
    best = min([facts.grade for _, facts, *_ in admitted], default=0)
    kept: list[Admitted] = []
    for row in admitted:
        facts, (local, *_) = row[1], row[4]
        if facts.grade == best:
            kept.append(row)
        else:
            reason = Refusal("grade", f"grade {facts.grade}, best admitted {best}")
            refused.append(Refused(facts, local, reason))
    return kept


def _earliest_retry_ns(refused: list[Refused]) -> int | None:
    times = [each.refusal.retry_at_ns for each in refused if each.refusal.retry_at_ns is not None]
    return min(times, default=None)
