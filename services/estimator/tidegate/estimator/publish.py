"""`publish`: beliefs as `decide` reads them, finished numbers only. Reads the state, never changes it. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimator import cache, output_length
from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.rate_filter import LEVEL, SCALE, RateBelief, prompt_feature
from tidegate.estimator.state import CLASSES, RATES, State, indexes
from tidegate.estimator.window_beliefs import window_beliefs
from tidegate.events.config import Routing, Target
from tidegate.events.cooldown import FOR_GOOD, Cooldown
from tidegate.events.money import ListPrice
from tidegate.events.snapshots import (
    Belief,
    BilledFactors,
    CacheAt,
    Circuit,
    LatencyAt,
    PoolBelief,
    TargetBelief,
)
from tidegate.events.types import Cause, PoolId, TargetId

PROMPT_TOKENS = (1_000, 8_000, 32_000, 128_000)
"""Lengths at which the time to the first token is published."""


class Published(NamedTuple):
    """Beliefs by subject, and the UVI status codes that the next call's hysteresis needs, by window index."""

    targets: dict[TargetId, TargetBelief]
    pools: dict[PoolId, PoolBelief]
    statuses: dict[int, int]


def publish(
    state: State,
    now_ns: int,
    routing: Routing,
    targets: Sequence[TargetId],
    pools: Sequence[PoolId],
) -> Published:
    """What is believed at `now_ns` of the named subjects; those the routing does not know are left out."""
    known = {target.id: target for target in routing.targets}
    asked = [known[target] for target in targets if target in known and target in state.targets]
    pool_beliefs, statuses = _pools(state, now_ns, routing, pools)
    return Published(_targets(state, now_ns, asked), pool_beliefs, statuses)


def _targets(state: State, now_ns: int, asked: Sequence[Target]) -> dict[TargetId, TargetBelief]:
    if not asked:
        return {}
    idx = indexes(state.targets[target.id] for target in asked)
    health = state.health.belief(idx, now_ns)
    ttft, speed, length = (
        state.rates.belief(idx * len(RATES) + place, now_ns) for place in range(len(RATES))
    )
    ttfts, speeds, lengths = _known(ttft), _known(speed), _known(length)
    billed = _billed(state, idx, now_ns, asked)
    by_prompt = _by_prompt(state, idx, now_ns)
    found: dict[TargetId, TargetBelief] = {}
    for k, target in enumerate(asked):
        circuit, until_ns, cause = _circuit(state.target_cooldown[idx[k]], now_ns)
        price = target.list_price(now_ns)
        found[target.id] = TargetBelief(
            **{f"price_{name}": _price(price, name, getattr(billed[k], name)) for name in CLASSES},
            billed=billed[k],
            ttft_ms=ttfts[k],
            ttft_p90_ms=None if ttft.prior[k] else float(ttft.p90[k]),
            output_tokens_per_s=speeds[k],
            output_tokens=lengths[k],
            output_tokens_by_route=_by_route(state, int(idx[k])),
            ttft_by_prompt=() if ttft.prior[k] else tuple(at[k] for at in by_prompt),
            cached_share=_cached_share(state.cache[idx[k]]),
            cache_by_age=_by_age(state.cache[idx[k]]),
            success=Belief(
                float(health.success_mean[k]), float(health.success_var[k]), prior=bool(health.prior[k])
            ),
            error_lower=float(health.error_lower[k]),
            success_lower=float(health.success_lower[k]),
            ejected=bool(health.ejected[k]),
            suspected=bool(health.suspected[k]),
            throttled=float(health.throttled[k]),
            circuit=circuit,
            circuit_until_ns=until_ns,
            circuit_cause=cause,
        )
    return found


def _known(rate: RateBelief) -> list[Belief | None]:
    return [
        None if rate.prior[k] else Belief(float(rate.mean[k]), float(rate.var[k]))
        for k in range(rate.prior.size)
    ]


def _by_prompt(state: State, idx: IntArray, now_ns: int) -> list[list[LatencyAt]]:
    """Per published length the time to the first token of each target."""
    series = idx * len(RATES) + RATES.index("ttft")
    found: list[list[LatencyAt]] = []
    for tokens in PROMPT_TOKENS:
        lengths: IntArray = np.full(idx.size, tokens, dtype=np.int64)
        at = state.rates.belief(series, now_ns, prompt_feature(lengths))
        found.append([LatencyAt(tokens, float(at.mean[k]), float(at.p90[k])) for k in range(idx.size)])
    return found


def _by_route(state: State, target: int) -> dict[str, Belief]:
    numbers = state.rates.data[:, target * len(RATES) + RATES.index("length")]
    level, scale = float(numbers[LEVEL]), float(numbers[SCALE])
    found: dict[str, Belief] = {}
    for route, held in state.lengths[target].items():
        length = output_length.expected(held, level, scale)
        found[route] = Belief(length.mean, length.var)
    return found


def _cached_share(numbers: list[float]) -> Belief | None:
    known = cache.share(numbers)
    return None if known is None else Belief(known.mean, known.var)


def _by_age(numbers: list[float]) -> tuple[CacheAt, ...]:
    """Published once anything was seen of any age."""
    known = cache.survival(numbers)
    if all(each.prior for each in known):
        return ()
    return tuple([CacheAt(each.to_age_s, Belief(each.mean, each.var, prior=each.prior)) for each in known])


def _billed(state: State, idx: IntArray, now_ns: int, asked: Sequence[Target]) -> list[BilledFactors]:
    """Per target what is billed per dollar listed, class by class."""
    found: list[dict[str, Belief]] = [{} for _ in asked]
    prices = [target.list_price(now_ns) for target in asked]
    for place, name in enumerate(CLASSES):
        listed: FloatArray = np.array([_rate(price, name) for price in prices], dtype=np.float64)
        belief = state.prices.belief(idx * len(CLASSES) + place, now_ns, listed)
        for k, factors in enumerate(found):
            factors[name] = Belief(float(belief.factor[k]), float(belief.var[k]), prior=bool(belief.prior[k]))
    return [BilledFactors(**factors) for factors in found]


def _rate(price: ListPrice | None, name: str) -> float:
    rate: int | None = None if price is None else getattr(price, name)
    return math.nan if rate is None else float(rate)


def _price(price: ListPrice | None, name: str, factor: Belief) -> Belief | None:
    """The list price of a class as it is billed; None where none is in force."""
    rate = _rate(price, name)
    if math.isnan(rate):
        return None
    return Belief(rate * factor.mean, rate * rate * factor.var, prior=factor.prior)


def _circuit(cooldown: Cooldown, now_ns: int) -> tuple[Circuit, int | None, Cause | None]:
    if cooldown.until_ns is None:
        return "admitting", None, None
    if cooldown.until_ns == FOR_GOOD:
        return "refusing", None, cooldown.cause
    if cooldown.is_closed(now_ns):
        return "refusing", cooldown.until_ns, cooldown.cause
    return "probing", cooldown.until_ns, cooldown.cause


def _pools(
    state: State, now_ns: int, routing: Routing, asked: Sequence[PoolId]
) -> tuple[dict[PoolId, PoolBelief], dict[int, int]]:
    declared: Mapping[PoolId, object] = {pool.id: pool for pool in routing.pools}
    beliefs = window_beliefs(state, now_ns, routing, [pool for pool in asked if pool in declared])
    found: dict[PoolId, PoolBelief] = {}
    for pool in asked:
        index = state.pools.get(pool)
        cooldown = Cooldown() if index is None else state.pool_cooldown[index]
        cooling = cooldown.is_closed(now_ns)
        p_exhaust, exhausts_at_ns = beliefs.together.get(pool, (None, None))
        found[pool] = PoolBelief(
            windows=tuple(beliefs.windows.get(pool, ())),
            p_exhaust=p_exhaust,
            exhausts_at_ns=exhausts_at_ns,
            cooldown_until_ns=cooldown.until_ns if cooling else None,
            cooldown_cause=cooldown.cause if cooling else None,
        )
    return found, beliefs.statuses
