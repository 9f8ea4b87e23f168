"""Demand a decision showed: each pool it could have used, with what use and saving how much. Pure."""

from collections.abc import Sequence

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
    best: dict[PoolId, CandidateVerdict] = {}
    metered: list[tuple[int, PoolId]] = []
    chosen: PoolId | None = None
    for verdict in decision.candidates:
        price, rank, pool, is_flat = verdict.price, verdict.rank, verdict.pool, facts.flat.get(verdict.target)
        if price is None or rank is None or is_flat is None:
            continue
        if not rank:
            chosen = pool
        if verdict.uses:
            held = best.get(pool)
            if held is None or held.rank is None or rank < held.rank:
                best[pool] = verdict
        if not is_flat:
            metered.append((price.total, pool))
    metered.sort()
    return tuple(
        [
            DemandSeen(
                decision=decision.decision,
                pool=pool,
                windows=verdict.uses,
                alternative_nanousd=_alternative_nanousd(decision, facts, pool, metered),
                chosen=pool == chosen,
            )
            for pool, verdict in best.items()
        ]
    )


def _alternative_nanousd(
    decision: DecisionMade, facts: RouteFacts, pool: PoolId, metered: Sequence[tuple[int, PoolId]]
) -> int | None:
    """What the request costs outside the pool; `metered` has totals and pools, cheapest first."""
    for total, other in metered:
        if other != pool:
            return total
    refusal = facts.route.refusal_cost_nanousd
    return _reference_nanousd(decision, facts.candidates) if refusal is None else refusal


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
