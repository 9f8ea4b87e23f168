"""Admit → price → order → record: the pure function behind every plan, replayed bit by bit."""

from collections.abc import Callable

from tidegate.events.decision import Ask, DecisionMade, LocalView
from tidegate.events.types import DecisionId, PoolId, TargetId
from tidegate.planner.admission import Refusal, asked_of
from tidegate.planner.appraise import Appraisal, appraise, finish_prices, verdict_of
from tidegate.planner.order import in_order
from tidegate.planner.view import View

DECIDE_VERSION = 1
"""Raised with every change that can change a decision: replay counts other versions apart."""

Locals = Callable[[TargetId, PoolId], LocalView]
"""What this gateway alone knows of a candidate."""


def decide(
    view: View, ask: Ask, locals_of: Locals, *, now_ns: int, seed: int, decision: DecisionId, code: str
) -> DecisionMade:
    """The plan for an ask. Raises RouteUnknown; every other outcome, a refusal too, is a decision.

    No strategy of this version draws random numbers: `seed` is recorded for those that will.
    """
    facts = view.route(ask.route)
    route = facts.route
    asked = asked_of(ask, route)
    appraisals = [
        appraise(candidate, asked, locals_of(candidate.target, candidate.pool), now_ns)
        for candidate in facts.candidates
    ]
    admitted = [each for each in appraisals if each.refusal is None]
    if facts.mixed_grades and not route.allow_downgrade:
        admitted = _best_grade(admitted)
    finish_prices(admitted)
    ranked = in_order(route.strategy, admitted)
    for rank, appraisal in enumerate(ranked):
        appraisal.rank = rank
    return DecisionMade(
        decision=decision,
        ask=ask,
        now_ns=now_ns,
        seed=seed,
        config=view.digest,
        code=code,
        decide_version=DECIDE_VERSION,
        strategy=route.strategy,
        candidates=tuple([verdict_of(appraisal) for appraisal in appraisals]),
        chosen=ranked[0].facts.target if ranked else None,
        retry_at_ns=None if ranked else _earliest_retry_ns(appraisals),
    )


def _best_grade(admitted: list[Appraisal]) -> list[Appraisal]:
    """Only the best admissible grade stays: to go below it needs `allow_downgrade`."""
    best = min([appraisal.facts.grade for appraisal in admitted], default=0)
    kept: list[Appraisal] = []
    for appraisal in admitted:
        if appraisal.facts.grade == best:
            kept.append(appraisal)
        else:
            appraisal.refusal = Refusal("grade", f"grade {appraisal.facts.grade}, best admitted {best}")
    return kept


def _earliest_retry_ns(appraisals: list[Appraisal]) -> int | None:
    earliest = None
    for appraisal in appraisals:
        at_ns = appraisal.refusal.retry_at_ns if appraisal.refusal is not None else None
        if at_ns is not None and (earliest is None or at_ns < earliest):
            earliest = at_ns
    return earliest
