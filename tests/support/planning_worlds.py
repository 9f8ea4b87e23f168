"""Random worlds to plan in, for properties: any config, any beliefs, any local values, by one seed."""

from random import Random
from typing import NamedTuple

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from support.planning import HOUR_NS, NOW_NS, S, ask, flat, of_pool, of_target, routing, target, used, window
from tidegate.events.config import DatedPrice, Pool, Routing, Target, VariantPrice
from tidegate.events.decision import Ask, LocalView, WindowUse
from tidegate.events.snapshots import Belief, BilledFactors, RateSnapshot
from tidegate.events.types import PoolId, WindowId

FAIR = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes says nothing on a shared machine."""

PERIOD_NS = NOW_NS - NOW_NS % HOUR_NS
TIERS = ["flex", "priority"]
WINDOWS = window("5h", "tokens", 20_000), window("week", "nanousd", 2 * 10**8)


class World(NamedTuple):
    """Everything a decision reads."""

    routing: Routing
    snapshots: dict[str, RateSnapshot]
    ask: Ask
    local: dict[str, LocalView]


def worlds() -> st.SearchStrategy[World]:
    """A route over one to six targets, beliefs of some of them, local values of some, an ask.

    Drawn from one seed: drawing every field by itself takes fifty times as long.
    """
    return st.integers(0, 2**32).map(world_of)


def world_of(seed: int) -> World:
    """The world of a seed."""
    r = Random(seed)
    names = [f"t{n}" for n in range(r.randint(1, 6))]
    config = routing(
        [_target(r, name) for name in names],
        [flat("flat", *WINDOWS), Pool(id=PoolId("metered"), windows=WINDOWS)],
        grades={name: r.choice([0, 0, 1]) for name in names},
        priorities={name: r.randint(-1, 1) for name in names},
        strategy=r.choice(["cheapest", "cheapest", "declared"]),
        time_value_nanousd_per_s=r.choice([0, 12_345]),
        max_cost_nanousd=r.choice([None, None, 10**9]),
        max_ttft_p90_ms=r.choice([None, None, 800]),
        allow_downgrade=r.choice([False, True]),
    )
    found = [_target_snapshot(r, name) for name in names if r.random() < 0.7]
    found += [_pool_snapshot(r, name) for name in ("flat", "metered") if r.random() < 0.7]
    asked = ask(
        input_tokens=r.choice([0, 1, 1_000, r.randint(0, 20_000)]),
        max_output_tokens=r.choice([None, 1, r.randint(1, 9_000)]),
        vision=r.random() < 0.1,
    )
    local = {name: _local(r) for name in names if r.random() < 0.6}
    return World(config, {each.subject: each for each in found}, asked, local)


def tiered_worlds() -> st.SearchStrategy[World]:
    """The same, where targets have prices for service tiers, and of some a tier is asked."""
    return st.integers(0, 2**32).map(tiered_world_of)


def tiered_world_of(seed: int) -> World:
    """The world of a seed, with service tiers."""
    world, r = world_of(seed), Random(~seed)
    targets = tuple(_tiered(r, each) for each in world.routing.targets)
    asked = tuple((each.id, r.choice(TIERS)) for each in targets if r.random() < 0.8)
    return world._replace(
        routing=msgspec.structs.replace(world.routing, targets=targets),
        ask=msgspec.structs.replace(world.ask, service_tiers=asked),
    )


def ailing_worlds() -> st.SearchStrategy[World]:
    """The same, where some targets are believed to fail too often."""
    return st.integers(0, 2**32).map(ailing_world_of)


def ailing_world_of(seed: int) -> World:
    """The world of a seed, where some targets are ejected."""
    world, r = world_of(seed), Random(~seed)
    snapshots = {
        subject: each
        if each.target is None
        else msgspec.structs.replace(
            each, target=msgspec.structs.replace(each.target, ejected=r.random() < 0.4)
        )
        for subject, each in world.snapshots.items()
    }
    route = msgspec.structs.replace(world.routing.routes[0], avoid_ejected=r.random() < 0.8)
    routing = msgspec.structs.replace(world.routing, routes=(route,))
    return world._replace(routing=routing, snapshots=snapshots)


def billed_worlds() -> st.SearchStrategy[World]:
    """Worlds with service tiers, where bills say what is charged of a list price."""
    return st.integers(0, 2**32).map(billed_world_of)


def billed_world_of(seed: int) -> World:
    """The world of a seed, with service tiers and factors."""
    world, r = tiered_world_of(seed), Random(~seed * 3)
    told = {
        subject: msgspec.structs.replace(
            each,
            target=msgspec.structs.replace(
                each.target,
                billed=BilledFactors(
                    input_uncached=_belief(r, 2.0), cache_read=_belief(r, 2.0), output=_belief(r, 2.0)
                ),
            ),
        )
        for subject, each in world.snapshots.items()
        if each.target is not None and r.random() < 0.8
    }
    return world._replace(snapshots={**world.snapshots, **told})


def _tiered(r: Random, target: Target) -> Target:
    """Its prices, some with prices of tiers and of their long prompts, some followed by others that hold later."""
    places = {
        (r.choice([None, *TIERS]), r.choice([None, r.randint(1, 10_000)])) for _ in range(r.randint(0, 5))
    }
    variants = tuple(
        VariantPrice(
            service_tier=tier,
            above_input_tokens=mark,
            input_uncached=r.choice([None, r.randint(0, 10**11)]),
            cache_read=r.choice([None, r.randint(0, 10**11)]),
            output=r.choice([None, r.randint(0, 10**11)]),
        )
        for tier, mark in sorted(places, key=str)
        if (tier, mark) != (None, None)
    )
    tiered = msgspec.structs.replace(target.prices[0], variants=variants)
    later = msgspec.structs.replace(target.prices[0], from_ns=r.choice([1, NOW_NS, NOW_NS + 1]))
    return msgspec.structs.replace(target, prices=r.choice([(tiered,), (tiered,), (tiered, later)]))


def _target(r: Random, name: str) -> Target:
    listed = [r.choice([*[r.randint(0, 10**11)] * 9, 0, 10**9, None]) for _ in range(3)]
    return target(
        name,
        (DatedPrice(input_uncached=listed[0], cache_read=listed[1], output=listed[2]),),
        pool=r.choice([None, "flat", "metered"]),
        dialect=r.choice([*["openai"] * 12, "anthropic"]),
        context_window=r.choice([None, None, 20_000]),
        max_output_tokens=r.choice([None, None, 4_000]),
        vision=r.random() < 0.8,
        max_in_flight=r.choice([None, None, 2]),
        enabled=r.random() < 0.95,
    )


def _belief(r: Random, scale: float) -> Belief | None:
    value = r.choice([0.0, 5e-324, scale, r.random() * scale, r.random() * scale, -1.0, 1e300])
    return r.choice([None, Belief(value, 1.0), Belief(value, 1.0, prior=True)])


def _until_ns(r: Random) -> int | None:
    return r.choice([*[None] * 8, NOW_NS, NOW_NS + r.randint(-9, 9) * S])


def _target_snapshot(r: Random, name: str) -> RateSnapshot:
    return of_target(
        name,
        version=r.randint(1, 99),
        price_input_uncached=_belief(r, 1e11),
        price_output=_belief(r, 1e11),
        ttft_ms=_belief(r, 5_000.0),
        ttft_p90_ms=r.choice([None, 800.0, r.random() * 1_000]),
        output_tokens_per_s=_belief(r, 100.0),
        output_tokens=_belief(r, 3_000.0),
        success=_belief(r, 1.0),
        circuit=r.choice([*["admitting"] * 8, "refusing", "probing"]),
        circuit_until_ns=_until_ns(r),
        circuit_cause="unavailable",
    )


def _pool_snapshot(r: Random, name: str) -> RateSnapshot:
    beliefs = [
        used(
            each.id,
            r.choice([0, each.limit, *[r.randint(0, each.limit // 2)] * 3]),
            each.limit,
            period_start_ns=r.choice([None, PERIOD_NS, PERIOD_NS, PERIOD_NS - HOUR_NS]),
            p_exhaust=r.choice([None, 0.0, r.random()]),
            use_p90=r.choice([None, r.random() * 5_000]),
            shadow_nanousd=r.choice([0.0, r.random() * 1e4]),
        )
        for each in WINDOWS
        if r.random() < 0.9
    ]
    return of_pool(name, *beliefs, version=r.randint(1, 99), cooldown_until_ns=_until_ns(r))


def _local(r: Random) -> LocalView:
    uses = [
        WindowUse(
            WindowId(r.choice(["5h", "week"])),
            r.choice([PERIOD_NS, PERIOD_NS - HOUR_NS]),
            r.randint(0, 9_000),
        )
        for _ in range(r.randint(0, 2))
    ]
    return LocalView(
        disabled=r.choice([*[None] * 12, True, False]),
        in_flight=r.choice([0, 0, 1, 2]),
        uses=tuple(uses),
        refusing_until_ns=_until_ns(r),
        pool_until_ns=_until_ns(r),
        session_prompt_tokens=r.choice([None, 0, r.randint(0, 9_000)]),
        session_cached_tokens=r.choice([None, 0, r.randint(0, 9_000)]),
        session_at_ns=r.choice([None, NOW_NS - r.randint(0, 600) * S]),
        tried_at_ns=r.choice([None, None, NOW_NS - r.randint(0, 3) * S]),
    )
