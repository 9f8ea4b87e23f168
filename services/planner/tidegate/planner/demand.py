"""Demand a decision showed: each pool it could have used, with what use and saving how much. Pure."""

from tidegate.events.decision import CandidateVerdict, DecisionMade
from tidegate.events.signals import DemandSeen
from tidegate.events.types import PoolId
from tidegate.planner.facts import CandidateFacts
from tidegate.planner.price import cost_nanousd, rates_at
from tidegate.planner.view import RouteFacts


def demand_of(decision: DecisionMade, facts: RouteFacts) -> tuple[DemandSeen, ...]:
    """One DemandSeen per pool with windows that had an admitted candidate, chosen or not.

    The use is that of the pool's best-ranked candidate. The alternative is the cheapest admitted metered
    candidate of another pool, else the route's refusal cost, else its reference list price.
    """
    if not [verdict for verdict in decision.candidates if verdict.uses]:
        return ()
    known = {candidate.target: candidate for candidate in facts.candidates}
    best: dict[PoolId, CandidateVerdict] = {}
    metered: list[tuple[int, PoolId]] = []
    chosen: PoolId | None = None
    for verdict in decision.candidates:
        candidate = known.get(verdict.target)
        if verdict.price is None or verdict.rank is None or candidate is None:
            continue
        if verdict.rank == 0:
            chosen = verdict.pool
        held = best.get(verdict.pool)
        if verdict.uses and (held is None or held.rank is None or verdict.rank < held.rank):
            best[verdict.pool] = verdict
        if not candidate.flat:
            metered.append((verdict.price.total, verdict.pool))
    if not best:
        return ()
    fallback = facts.route.refusal_cost_nanousd
    if fallback is None:
        fallback = _reference_nanousd(decision, facts.candidates)
    return tuple(
        DemandSeen(
            decision=decision.decision,
            pool=pool,
            windows=verdict.uses,
            alternative_nanousd=min([total for total, other in metered if other != pool], default=fallback),
            chosen=pool == chosen,
        )
        for pool, verdict in best.items()
    )


def _reference_nanousd(decision: DecisionMade, candidates: tuple[CandidateFacts, ...]) -> int | None:
    """What the ask costs where it is listed cheapest, nothing cached; None when nobody lists a price."""
    costs: list[int] = []
    limit = decision.ask.max_output_tokens
    for candidate in candidates:
        rates = rates_at(candidate.prices, decision.now_ns)
        if rates is not None:
            output = candidate.output_tokens if limit is None else min(candidate.output_tokens, limit)
            costs.append(cost_nanousd(rates, decision.ask.input_tokens, 0, output * rates.output))
    return min(costs, default=None)
