"""Hard facts that keep a candidate out, in a fixed order, each with its reason and limiting fact. Pure."""

import msgspec

from tidegate.events.config import Route
from tidegate.events.decision import Ask, LocalView, Reason
from tidegate.events.money import dollars
from tidegate.planner.facts import (
    NEED_DIALECT,
    NEED_DOCUMENTS,
    NEED_REASONING,
    NEED_TOOLS,
    NEED_VISION,
    UNBOUNDED,
    CandidateFacts,
)
from tidegate.planner.uses import Shortage
from tidegate.planner.view import RouteFacts

FOREVER_NS = (1 << 63) - 1
"""A refusal without an end that is known."""

PROBES_IN_FLIGHT = 1
"""Requests a worker lets through at a time to a target that is being tried again."""

PROBING_NS = 30_000_000_000
"""After this long without news of a target that was to be tried again, the old verdict is void."""


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a candidate stays out; `retry_at_ns` where it is known when that may pass."""

    reason: Reason
    detail: str | None = None
    retry_at_ns: int | None = None


class Asked(msgspec.Struct, frozen=True, gc=False):
    """The ask as every candidate is compared with it."""

    ask: Ask
    route: Route
    input_tokens: int
    needs: int
    """Bits to be met with a candidate's `lacks`."""
    dialect: int
    """The bit of the client's own dialect among `needs`."""
    others: int
    """Bits of the dialects that will do as well."""
    context_tokens: int
    stated_output: int
    """Limit the client set, which a target must allow; 0 when it set none."""
    output_tokens: int
    """Limit the client set, which output stays within; UNBOUNDED when it set none."""
    limits_ttft: bool
    cost_cap: int
    """Nano-dollars for the whole chain, UNBOUNDED without a cap."""
    time_value: int
    """Nano-dollars per second."""


def asked_of(ask: Ask, route: Route) -> Asked:
    """Work out once what the candidates have in common."""
    needs = dialect = NEED_DIALECT[ask.dialect]
    others = 0
    for other in ask.dialects:
        others |= NEED_DIALECT[other]
    if ask.vision:
        needs |= NEED_VISION
    if ask.tools:
        needs |= NEED_TOOLS
    if ask.reasoning:
        needs |= NEED_REASONING
    if ask.documents:
        needs |= NEED_DOCUMENTS
    stated, input_tokens = ask.max_output_tokens, ask.input_tokens
    return Asked(
        ask,
        route,
        input_tokens,
        needs,
        dialect,
        others,
        input_tokens + (stated or 1),
        stated or 0,
        UNBOUNDED if stated is None else stated,
        route.max_ttft_p90_ms is not None,
        UNBOUNDED if route.max_cost_nanousd is None else route.max_cost_nanousd,
        route.time_value_nanousd_per_s,
    )


def fits_all(route: RouteFacts, asked: Asked) -> bool:
    """True only when every candidate of the route `fits`."""
    return not (
        asked.limits_ttft
        or route.lacks & asked.needs
        or asked.context_tokens > route.context_window
        or asked.stated_output > route.max_output_tokens
    )


def fits(facts: CandidateFacts, asked: Asked) -> bool:
    """A quick answer: True only when nothing of what is asked can refuse the candidate."""
    return not (
        asked.limits_ttft
        or (facts.lacks & asked.needs and _lacking(facts, asked))
        or asked.context_tokens > facts.context_window
        or asked.stated_output > facts.max_output_tokens
    )


def _lacking(facts: CandidateFacts, asked: Asked) -> int:
    """Bits of what is asked that the candidate cannot serve; another dialect that will do lacks nothing."""
    lacking = facts.lacks & asked.needs
    if lacking & asked.dialect and asked.others & ~facts.lacks:
        return lacking & ~asked.dialect
    return lacking


def is_clear(facts: CandidateFacts, asked: Asked, local: LocalView) -> bool:
    """A quick answer for the usual case: True only when `first_refusal` would find nothing to refuse."""
    return not (
        facts.suspect
        or not fits(facts, asked)
        or local.in_flight >= facts.max_in_flight
        or local.disabled
        or local.refusing_until_ns
        or local.pool_until_ns
    )


def first_refusal(facts: CandidateFacts, asked: Asked, local: LocalView, now_ns: int) -> Refusal | None:
    """The first of the facts that need no price."""
    return (
        capability(facts, asked, local)
        or circuit(facts, local, now_ns)
        or cooldown(facts, local, now_ns)
        or schedule(facts, now_ns)
        or load(facts, local, asked.route)
    )


def capability(facts: CandidateFacts, asked: Asked, local: LocalView) -> Refusal | None:
    """What the target is and can do: switches, dialect, sizes, modes."""
    ask = asked.ask
    if local.disabled or not (facts.enabled or local.disabled is False):
        return Refusal("disabled", "by kill-switch" if local.disabled else "by config")
    lacking = _lacking(facts, asked)
    if lacking & asked.dialect:
        return Refusal("dialect", f"client speaks {ask.dialect}")
    if asked.context_tokens > facts.context_window:
        return Refusal("context_window", f"needs {asked.context_tokens}, has {facts.context_window}")
    if ask.max_output_tokens is not None and ask.max_output_tokens > facts.max_output_tokens:
        return Refusal("output_limit", f"needs {ask.max_output_tokens}, has {facts.max_output_tokens}")
    if not lacking:
        return None
    if lacking & NEED_VISION:
        return Refusal("vision")
    if lacking & NEED_DOCUMENTS:
        return Refusal("documents")
    return Refusal("tools" if lacking & NEED_TOOLS else "reasoning")


def circuit(facts: CandidateFacts, local: LocalView, now_ns: int) -> Refusal | None:
    """The target's circuit, as this gateway saw it itself and as believed.

    A refusal that ran out and a target being probed admit a trickle, until there is news or 30 s passed.
    """
    until_ns = local.refusing_until_ns
    if until_ns is not None and until_ns > now_ns:
        return Refusal("circuit_refusing", "own failures", _known(until_ns))
    if facts.circuit == "admitting":
        return None
    since_ns = facts.circuit_at_ns
    if facts.circuit == "refusing":
        until_ns = _earlier(facts.circuit_until_ns, local.believed_until_ns)
        if until_ns is None and local.disabled is False:
            # Closed until an operator acts, and one has: a trickle, until a success reopens it for all.
            until_ns = now_ns
        if until_ns is None or now_ns < until_ns:
            return Refusal("circuit_refusing", facts.circuit_cause, until_ns)
        since_ns = until_ns
    if local.in_flight >= PROBES_IN_FLIGHT and now_ns < since_ns + PROBING_NS:
        return Refusal("circuit_refusing", f"being tried again, {local.in_flight} in flight")
    return None


def cooldown(facts: CandidateFacts, local: LocalView, now_ns: int) -> Refusal | None:
    """The pool's cooldown, as this gateway saw it itself and as believed."""
    until_ns = local.pool_until_ns
    if until_ns is not None and until_ns > now_ns:
        return Refusal("pool_cooldown", "own failures", _known(until_ns))
    until_ns = _earlier(facts.cooldown_until_ns, local.pool_believed_until_ns)
    if until_ns is not None and until_ns > now_ns:
        return Refusal("pool_cooldown", facts.cooldown_cause, until_ns)
    return None


def schedule(facts: CandidateFacts, now_ns: int) -> Refusal | None:
    """The pool's quota is used so much faster than time passes that the route refuses it."""
    uvi = facts.uvi
    if uvi is None or uvi.blocked_by is None:
        return None
    if uvi.blocked_until_ns is not None and now_ns >= uvi.blocked_until_ns:
        return None
    return Refusal("uvi", uvi.blocked_by, uvi.blocked_until_ns)


def load(facts: CandidateFacts, local: LocalView, route: Route) -> Refusal | None:
    """Concurrency cap of the target and latency limit of the route."""
    if local.in_flight >= facts.max_in_flight:
        return Refusal("in_flight_cap", f"{local.in_flight} in flight, cap {facts.max_in_flight}")
    limit, p90 = route.max_ttft_p90_ms, facts.ttft_p90_ms
    if limit is not None and p90 is not None and p90 > limit:
        return Refusal("ttft_limit", f"p90 {p90:.0f} ms, limit {limit} ms")
    return None


def exhausted(shortage: Shortage) -> Refusal:
    """A window has less left than the stated quantile of this use; a use above its limit never fits."""
    facts, need = shortage.facts, shortage.need
    return Refusal(
        "window_exhausted",
        f"window {facts.id}: needs {need} {facts.window.unit}, has {max(shortage.left, 0)}",
        shortage.retry_at_ns,
    )


def over_cap(cash_nanousd: int, cap_nanousd: int) -> Refusal:
    """One attempt alone would pass the route's cap for the whole chain."""
    return Refusal("cost_cap", f"expects ${dollars(cash_nanousd)}, cap ${dollars(cap_nanousd)}")


def _earlier(until_ns: int | None, or_ns: int | None) -> int | None:
    """`or_ns` cuts a known end short, it makes none."""
    return until_ns if until_ns is None or or_ns is None else min(until_ns, or_ns)


def _known(until_ns: int) -> int | None:
    return None if until_ns >= FOREVER_NS else until_ns
