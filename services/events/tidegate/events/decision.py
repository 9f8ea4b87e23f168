"""The recorded plan: everything `decide` read and everything it concluded, enough to replay it bit by bit."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Literal

import msgspec

from tidegate.events.bounds import Count, Nanousd, Ns, Seed, Units, Until
from tidegate.events.types import DecisionId, Dialect, PoolId, TargetId, WindowId

Reason = Literal[
    "disabled",
    "dialect",
    "context_window",
    "output_limit",
    "vision",
    "tools",
    "reasoning",
    "documents",
    "price_unknown",
    "circuit_refusing",
    "pool_cooldown",
    "window_exhausted",
    "uvi",
    "in_flight_cap",
    "ttft_limit",
    "grade",
    "cost_cap",
]
"""Why a candidate was not admitted (closed)."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is asked of the planner: derived scalars only, computed from text before, and recorded."""

    request: str
    tenant: str
    key: str
    route: str
    dialect: Dialect
    session: str
    stream: bool = False
    input_tokens: Count = 0
    """Estimate before the call: body text bytes ÷ 4, rounded up."""
    max_output_tokens: Count | None = None
    vision: bool = False
    tools: bool = False
    reasoning: bool = False
    dialects: tuple[Dialect, ...] = ()
    """Further dialects in which the request can be put without losing what it needs."""
    service_tiers: tuple[tuple[TargetId, str], ...] = ()
    """By target of the route, the service tier that it would be asked for; those asked as usual are left out."""
    documents: bool = False
    """Files that are no plain text are to be read."""


NO_PEAK = 1.0
"""The default weight of an hour itself, not its equal: a use that holds it is encoded without it."""


class WindowUse(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Units used of one window, in the period that began at `period_start_ns`."""

    window: WindowId
    period_start_ns: Ns
    units: Units
    duration_ns: Ns = 0
    """Length of the period; 0 where it does not matter (local overlays)."""
    first_request: bool = False
    """The period began with its first request: two gateways may name different starts of one period."""
    rolling: bool = False
    """Of a rolling window: the period is the slice of time in which the use began, see `quota.slice_ns`."""
    peak: float = NO_PEAK
    """How often the provider counts a unit at that hour: part of `units`, no part of the pace of use."""


class LocalView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What only this gateway knew of a candidate: recorded, because no snapshot holds it."""

    disabled: bool | None = None
    """Kill-switch in force: True closes the target, False opens one that the config disables."""
    in_flight: Count = 0
    """Attempts running here, times the workers that share the target's cap."""
    uses: tuple[WindowUse, ...] = ()
    """Own uses that `Applied` does not cover yet, times the workers that share the quota."""
    refusing_until_ns: Until | None = None
    """Own 429s and failures that `Applied` does not cover yet: the target is closed until then."""
    pool_until_ns: Until | None = None
    session_prompt_tokens: Count | None = None
    """Length of the session's last prompt on this target."""
    session_cached_tokens: Count | None = None
    """How much of it the provider said it read from or wrote to its cache."""
    session_at_ns: Ns | None = None
    tried_at_ns: Ns | None = None
    """Since the target fails here, and only a guess says for how long: when it was last tried."""
    believed_until_ns: Until | None = None
    """End of the closing that the snapshots tell, where the wall clock was set back since: it is no longer one."""
    pool_believed_until_ns: Until | None = None


NOTHING_LOCAL = LocalView()
"""The default itself, not its equal: a verdict that holds it is encoded without it."""


class PriceParts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Expected price of this request on one candidate, integer nano-dollars by part."""

    cash: Nanousd = 0
    quota: Nanousd = 0
    retry: Nanousd = 0
    time: Nanousd = 0
    switch: Nanousd = 0
    total: Nanousd = 0


NEVER_CHOSEN = 0.0
"""The default propensity itself, not its equal: a verdict that holds it is encoded without it."""


class CandidateVerdict(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One candidate of a decision. `rank` 0 is chosen; None means not admitted, `reason` says why."""

    target: TargetId
    pool: PoolId
    target_version: Units | None = None
    pool_version: Units | None = None
    local: LocalView = NOTHING_LOCAL
    grade: Count = 0
    reason: Reason | None = None
    detail: str | None = None
    """The limiting fact in words, e.g. `needs 130000, has 128000`."""
    retry_at_ns: Until | None = None
    """When the reason may pass, where that is known."""
    rank: Count | None = None
    price: PriceParts | None = None
    expected_cached_tokens: Count | None = None
    expected_output_tokens: Count | None = None
    p_exhaust: float | None = None
    uses: tuple[WindowUse, ...] = ()
    """Expected quota use of this request here (planned)."""
    propensity: float = NEVER_CHOSEN
    """Probability with which it was chosen."""
    ejected: bool = False
    """Believed to fail too often: it ranks after the others of its grade."""


_RANK = attrgetter("rank")
_PRICE = attrgetter("price")


def by_rank(candidates: Iterable[CandidateVerdict]) -> list[CandidateVerdict]:
    """The admitted candidates, best first: those that were priced were ranked."""
    return sorted(filter(_PRICE, candidates), key=_RANK)


class DecisionMade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The plan for a request. `chosen` None is a refusal with every candidate's reason."""

    decision: DecisionId
    ask: Ask
    now_ns: Ns
    seed: Seed
    config: str
    code: str
    decide_version: Count
    strategy: str
    candidates: tuple[CandidateVerdict, ...]
    chosen: TargetId | None = None
    retry_at_ns: Until | None = None
    took_ns: Ns = msgspec.field(name="took_ns", default=0)
    """How long deciding took; evidence of speed, no part of replay."""
