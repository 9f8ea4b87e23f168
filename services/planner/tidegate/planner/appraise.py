"""One candidate on its own: is it admitted, and the parts of its price that need no other candidate. Pure."""

from collections.abc import Sequence

import msgspec

from tidegate.events.decision import CandidateVerdict, LocalView, PriceParts
from tidegate.planner import admission
from tidegate.planner.admission import Asked, Refusal
from tidegate.planner.facts import CandidateFacts, time_nanousd
from tidegate.planner.price import cost_nanousd, expected_cached_tokens, rates_at, retry_nanousd
from tidegate.planner.uses import Uses, quota_use
from tidegate.planner.windows import QuotaFacts, renewed

_GRADE_SHIFT = 96
"""Above every total: nano-dollars of a request stay far below 2⁹⁶."""


class Appraisal(msgspec.Struct, gc=False):
    """A candidate under consideration; prices in nano-dollars. `refusal` None = admitted so far."""

    facts: CandidateFacts
    local: LocalView
    refusal: Refusal | None = None
    cached_tokens: int | None = None
    output_tokens: int = 0
    quota: QuotaFacts | None = None
    uses: Uses = ()
    cash: int = 0
    quota_nanousd: int = 0
    time: int = 0
    spend: int = 0
    """Cash and quota: what one attempt takes."""
    retry: int = 0
    total: int = 0
    standing: int = 0
    """Grade, then total, as one integer: what most candidates are told apart by."""
    rank: int | None = None


def appraise(facts: CandidateFacts, asked: Asked, local: LocalView, now_ns: int) -> Appraisal:
    """Admission in its fixed order (`grade` comes later), then cash, quota and time."""
    if not admission.is_clear(facts, asked, local):
        refusal = admission.first_refusal(facts, asked, local, now_ns)
        if refusal is not None:
            return Appraisal(facts, local, refusal)
    rates = facts.steady_rates
    if rates is None:
        rates = rates_at(facts.prices, now_ns)
        if rates is None and facts.needs_price:
            return Appraisal(facts, local, Refusal("price_unknown", "no list price and none observed"))
    input_tokens, output, time = asked.input_tokens, facts.output_tokens, facts.time_nanousd
    output_cost = 0 if rates is None else rates.usual_output
    if asked.output_tokens < output:
        output = asked.output_tokens
        output_cost = 0 if rates is None else output * rates.output
        time = time_nanousd(facts.ttft_s, facts.output_tokens_per_s, output, asked.time_value)
    cached = None
    if local.session_at_ns is not None:
        cached = expected_cached_tokens(local, input_tokens, now_ns)
    cost = 0 if rates is None else cost_nanousd(rates, input_tokens, cached or 0, output_cost)
    cash = 0 if facts.flat else cost
    if cash > asked.cost_cap:
        return Appraisal(facts, local, admission.over_cap(cash, asked.cost_cap))
    quota = facts.quota
    if quota is None:
        return Appraisal(facts, local, None, cached, output, None, (), cash, 0, time, cash)
    if now_ns >= quota.resets_at_ns:
        quota = renewed(quota, local.uses, now_ns)
    uses, nanousd, shortage = quota_use(quota, local, now_ns, input_tokens + output, cost)
    if shortage is not None:
        return Appraisal(facts, local, admission.exhausted(shortage))
    return Appraisal(facts, local, None, cached, output, quota, uses, cash, nanousd, time, cash + nanousd)


def finish_prices(admitted: Sequence[Appraisal]) -> None:
    """Retry and total of every admitted candidate: a failure is repaired by the cheapest other one."""
    spends = sorted([each.spend for each in admitted])
    if not spends:
        return
    first, second = spends[0], spends[min(1, len(spends) - 1)]
    for each in admitted:
        facts, spend = each.facts, each.spend
        each.retry = retry = retry_nanousd(facts.failure, second if spend == first else first)
        each.total = total = spend + retry + each.time
        each.standing = (facts.grade << _GRADE_SHIFT) + total


def verdict_of(appraisal: Appraisal) -> CandidateVerdict:
    """The recorded verdict: everything read and everything concluded."""
    facts, refusal, rank = appraisal.facts, appraisal.refusal, appraisal.rank
    if refusal is not None:
        return CandidateVerdict(
            target=facts.target,
            pool=facts.pool,
            target_version=facts.target_version,
            pool_version=facts.pool_version,
            local=appraisal.local,
            grade=facts.grade,
            reason=refusal.reason,
            detail=refusal.detail,
            retry_at_ns=refusal.retry_at_ns,
            propensity=0.0,
        )
    quota = appraisal.quota
    return CandidateVerdict(
        target=facts.target,
        pool=facts.pool,
        target_version=facts.target_version,
        pool_version=facts.pool_version,
        local=appraisal.local,
        grade=facts.grade,
        rank=rank,
        price=PriceParts(
            cash=appraisal.cash,
            quota=appraisal.quota_nanousd,
            retry=appraisal.retry,
            time=appraisal.time,
            total=appraisal.total,
        ),
        expected_cached_tokens=appraisal.cached_tokens,
        expected_output_tokens=appraisal.output_tokens,
        p_exhaust=None if quota is None else quota.p_exhaust,
        uses=appraisal.uses,
        propensity=0.0 if rank else 1.0,
    )
