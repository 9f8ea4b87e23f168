"""Demand a decision showed: each pool it could have used, with what use and saving how much. Pure."""

from collections.abc import Collection, Sequence

from tidegate.events.decision import CandidateVerdict, DecisionMade, Reason, WindowUse
from tidegate.events.quota import weighted
from tidegate.events.signals import DemandSeen
from tidegate.events.types import PoolId
from tidegate.planner.facts import CandidateFacts
from tidegate.planner.price import cost_nanousd, rates_at
from tidegate.planner.view import RouteFacts
from tidegate.planner.windows import QuotaFacts, renewed

_NO_QUOTA: frozenset[Reason | None] = frozenset({"window_exhausted", "pool_cooldown"})
"""Reasons that say nothing but: its quota is gone."""


def demand_of(decision: DecisionMade, facts: RouteFacts) -> tuple[DemandSeen, ...]:
    """One DemandSeen per pool with windows that had an admitted candidate, chosen or not, or would have had one but
    for its quota: else a window that runs dry would hide what it is worth.

    The use is that of the pool's best-ranked candidate, else of its first one. The alternative is the cheapest
    admitted metered candidate of another pool, else the route's refusal cost, else its reference list price.
    """
    if not facts.has_windows:
        return ()
    if decision.ask.service_tiers:
        facts = facts.at_tiers(decision.ask.service_tiers)
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
    shown = tuple(
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
    return shown + _refused(decision, facts, best.keys(), metered)


def _refused(
    decision: DecisionMade,
    facts: RouteFacts,
    admitted: Collection[PoolId],
    metered: Sequence[tuple[int, PoolId]],
) -> tuple[DemandSeen, ...]:
    """Demand of pools that were refused for want of quota alone; a use that never fits is none."""
    found: dict[PoolId, DemandSeen] = {}
    candidates = {candidate.target: candidate for candidate in facts.candidates}
    for verdict in decision.candidates:
        pool, candidate = verdict.pool, candidates.get(verdict.target)
        if verdict.reason not in _NO_QUOTA or verdict.retry_at_ns is None or candidate is None:
            continue
        if pool not in admitted and pool not in found and candidate.quota is not None:
            found[pool] = DemandSeen(
                decision=decision.decision,
                pool=pool,
                windows=_uses(decision, verdict, candidate, candidate.quota),
                alternative_nanousd=_alternative_nanousd(decision, facts, pool, metered),
                refused_until_ns=verdict.retry_at_ns,
            )
    return tuple(found.values())


def _uses(
    decision: DecisionMade, verdict: CandidateVerdict, candidate: CandidateFacts, quota: QuotaFacts
) -> tuple[WindowUse, ...]:
    """What the request would use of the candidate's windows, in the periods that run now."""
    limit, now_ns, input_tokens = decision.ask.max_output_tokens, decision.now_ns, decision.ask.input_tokens
    output = candidate.output_tokens if limit is None else min(candidate.output_tokens, limit)
    rates = rates_at(candidate.prices, now_ns, input_tokens)
    cost = 0 if rates is None else cost_nanousd(rates, input_tokens, 0, output * rates.output)
    amounts = 1, input_tokens + output, cost
    if now_ns >= quota.resets_at_ns:
        quota = renewed(quota, verdict.local.uses, now_ns)
    return tuple(
        [
            WindowUse(
                window.id,
                window.start_ns,
                weighted(amounts[window.unit], window.weight),
                window.length_ns,
                window.first_request,
                window.rolling,
                window.peak,
            )
            for window in quota.windows
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
        rates = rates_at(candidate.prices, decision.now_ns, decision.ask.input_tokens)
        if rates is not None:
            output = candidate.output_tokens if limit is None else min(candidate.output_tokens, limit)
            costs.append(cost_nanousd(rates, decision.ask.input_tokens, 0, output * rates.output))
    return min(costs, default=None)
