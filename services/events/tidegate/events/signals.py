"""Events of the signals topic: attempts, their usage, their failures, demand. Partitioned by pool."""

from typing import Literal

import msgspec

from tidegate.events.bounds import Count, Millis, Nanousd, Ns, Units, Until
from tidegate.events.decision import WindowUse
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.types import AttemptId, Basis, Cause, DecisionId, PoolId, TargetId

Outcome = Literal["completed", "failed", "truncated", "cancelled", "client_slow", "orphaned"]
Phase = Literal[
    "dns", "connect", "tls", "send", "wait_headers", "first_byte", "mid_stream", "after_stop", "body"
]


class AttemptStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An upstream call is about to be dialed. Committed before the first byte leaves."""

    attempt: AttemptId
    target: TargetId
    pool: PoolId
    route: str
    index: Count
    """0 for the first attempt of the request, then 1, 2, …"""
    input_tokens: Count
    """Estimate, as in the ask."""
    reserve_output_tokens: Count
    """What is assumed produced when the usage stays unknown."""
    price: ListPrice | None = None
    """Per-token price this attempt is charged at (zeros in a flat pool); None = unknown."""
    windows: tuple[WindowUse, ...] = ()
    """Reserved units per window of the pool."""
    prefix_tokens: Count | None = None
    """As in the settlement."""
    prefix_age_ns: Ns | None = None
    service_tier: str | None = None
    """How the provider was asked to serve it; None = as usual. Holds where it does not say how it did."""
    stored_files: Count = 0
    """Images and documents of the prompt that are files at the provider: `input_tokens` holds a guess for each."""

    def known_input_estimate(self) -> int | None:
        """The estimate of the prompt; None where a part of it is a guess."""
        return None if self.stored_files else self.input_tokens


class FirstTokenSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The first content event of a stream arrived."""

    attempt: AttemptId
    target: TargetId
    pool: PoolId
    ttft_ns: Ns
    input_tokens: Count


class UsageSettled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The one settlement of an attempt."""

    attempt: AttemptId
    target: TargetId
    pool: PoolId
    route: str
    basis: Basis
    outcome: Outcome
    tokens: Tokens = Tokens()
    cost_nanousd: Nanousd | None = None
    """What the provider bills for it; None only when no price is known."""
    price: ListPrice | None = None
    windows: tuple[WindowUse, ...] = ()
    duration_ns: Ns | None = None
    ttft_ns: Ns | None = None
    input_estimate: Count | None = None
    """Input tokens estimated before the call; None where files of the provider were in it, whose size is unknown."""
    model: str | None = None
    """Model the provider says it served."""
    evidence: bool = True
    """False: says nothing about the target's health (orphans, client's doing)."""
    prefix_tokens: Count | None = None
    """What the session was told to have left in the target's cache, which this prompt may have found there."""
    prefix_age_ns: Ns | None = None


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an attempt failed; settles nothing."""

    attempt: AttemptId
    target: TargetId
    pool: PoolId
    cause: Cause
    phase: Phase
    rule: str
    """Which rule of the classifier matched."""
    status: Count | None = None
    retry_after_ms: Millis | None = None
    reset_at_ns: Until | None = None
    confidence: Literal["high", "medium", "low"] = "high"
    evidence: bool = True
    """False: the request's own size explains it, so it says nothing of the target."""


class SettlementCorrected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became known later. Ledger = settlements + corrections; `delta_nanousd` adds."""

    attempt: AttemptId
    target: TargetId
    pool: PoolId
    delta_nanousd: Nanousd
    tokens: Tokens
    """Usage as now known."""
    billed_nanousd: Nanousd | None = None
    """The whole bill of the attempt as now known."""
    price: ListPrice | None = None
    """The list price that the attempt was settled at, where there was one."""
    evidence: str
    correction: Count = 0
    """0 for the first correction of an attempt, then 1, 2, …"""
    windows: tuple[WindowUse, ...] = ()
    """By how many units the use of each window changes, in the period it was settled in; may be negative."""


class DemandSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A decision could have used this pool, or could but for its quota: its expected use, and the dollars the best
    alternative costs."""

    decision: DecisionId
    pool: PoolId
    windows: tuple[WindowUse, ...]
    alternative_nanousd: Nanousd | None = None
    """None: no metered alternative and no refusal cost."""
    chosen: bool = False
    refused_until_ns: Until | None = None
    """The pool had no quota left for it until then: demand that could not become consumption."""


class QuotaObserved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a provider said of its own limits, in rate-limit headers."""

    target: TargetId
    pool: PoolId
    scope: str
    limit: Units | None = None
    remaining: Units | None = None
    resets_at_ns: Until | None = None
    window: WindowUse | None = None
    """The pool's window that it measures; `units` are those of the answered attempt that it counts already."""
    guess: Units | None = None
    """Of a window whose provider tells shares only: its capacity as the config guesses it."""
