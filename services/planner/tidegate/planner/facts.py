"""What `decide` needs of a candidate, worked out once per config or snapshot, not per request. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.events.config import Candidate, DatedPrice, Pool, Route, Target
from tidegate.events.money import ListPrice, PriceVariant, Tokens
from tidegate.events.snapshots import Belief, BilledFactors, Circuit, PoolBelief, RateSnapshot, TargetBelief
from tidegate.events.types import Cause, Dialect, PoolId, TargetId
from tidegate.planner.beliefs import MAX_BELIEF, half_up, mean
from tidegate.planner.uvi import PoolUvi, pool_uvi
from tidegate.planner.windows import QuotaFacts, quota_facts_of

UNBOUNDED = 1 << 62

PRIOR_OUTPUT_TOKENS = 500
PRIOR_TTFT_S = 1.0
PRIOR_OUTPUT_TOKENS_PER_S = 50.0
PRIOR_FAILURE = 0.02
"""Declared priors of a target nothing is believed of yet: unknown is never healthy, never free of time."""

_EJECTED = 1 << 96
"""Above every total: nano-dollars of a request stay far below 2⁹⁶."""
_GRADE_SHIFT = 97

MIN_OUTPUT_TOKENS_PER_S = 0.001
"""A belief below it is taken as this: dividing by it stays a time."""

FAILURE_BITS = 30
"""P(fail) is held in units of 2⁻³⁰: multiplied by money it stays an integer."""

NEED_DIALECT: dict[Dialect, int] = {
    "openai": 1,
    "anthropic": 2,
    "openai-responses": 32,
    "openai-embeddings": 64,
}
NEED_VISION = 4
NEED_TOOLS = 8
NEED_REASONING = 16
NEED_DOCUMENTS = 128
_MODES = NEED_VISION | NEED_TOOLS | NEED_REASONING | NEED_DOCUMENTS


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Expected price of the classes a request is expected to use, nano-dollars per million tokens."""

    input_uncached: int
    cache_read: int
    output: int
    usual_output: int
    """Expected output tokens × output price."""
    above: "tuple[tuple[int, Rates], ...]" = ()
    """Rates of longer prompts, by the input tokens above which they hold, rising."""


class RatesFrom(msgspec.Struct, frozen=True, gc=False):
    """Rates in force from `from_ns`; None = no price is known."""

    from_ns: int
    rates: Rates | None


class Factors(msgspec.Struct, frozen=True, gc=False):
    """What is billed per dollar listed; 1 until a bill came. Of the classes a request is expected to use."""

    input_uncached: float = 1.0
    cache_read: float = 1.0
    output: float = 1.0


_AS_LISTED = Factors()

Plain = tuple[int, int, int, int, int]
"""Rates of uncached input and output, expected output tokens, their cost at that rate, their time."""


class CandidateFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A candidate of a route: config, prices by date and beliefs, ready to compare."""

    target: TargetId
    pool: PoolId
    index: int
    """Place in the route."""
    grade: int
    standing: int
    """The grade and whether it is ejected, above every total: with a total added, what most are told apart by."""
    ejected: bool
    """Believed to fail too often, on a route that avoids such: after the others of its grade, whatever it costs."""
    tie: tuple[int, str, int]
    """What decides last between equals: priority, id, place in the route."""
    enabled: bool
    suspect: bool
    """Something in config or beliefs may refuse it whatever is asked."""
    lacks: int
    """Bits of the needs it cannot serve."""
    context_window: int
    max_output_tokens: int
    max_in_flight: int
    flat: bool
    needs_price: bool
    prices: tuple[RatesFrom, ...]
    steady_rates: Rates | None
    """The rates, where neither date nor length changes them; None: ask the prices."""
    plain: Plain | None
    """Only of a candidate with one price for ever, no windows, and nothing against it in config or beliefs."""
    quota: QuotaFacts | None
    """None for a pool without windows."""
    target_version: int | None
    pool_version: int | None
    circuit: Circuit
    circuit_until_ns: int | None
    circuit_at_ns: int
    circuit_cause: Cause | None
    cooldown_until_ns: int | None
    cooldown_cause: Cause | None
    ttft_p90_ms: float | None
    ttft_s: float
    output_tokens_per_s: float
    output_tokens: int
    """Expected, within what the target allows."""
    time_nanousd: int
    """ρ·E[time] of the expected output."""
    uvi: PoolUvi | None
    """None for a pool without windows, or of which nothing is believed."""
    failure: int
    """P(fail) × 2³⁰."""
    kept_by_age: tuple[tuple[int, float | None], ...] = ()
    """As `price.KeptByAge`: what the target's cache keeps of a session's prefix."""
    billed: Factors = _AS_LISTED
    at_tier: "Mapping[str, CandidateFacts]" = {}
    """By service tier that its prices name, what it is for requests that ask for that tier."""


_NOTHING = TargetBelief()
_NOTHING_OF_POOL = PoolBelief()
_UNSEEN = (None, None, None)
_EVERY_LENGTH = PriceVariant(ListPrice()).above_input_tokens


def candidate_facts(
    route: Route,
    index: int,
    target: Target,
    pool: Pool,
    pool_targets: Sequence[Target],
    snapshots: tuple[RateSnapshot | None, RateSnapshot | None],
    digest: str,
) -> CandidateFacts:
    """Facts of the route's candidate at `index`, the pool's targets, the snapshots of its target and its pool."""
    of_target, of_pool = snapshots
    belief = (of_target.target if of_target is not None else None) or _NOTHING
    shared = (of_pool.pool if of_pool is not None else None) or _NOTHING_OF_POOL
    candidate: Candidate = route.candidates[index]
    flat, output_tokens = pool.billing == "flat", _output_tokens(belief, target, route)
    ejected = belief.ejected and route.avoid_ejected
    priced_by = _NOTHING if flat else belief
    steady = _steady(prices := _prices(target, priced_by, output_tokens))
    suspect = _is_suspect(target, belief, shared, uvi := pool_uvi(pool, shared.windows, route.uvi_blocks))
    ttft_s, rate = _ttft_s(belief), _output_tokens_per_s(belief)
    time = time_nanousd(ttft_s, rate, output_tokens, route.time_value_nanousd_per_s)
    plain = None if suspect or flat or pool.windows else _plain(steady, output_tokens, time)
    return CandidateFacts(
        target=target.id,
        pool=pool.id,
        index=index,
        grade=candidate.grade,
        standing=(candidate.grade << _GRADE_SHIFT) + (_EJECTED if ejected else 0),
        ejected=ejected,
        tie=(candidate.priority, target.id, index),
        enabled=target.enabled,
        suspect=suspect,
        lacks=_lacks(target),
        context_window=target.context_window or UNBOUNDED,
        max_output_tokens=target.max_output_tokens or UNBOUNDED,
        max_in_flight=target.max_in_flight or UNBOUNDED,
        flat=flat,
        needs_price=not flat or any(window.unit == "nanousd" for window in pool.windows),
        prices=prices,
        steady_rates=steady,
        plain=plain,
        quota=quota_facts_of(pool, pool_targets, of_pool, digest, target.quota_weight),
        target_version=of_target.version if of_target is not None else None,
        pool_version=of_pool.version if of_pool is not None else None,
        circuit=belief.circuit,
        circuit_until_ns=belief.circuit_until_ns,
        circuit_at_ns=of_target.at_ns if of_target is not None else 0,
        circuit_cause=belief.circuit_cause,
        cooldown_until_ns=shared.cooldown_until_ns,
        cooldown_cause=shared.cooldown_cause,
        ttft_p90_ms=belief.ttft_p90_ms,
        ttft_s=ttft_s,
        output_tokens_per_s=rate,
        output_tokens=output_tokens,
        time_nanousd=time,
        uvi=uvi,
        failure=_failure(belief),
        kept_by_age=_kept_by_age(belief),
        billed=_factors(priced_by.billed),
    )


def _is_suspect(target: Target, belief: TargetBelief, pool: PoolBelief, uvi: PoolUvi | None) -> bool:
    closed = not target.enabled or belief.circuit != "admitting" or pool.cooldown_until_ns is not None
    return closed or (uvi is not None and uvi.blocked_by is not None)


def with_tiers(facts: CandidateFacts, target: Target) -> CandidateFacts:
    """The candidate, which knows what it is at each service tier that its prices name: the same at other prices."""
    tiers = {each.service_tier for dated in target.prices for each in dated.variants} - {None}
    if not tiers:
        return facts
    first = len(facts.prices) - len(target.prices)
    at_tier: dict[str, CandidateFacts] = {}
    for tier in filter(None, tiers):
        prices = list(facts.prices)
        for at, dated in enumerate(target.prices, first):
            if any(each.service_tier == tier for each in dated.variants):
                prices[at] = RatesFrom(
                    dated.from_ns, _listed_rates(dated, facts.billed, facts.output_tokens, tier)
                )
        at_tier[tier] = msgspec.structs.replace(facts, prices=tuple(prices), steady_rates=None, plain=None)
    return msgspec.structs.replace(facts, at_tier=at_tier)


def time_nanousd(ttft_s: float, tokens_per_s: float, output_tokens: int, nanousd_per_s: int) -> int:
    """ρ·E[time]: time to the first token plus output at the believed rate."""
    return half_up(nanousd_per_s * (ttft_s + output_tokens / tokens_per_s))


def _output_tokens(belief: TargetBelief, target: Target, route: Route) -> int:
    believed = mean(belief.output_tokens_by_route.get(route.name))
    if believed is None:
        believed = mean(belief.output_tokens)
    expected = PRIOR_OUTPUT_TOKENS if believed is None else half_up(believed)
    return min(expected, target.max_output_tokens or UNBOUNDED)


def _kept_by_age(belief: TargetBelief) -> tuple[tuple[int, float | None], ...]:
    found: list[tuple[int, float | None]] = []
    for at in belief.cache_by_age:
        kept = None if at.kept.prior else mean(at.kept)
        to_age_ns = UNBOUNDED if at.to_age_s is None else half_up(at.to_age_s * 1e9)
        found.append((to_age_ns, None if kept is None else min(kept, 1.0)))
    return tuple(found)


def _ttft_s(belief: TargetBelief) -> float:
    ttft_ms = mean(belief.ttft_ms)
    return PRIOR_TTFT_S if ttft_ms is None else ttft_ms / 1_000.0


def _output_tokens_per_s(belief: TargetBelief) -> float:
    rate = mean(belief.output_tokens_per_s)
    return PRIOR_OUTPUT_TOKENS_PER_S if rate is None else max(rate, MIN_OUTPUT_TOKENS_PER_S)


def _failure(belief: TargetBelief) -> int:
    success = mean(belief.success)
    p_fail = PRIOR_FAILURE if success is None else 1.0 - min(success, 1.0)
    return half_up(p_fail * (1 << FAILURE_BITS))


def _lacks(target: Target) -> int:
    served = 0
    for dialect in (target.dialect, *target.also_speaks):
        served |= NEED_DIALECT[dialect]
    served |= NEED_VISION if target.vision else 0
    served |= NEED_TOOLS if target.tools else 0
    served |= NEED_REASONING if target.reasoning else 0
    served |= NEED_DOCUMENTS if target.documents else 0
    return ~served & (sum(NEED_DIALECT.values()) | _MODES)


def _prices(target: Target, belief: TargetBelief, output_tokens: int) -> tuple[RatesFrom, ...]:
    """Per date the list price then in force, as much of it as is believed to be billed."""
    dated = target.prices
    if not dated or dated[0].from_ns > 0:
        dated = (DatedPrice(), *dated)
    if belief.billed is None:
        return _prices_told(dated, belief, output_tokens)
    billed = _factors(belief.billed)
    return tuple(RatesFrom(each.from_ns, _listed_rates(each, billed, output_tokens)) for each in dated)


def _prices_told(
    dated: Sequence[DatedPrice], belief: TargetBelief, output_tokens: int
) -> tuple[RatesFrom, ...]:
    """Prices as snapshots told them that knew of no factors: what is billed for a class stands for its list price
    at every date, but where that differs by length or service tier."""
    told = _told(belief.price_input_uncached), _told(belief.price_cache_read), _told(belief.price_output)
    return tuple(
        RatesFrom(
            each.from_ns,
            _listed_rates(each, _AS_LISTED, output_tokens)
            if each.variants
            else _rates(each, told, _AS_LISTED, output_tokens),
        )
        for each in dated
    )


def _factors(beliefs: BilledFactors | None) -> Factors:
    if beliefs is None:
        return _AS_LISTED
    return Factors(_factor(beliefs.input_uncached), _factor(beliefs.cache_read), _factor(beliefs.output))


def _factor(belief: Belief | None) -> float:
    value = None if belief is None or belief.prior else mean(belief)
    return 1.0 if value is None else value


def _listed_rates(
    dated: DatedPrice, billed: Factors, output_tokens: int, tier: str | None = None
) -> Rates | None:
    """Rates of a service tier, None the usual one, with those of longer prompts."""
    if not dated.variants:  # most have none, and every snapshot asks
        return _rates(dated, _UNSEEN, billed, output_tokens)
    listed = dated.list_price()
    marks = {each.above_input_tokens for each in listed.variants if each.service_tier in {None, tier}}
    above: list[tuple[int, Rates]] = []
    for mark in sorted(marks - {_EVERY_LENGTH}):
        long = _rates(listed.plain_for(Tokens(mark + 1, service_tier=tier)), _UNSEEN, billed, output_tokens)
        if long is not None:
            above.append((mark, long))
    rates = _rates(listed.plain_for(Tokens(0, service_tier=tier)), _UNSEEN, billed, output_tokens)
    return rates and msgspec.structs.replace(rates, above=tuple(above))


def _plain(steady: Rates | None, output_tokens: int, time: int) -> Plain | None:
    if steady is None:
        return None
    return steady.input_uncached, steady.output, output_tokens, steady.usual_output, time


def _steady(prices: Sequence[RatesFrom]) -> Rates | None:
    """The rates of every day and length, None where there is no such thing."""
    rates = prices[0].rates if len(prices) == 1 else None
    return None if rates is not None and rates.above else rates


def _told(belief: Belief | None) -> int | None:
    value = mean(belief)
    if belief is None or belief.prior or value is None:
        return None
    return half_up(value)


def _rates(
    dated: DatedPrice | ListPrice, told: Sequence[int | None], billed: Factors, output_tokens: int
) -> Rates | None:
    uncached = dated.input_uncached if told[0] is None else told[0]
    read = dated.cache_read if told[1] is None else told[1]
    output = dated.output if told[2] is None else told[2]
    if uncached is None or output is None:
        return None
    read = _at(uncached if read is None else read, billed.cache_read)
    output = _at(output, billed.output)
    return Rates(_at(uncached, billed.input_uncached), read, output, output_tokens * output)


def _at(listed: int, factor: float) -> int:
    """A list price as it is billed; no more than any belief may say."""
    return listed if factor == 1.0 else half_up(min(listed * factor, MAX_BELIEF))
