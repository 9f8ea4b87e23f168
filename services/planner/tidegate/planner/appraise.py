"""The candidates on their own: which are admitted, at what price; then totals, and the recorded verdicts. Pure.

A decision passes through here as rows, plain tuples: the fastest way to hand on what belongs together.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from tidegate.events.decision import NEVER_CHOSEN, NOTHING_LOCAL, CandidateVerdict, LocalView, PriceParts
from tidegate.events.money import MILLION
from tidegate.planner import admission
from tidegate.planner.admission import Asked, Refusal
from tidegate.planner.facts import FAILURE_BITS, CandidateFacts, time_nanousd
from tidegate.planner.price import HALF_MILLION, cost_nanousd, expected_cached_tokens, rates_at
from tidegate.planner.uses import Uses, quota_use
from tidegate.planner.view import RouteFacts
from tidegate.planner.windows import QuotaFacts, renewed

_SPEND = itemgetter(0)
_HALF_FAILURE = 1 << (FAILURE_BITS - 1)

Rest = tuple[LocalView, int | None, QuotaFacts | None, Uses, int]
"""What few candidates differ in: local view, expected cached tokens, quota, its uses, and their price."""

Admitted = tuple[int, CandidateFacts, int, int, Rest]
"""Spend (cash and quota: what one attempt takes), facts, expected output tokens, price of the time, the rest; prices
in nano-dollars."""

Totalled = tuple[int, CandidateFacts, int, PriceParts, Rest]
"""Grade, then total, as one integer: what most candidates are told apart by; facts, expected output tokens, the price,
the rest."""

_NOTHING_LEFT: Rest = (NOTHING_LOCAL, None, None, (), 0)


class Refused(NamedTuple):
    """A candidate that is not admitted."""

    facts: CandidateFacts
    local: LocalView
    refusal: Refusal


def appraise_all(
    route: RouteFacts, asked: Asked, views: Sequence[LocalView], now_ns: int
) -> tuple[list[Admitted], list[Refused]]:
    """Every candidate as `appraise` has it; one that raises no question at all is priced here, at once.

    `views` holds the local view of each candidate, in the same order.
    """
    fits_all = admission.fits_all(route, asked)
    input_tokens, limit = asked.input_tokens, asked.output_tokens
    cap, time_value = asked.cost_cap, asked.time_value
    admitted: list[Admitted] = []
    refused: list[Refused] = []
    for facts, view in zip(route.candidates, views, strict=True):
        plain = facts.plain
        if plain is not None and view is NOTHING_LOCAL and (fits_all or admission.fits(facts, asked)):
            rate, output_rate, output, output_cost, time = plain
            if limit < output:
                output, output_cost = limit, limit * output_rate
                if time_value:
                    time = int(time_value * (facts.ttft_s + limit / facts.output_tokens_per_s) + 0.5)
            cash = (input_tokens * rate + output_cost + HALF_MILLION) // MILLION
            if cash <= cap:
                admitted.append((cash, facts, output, time, _NOTHING_LEFT))
                continue
        found = appraise(facts, asked, view, now_ns)
        if isinstance(found, Refusal):
            refused.append(Refused(facts, view, found))
        else:
            admitted.append(found)
    return admitted, refused


def appraise(facts: CandidateFacts, asked: Asked, local: LocalView, now_ns: int) -> Admitted | Refusal:
    """Admission in its fixed order (`grade` comes later), then cash, quota and time."""
    if not admission.is_clear(facts, asked, local):
        refusal = admission.first_refusal(facts, asked, local, now_ns)
        if refusal is not None:
            return refusal
    rates = facts.steady_rates
    if rates is None:
        rates = rates_at(facts.prices, now_ns, asked.input_tokens)
        if rates is None and facts.needs_price:
            return Refusal("price_unknown", "no list price and none observed")
    input_tokens, output, time = asked.input_tokens, facts.output_tokens, facts.time_nanousd
    output_cost = 0 if rates is None else rates.usual_output
    if asked.output_tokens < output:
        output = asked.output_tokens
        output_cost = 0 if rates is None else output * rates.output
        time = time_nanousd(facts.ttft_s, facts.output_tokens_per_s, output, asked.time_value)
    cached = None
    if local.session_at_ns is not None:
        cached = expected_cached_tokens(local, input_tokens, now_ns, facts.kept_by_age)
    cost = 0 if rates is None else cost_nanousd(rates, input_tokens, cached or 0, output_cost)
    cash = 0 if facts.flat else cost
    if cash > asked.cost_cap:
        return admission.over_cap(cash, asked.cost_cap)
    quota = facts.quota
    if quota is None:
        return cash, facts, output, time, (local, cached, None, (), 0)
    if now_ns >= quota.resets_at_ns:
        quota = renewed(quota, local.uses, now_ns)
    uses, nanousd, shortage = quota_use(quota, local, now_ns, input_tokens + output, cost)
    if shortage is not None:
        return admission.exhausted(shortage)
    return cash + nanousd, facts, output, time, (local, cached, quota, uses, nanousd)


def totals_of(admitted: Sequence[Admitted]) -> list[Totalled]:
    """Retry and total of every admitted candidate: a failure is repaired by the cheapest other one.

    The retry is P(fail)·E[its cost], P(fail) in units of 2⁻³⁰.
    """
    spends = sorted(map(_SPEND, admitted))
    if not spends:
        return []
    first, second = spends[0], spends[1 if len(spends) > 1 else 0]
    found: list[Totalled] = []
    for spend, facts, output, time, rest in admitted:
        retry = (facts.failure * (second if spend == first else first) + _HALF_FAILURE) >> FAILURE_BITS
        total, quota = spend + retry + time, rest[4]
        price = PriceParts(spend - quota, quota, retry, time, 0, total)
        found.append((facts.standing + total, facts, output, price, rest))
    return found


def verdicts_of(ranked: Iterable[Totalled], refused: Iterable[Refused]) -> tuple[CandidateVerdict, ...]:
    """The recorded verdicts in the order of the route: everything read and everything concluded."""
    verdicts: dict[int, CandidateVerdict] = {}
    propensity = 1.0
    for rank, (_, facts, output, price, (view, cached, quota, uses, _)) in enumerate(ranked):
        verdicts[facts.index] = CandidateVerdict(
            facts.target,
            facts.pool,
            facts.target_version,
            facts.pool_version,
            view,
            facts.grade,
            None,
            None,
            None,
            rank,
            price,
            cached,
            output,
            None if quota is None else quota.p_exhaust,
            uses,
            propensity,
            facts.ejected,
        )
        propensity = NEVER_CHOSEN
    for facts, view, refusal in refused:
        verdicts[facts.index] = CandidateVerdict(
            target=facts.target,
            pool=facts.pool,
            target_version=facts.target_version,
            pool_version=facts.pool_version,
            local=view,
            grade=facts.grade,
            reason=refusal.reason,
            detail=refusal.detail,
            retry_at_ns=refusal.retry_at_ns,
        )
    return tuple(map(verdicts.__getitem__, range(len(verdicts))))
