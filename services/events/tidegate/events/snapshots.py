"""What the estimator believes, as `decide` reads it: finished numbers, no exp, log or quantile left to do."""

from typing import Literal

import msgspec

from tidegate.events.bounds import Count, Ns, Seq, Units, Until
from tidegate.events.types import Cause, PoolId, TargetId, WindowId

UviStatus = Literal["unknown", "surplus", "ok", "stressed", "critical", "exhausted"]
Circuit = Literal["admitting", "refusing", "probing"]


class Belief(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Mean and variance in the unit of the field's name; `prior` until evidence came."""

    mean: float
    var: float
    prior: bool = False


class LatencyAt(msgspec.Struct, frozen=True, gc=False):
    """Time to the first token of a prompt of that many tokens: expected, and its 90 % point."""

    prompt_tokens: Count
    mean_ms: float
    p90_ms: float


class CacheAt(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Share of a session's prefix that is read from the cache when it is younger than `to_age_s` (None: older)."""

    to_age_s: float | None
    kept: Belief


class BilledFactors(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is billed per dollar of the list price in force, by token class; `prior` until a bill came."""

    input_uncached: Belief | None = None
    cache_read: Belief | None = None
    cache_write_5m: Belief | None = None
    cache_write_1h: Belief | None = None
    output: Belief | None = None


class TargetBelief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is believed of one target."""

    billed: BilledFactors | None = None
    """None: the estimator was of a time in which it told the billed price alone, whatever was listed when."""
    price_input_uncached: Belief | None = None
    """The list price in force at `at_ns`, as it is billed: to be shown. Where `billed` is, only that is priced by."""
    price_cache_read: Belief | None = None
    price_cache_write_5m: Belief | None = None
    price_cache_write_1h: Belief | None = None
    price_output: Belief | None = None
    ttft_ms: Belief | None = None
    ttft_p90_ms: float | None = None
    output_tokens_per_s: Belief | None = None
    output_tokens: Belief | None = None
    output_tokens_by_route: dict[str, Belief] = {}
    """Shrunk to `output_tokens` where a route had few answers."""
    ttft_by_prompt: tuple[LatencyAt, ...] = ()
    """At a few lengths, ascending."""
    cached_share: Belief | None = None
    """Share of a prompt read from the provider's cache, over all requests."""
    cache_by_age: tuple[CacheAt, ...] = ()
    """By age of the session's prefix, youngest first."""
    success: Belief | None = None
    error_lower: float | None = None
    """5 % point of the error rate."""
    success_lower: float | None = None
    """5 % point of the success rate: what may be counted on."""
    ejected: bool = False
    """The error rate is above its limit with 95 % belief: a prior alone never says so."""
    suspected: bool = False
    """A change from few errors to many is likelier than not."""
    throttled: float = 0.0
    """Refusals for rate or quota, with ten minutes half-life; not ill health."""
    circuit: Circuit = "admitting"
    circuit_until_ns: Until | None = None
    circuit_cause: Cause | None = None


class WindowBelief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is believed of one quota window, in its own unit."""

    window: WindowId
    period_start_ns: Ns | None
    resets_at_ns: Until | None
    used: Units
    """Own use, and that of others where the provider tells of it."""
    rolls_ns: Ns | None = None
    """Length of a rolling window, which has no period: its forecasts look as far ahead."""
    ages_out: tuple[tuple[Ns, Units], ...] = ()
    """Of a rolling window: moments at which used units count no longer, and how many, in order of time."""
    limit: Units
    """As the config states it; of a window whose provider tells shares only, what `capacity` expects."""
    capacity: Belief | None = None
    """Only where the provider tells shares: `prior` while nothing but the config's guess is known."""
    outside: Belief | None = None
    """Units that others used of the running period; None where the provider does not tell."""
    outside_demand: float | None = None
    """Units that others are expected to use until the reset."""
    told_at_ns: Ns | None = None
    """When the provider last told of it; None where it does not tell."""
    uvi: float | None = None
    status: UviStatus = "unknown"
    p_exhaust: float | None = None
    will_exhaust: bool | None = None
    """Whether to act as if it ran dry: the chance against the pool's costs of the two errors; None while unknown."""
    exhausts_at_ns: Until | None = None
    exhausts_sd_s: float | None = None
    exhausts_p10_ns: Until | None = None
    exhausts_p50_ns: Until | None = None
    exhausts_p90_ns: Until | None = None
    """By when the quota is gone with this chance, in percent; None when that is not before the reset."""
    coverage_80: float | None = None
    coverage_90: float | None = None
    """Share of this window's settled forecasts whose 80 % and 90 % intervals held the truth; None before any."""
    forecasts_settled: float = 0.0
    """Settled forecasts behind the two, old ones fading."""
    remaining_demand: Belief | None = None
    remaining_quantiles: tuple[float, ...] = ()
    """5, 10, 50, 90 and 95 % points of the use still to come before the reset; empty when unknown."""
    use_p90: float | None = None
    shadow_nanousd: float = 0.0
    """Shadow price λ, nano-dollars per unit of the window; > 0 while the window can bind."""
    amortised_nanousd: float | None = None
    """The plan's fee per unit that this period will have used; of a pool's longest window. Never used for routing."""


class PoolBelief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is believed of one pool."""

    windows: tuple[WindowBelief, ...] = ()
    p_exhaust: float | None = None
    """P(some window is gone before its reset), on paths that the windows share; of pools with several windows."""
    exhausts_at_ns: Until | None = None
    """When the first of them is expected to be gone, given that one is."""
    cooldown_until_ns: Until | None = None
    cooldown_cause: Cause | None = None


class RateSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Belief about one subject (`target:<id>` or `pool:<id>`). `version` is dense per subject."""

    subject: str
    version: Units
    at_ns: Ns
    config: str
    evidence: Units
    """Position in the subject's signals partition that the belief includes."""
    target: TargetBelief | None = None
    pool: PoolBelief | None = None


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """Per (topic, partition): which `source -> seq` the snapshots of that partition include."""

    topic: str
    partition: Count
    position: Units
    marks: dict[str, Seq]


def target_subject(target: TargetId) -> str:
    """Subject of a target's snapshot and state."""
    return f"target:{target}"


def pool_subject(pool: PoolId) -> str:
    """Subject of a pool's snapshot and state."""
    return f"pool:{pool}"
