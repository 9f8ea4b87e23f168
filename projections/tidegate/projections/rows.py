"""Event → rows: pure. Each function fills the columns of `tables.py` in their order."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidegate.events.bounds import MAX_SEED
from tidegate.events.control import ConfigPublished, TargetDisabled, TargetEnabled
from tidegate.events.decision import CandidateVerdict, DecisionMade, PriceParts, WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.errors import BeyondBounds
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.requests import RequestAdmitted, RequestFinished, RequestRefused
from tidegate.events.signals import (
    AttemptFailed,
    AttemptStarted,
    DemandSeen,
    FirstTokenSeen,
    QuotaObserved,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.snapshots import Belief, PoolBelief, RateSnapshot, TargetBelief, WindowBelief
from tidegate.projections.tables import BELIEFS

Row = tuple[Any, ...]
Rows = Iterator[tuple[str, Row]]


class Place(NamedTuple):
    """Where the record of an event stands in its topic."""

    partition: int
    offset: int


def rows_of(place: Place, envelope: Envelope, data: Any) -> Rows:
    """(table, row) for every row this event adds; none for types that are not projected.

    Raises BeyondBounds, at the first row.
    """
    make = _MAKERS.get(envelope.type)
    return iter(()) if make is None else make(place, envelope, data)


def _head(place: Place, envelope: Envelope) -> Row:
    return (
        *place,
        envelope.id,
        envelope.ts,
        envelope.source,
        envelope.tenant,
        envelope.request,
        envelope.session,
    )


def _tokens(tokens: Tokens) -> Row:
    return (
        tokens.input_uncached,
        tokens.cache_read,
        tokens.cache_write_5m,
        tokens.cache_write_1h,
        tokens.output,
        tokens.reasoning,
    )


def _price(price: ListPrice | None) -> Row:
    if price is None:
        return (None,) * 5
    return (
        price.input_uncached,
        price.cache_read,
        price.cache_write_5m,
        price.cache_write_1h,
        price.output,
    )


def _use(use: WindowUse) -> Row:
    return (
        use.window,
        use.period_start_ns,
        use.units,
        use.duration_ns,
        use.first_request,
        use.rolling,
        use.peak,
    )


def _request_admitted(place: Place, envelope: Envelope, data: RequestAdmitted) -> Rows:
    yield (
        "r_requests",
        (
            *_head(place, envelope),
            data.key,
            data.route,
            data.dialect,
            data.endpoint,
            data.stream,
            data.session_source,
            data.body_bytes,
            data.input_tokens,
            data.max_output_tokens,
        ),
    )


def _request_refused(place: Place, envelope: Envelope, data: RequestRefused) -> Rows:
    yield (
        "r_refusals",
        (*_head(place, envelope), data.key, data.route, data.code, data.status, data.detail),
    )


def _request_finished(place: Place, envelope: Envelope, data: RequestFinished) -> Rows:
    yield (
        "r_outcomes",
        (
            *_head(place, envelope),
            data.key,
            data.route,
            data.outcome,
            data.status,
            data.attempts,
            data.decision,
            data.target,
            data.code,
            data.duration_ns,
            data.ttft_ns,
            data.cost_nanousd,
            data.overhead_ns,
        ),
    )


def _decision_made(place: Place, envelope: Envelope, data: DecisionMade) -> Rows:
    ask = data.ask
    if data.seed > MAX_SEED:
        raise BeyondBounds(f"event {envelope.id} is a DecisionMade beyond bounds: seed {data.seed:.3e}")
    yield (
        "r_decisions",
        (
            *_head(place, envelope),
            data.decision,
            ask.key,
            ask.route,
            ask.dialect,
            ask.stream,
            ask.vision,
            ask.tools,
            ask.reasoning,
            ask.input_tokens,
            ask.max_output_tokens,
            data.now_ns,
            data.seed,
            data.config,
            data.code,
            data.decide_version,
            data.strategy,
            data.chosen,
            len(data.candidates),
            data.retry_at_ns,
            data.took_ns,
        ),
    )
    head = (*place, envelope.ts, envelope.tenant, envelope.request, data.decision)
    tiers = dict(ask.service_tiers)
    for index, candidate in enumerate(data.candidates):
        yield (
            "r_candidates",
            (*head, index, *_candidate(candidate), tiers.get(candidate.target), candidate.ejected),
        )
        for use in candidate.uses:
            yield "r_planned_uses", (*head, candidate.target, candidate.pool, *_use(use))


def _price_parts(price: PriceParts | None) -> Row:
    if price is None:
        return (None,) * 6
    return (price.cash, price.quota, price.retry, price.time, price.switch, price.total)


def _candidate(candidate: CandidateVerdict) -> Row:
    return (
        candidate.target,
        candidate.pool,
        candidate.target_version,
        candidate.pool_version,
        candidate.grade,
        candidate.reason,
        candidate.detail,
        candidate.retry_at_ns,
        candidate.rank,
        *_price_parts(candidate.price),
        candidate.expected_cached_tokens,
        candidate.expected_output_tokens,
        candidate.local.in_flight,
        candidate.p_exhaust,
        candidate.propensity,
    )


def _attempt_started(place: Place, envelope: Envelope, data: AttemptStarted) -> Rows:
    yield (
        "r_attempts",
        (
            *_head(place, envelope),
            data.attempt,
            data.target,
            data.pool,
            data.route,
            data.index,
            data.input_tokens,
            data.reserve_output_tokens,
            *_price(data.price),
        ),
    )


def _of_attempt(
    place: Place, envelope: Envelope, data: FirstTokenSeen | UsageSettled | SettlementCorrected
) -> Row:
    return (
        *place,
        envelope.ts,
        envelope.tenant,
        envelope.request,
        data.attempt,
        data.target,
        data.pool,
    )


def _first_token_seen(place: Place, envelope: Envelope, data: FirstTokenSeen) -> Rows:
    yield "r_first_tokens", (*_of_attempt(place, envelope, data), data.ttft_ns, data.input_tokens)


def _usage_settled(place: Place, envelope: Envelope, data: UsageSettled) -> Rows:
    yield (
        "r_settlements",
        (
            *_head(place, envelope),
            data.attempt,
            data.target,
            data.pool,
            data.route,
            data.basis,
            data.outcome,
            *_tokens(data.tokens),
            data.cost_nanousd,
            *_price(data.price),
            data.duration_ns,
            data.ttft_ns,
            data.input_estimate,
            data.model,
            data.evidence,
        ),
    )
    for use in data.windows:
        yield "r_uses", _of_attempt(place, envelope, data) + _use(use)


def _attempt_failed(place: Place, envelope: Envelope, data: AttemptFailed) -> Rows:
    yield (
        "r_failures",
        (
            *_head(place, envelope),
            data.attempt,
            data.target,
            data.pool,
            data.cause,
            data.phase,
            data.rule,
            data.status,
            data.retry_after_ms,
            data.reset_at_ns,
            data.confidence,
        ),
    )


def _settlement_corrected(place: Place, envelope: Envelope, data: SettlementCorrected) -> Rows:
    yield (
        "r_corrections",
        (
            *_head(place, envelope),
            data.attempt,
            data.target,
            data.pool,
            data.correction,
            data.delta_nanousd,
            data.billed_nanousd,
            *_tokens(data.tokens),
            data.evidence,
        ),
    )
    for use in data.windows:
        yield "r_uses", _of_attempt(place, envelope, data) + _use(use)


def _demand_seen(place: Place, envelope: Envelope, data: DemandSeen) -> Rows:
    head = (*place, envelope.ts, envelope.tenant, envelope.request, data.decision, data.pool)
    for use in data.windows:
        yield "r_demand", (*head, *_use(use), data.alternative_nanousd, data.chosen)


def _quota_observed(place: Place, envelope: Envelope, data: QuotaObserved) -> Rows:
    yield (
        "r_quota",
        (
            *_head(place, envelope),
            data.target,
            data.pool,
            data.scope,
            data.limit,
            data.remaining,
            data.resets_at_ns,
        ),
    )


def _belief(belief: Belief | None) -> Row:
    return (None, None, None) if belief is None else (belief.mean, belief.var, belief.prior)


def _rate_snapshot(place: Place, envelope: Envelope, data: RateSnapshot) -> Rows:
    kind, _, subject_id = data.subject.partition(":")
    target = TargetBelief() if data.target is None else data.target
    pool = PoolBelief() if data.pool is None else data.pool
    yield (
        "r_snapshots",
        (
            *place,
            envelope.id,
            envelope.ts,
            envelope.source,
            data.subject,
            kind,
            subject_id,
            data.version,
            data.at_ns,
            data.config,
            data.evidence,
            None if data.target is None else target.circuit,
            target.circuit_cause,
            target.circuit_until_ns,
            pool.cooldown_cause,
            pool.cooldown_until_ns,
            target.ttft_p90_ms,
            target.error_lower,
            *(value for name in BELIEFS for value in _belief(getattr(target, name))),
        ),
    )
    for window in pool.windows:
        yield "r_windows", (*place, envelope.ts, subject_id, data.version, *_window(window))


def _window(window: WindowBelief) -> Row:
    return (
        window.window,
        window.period_start_ns,
        window.resets_at_ns,
        window.rolls_ns,
        window.used,
        window.limit,
        window.status,
        window.told_at_ns,
        window.uvi,
        window.p_exhaust,
        window.will_exhaust,
        window.exhausts_at_ns,
        window.exhausts_p10_ns,
        window.exhausts_p50_ns,
        window.exhausts_p90_ns,
        window.exhausts_sd_s,
        None if window.remaining_demand is None else window.remaining_demand.mean,
        *(window.remaining_quantiles or (None,) * 5),
        window.coverage_80,
        window.coverage_90,
        window.forecasts_settled,
        window.use_p90,
        window.shadow_nanousd,
        window.amortised_nanousd,
        *_with_sd(window.capacity),
        *_with_sd(window.outside),
        window.outside_demand,
    )


def _with_sd(belief: Belief | None) -> Row:
    """Mean and standard deviation; NULL where nothing is known."""
    if belief is None or belief.prior:
        return (None, None)
    return (belief.mean, math.sqrt(max(belief.var, 0.0)))


def _control(place: Place, envelope: Envelope, entity: str, actor: str, reason: str | None) -> Rows:
    yield (
        "r_control",
        (
            *place,
            envelope.id,
            envelope.ts,
            envelope.source,
            envelope.type,
            entity,
            actor,
            reason,
        ),
    )


def _config_published(place: Place, envelope: Envelope, data: ConfigPublished) -> Rows:
    return _control(place, envelope, data.digest, data.actor, None)


def _target_switched(place: Place, envelope: Envelope, data: TargetEnabled | TargetDisabled) -> Rows:
    return _control(place, envelope, data.target, data.actor, data.reason or None)


_MAKERS: dict[str, Callable[[Place, Envelope, Any], Rows]] = {
    "RequestAdmitted": _request_admitted,
    "RequestRefused": _request_refused,
    "RequestFinished": _request_finished,
    "DecisionMade": _decision_made,
    "AttemptStarted": _attempt_started,
    "FirstTokenSeen": _first_token_seen,
    "UsageSettled": _usage_settled,
    "AttemptFailed": _attempt_failed,
    "SettlementCorrected": _settlement_corrected,
    "DemandSeen": _demand_seen,
    "QuotaObserved": _quota_observed,
    "RateSnapshot": _rate_snapshot,
    "ConfigPublished": _config_published,
    "TargetEnabled": _target_switched,
    "TargetDisabled": _target_switched,
}

PROJECTED: frozenset[str] = frozenset(_MAKERS)
"""Event types that add rows."""

NOT_PROJECTED: frozenset[str] = frozenset({"Applied", "SourceClosed", "DeadLetter"})
"""Known types no question asks for; a test holds every registered type in one of the two sets."""
