"""CPU time of the planner's part of a request, in several situations: `python tests/bench/bench_decide.py`.

A decision with its local values, its encoding, its demand, and what the overlay is told of its attempt.
"""

import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.events.clock import SystemClock
from tidegate.events.config import Candidate, DatedPrice, Pool, Route, Routing, Target, Window
from tidegate.events.decision import Ask, DecisionMade, WindowUse
from tidegate.events.ids import IdSource
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.signals import AttemptStarted, UsageSettled
from tidegate.events.snapshots import (
    Belief,
    PoolBelief,
    RateSnapshot,
    TargetBelief,
    WindowBelief,
    pool_subject,
    target_subject,
)
from tidegate.events.types import AttemptId, DecisionId, PoolId, RouteName, TargetId, WindowId
from tidegate.planner.decide import decide_on
from tidegate.planner.demand import demand_of
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner
from tidegate.planner.rng import SplitMix64
from tidegate.planner.view import View, view_of
from tidegate.runtime.gateway_planner import GatewayPlanner

NOW_NS = 1_800_000_000_000_000_000
HOUR_NS = 3_600_000_000_000
GOAL_US = {"8 metered": ("p50", 15.0), "8 with windows": ("p50", 15.0), "64 with windows": ("p99", 150.0)}
ROUNDS = 4_000


class Situation(NamedTuple):
    """A route, what is believed of it, and what this worker knows."""

    view: View
    overlay: Overlay


def routing_of(count: int, flat: frozenset[int]) -> Routing:
    """`flat` pools bill a fee and have two windows, the others bill tokens and have none."""
    pools = tuple(
        Pool(
            id=PoolId(f"pool-{n:02}"),
            billing="flat" if n in flat else "per_token",
            windows=(
                Window(id=WindowId("5h"), unit="tokens", limit=50_000_000, duration_s=18_000),
                Window(id=WindowId("week"), unit="requests", limit=9_000, duration_s=604_800),
            )
            if n in flat
            else (),
        )
        for n in range(count)
    )
    targets = tuple(
        Target(
            id=TargetId(f"target-{n:02}"),
            dialect="openai",
            base_url="http://127.0.0.1:9",
            model="m",
            pool=PoolId(f"pool-{n:02}"),
            context_window=200_000,
            prices=(DatedPrice(input_uncached=3_000_000_000 + n, output=15_000_000_000),),
        )
        for n in range(count)
    )
    route = Route(
        name=RouteName("code"),
        candidates=tuple(Candidate(target=target.id) for target in targets),
        time_value_nanousd_per_s=1_000,
    )
    return Routing(pools=pools, targets=targets, routes=(route,))


def view_with_beliefs(routing: Routing) -> View:
    """The view with a snapshot of every subject."""
    digest = routing.digest()
    snapshots: dict[str, RateSnapshot] = {}
    for n, target in enumerate(routing.targets):
        subject = target_subject(target.id)
        snapshots[subject] = RateSnapshot(
            subject=subject,
            version=n + 1,
            at_ns=NOW_NS,
            config=digest,
            evidence=n,
            target=TargetBelief(
                ttft_ms=Belief(400.0 + n, 1.0),
                output_tokens_per_s=Belief(60.0, 1.0),
                output_tokens=Belief(700.5, 9.0),
                success=Belief(0.99, 0.001),
            ),
        )
        windows = tuple(
            WindowBelief(
                window=window.id,
                period_start_ns=NOW_NS - HOUR_NS,
                resets_at_ns=None,
                used=window.limit // 3,
                limit=window.limit,
                p_exhaust=0.25,
                use_p90=1.5,
                shadow_nanousd=12.5,
            )
            for window in routing.pools[n].windows
        )
        subject = pool_subject(target.pool_id)
        snapshots[subject] = RateSnapshot(
            subject=subject,
            version=n + 1,
            at_ns=NOW_NS,
            config=digest,
            evidence=n,
            pool=PoolBelief(windows=windows),
        )
    return view_of(routing, snapshots)


def situation(count: int, flat: frozenset[int], busy: frozenset[int]) -> Situation:
    """Three attempts in flight on every `busy` target, with uses where its pool has windows, and a warm session."""
    routing = routing_of(count, flat)
    overlay = Overlay("gw@1")
    for n in sorted(busy):
        target = routing.targets[n]
        uses = (WindowUse(WindowId("5h"), NOW_NS - HOUR_NS, 9_000),) if n in flat else ()
        for attempt in range(3):
            overlay.started(AttemptId(f"a{n}-{attempt}"), target.id, target.pool_id, uses)
        overlay.remember("s", target.id, Tokens(1_000, 9_000, output=1), NOW_NS)
    return Situation(view_with_beliefs(routing), overlay)


def situations() -> dict[str, Situation]:
    """What a worker meets: nothing but prices, some pools with windows, a long route."""
    none = frozenset[int]()
    fourth = frozenset(range(0, 64, 4))
    return {
        "8 metered": situation(8, none, frozenset({0})),
        "8 with windows": situation(8, frozenset({0, 4}), frozenset({0, 4})),
        "64 with windows": situation(64, fourth, fourth),
    }


ASK = Ask(
    request="r",
    tenant="t",
    key="k",
    route="code",
    dialect="openai",
    session="s",
    input_tokens=12_000,
    max_output_tokens=256,
)


def reference() -> int:
    """A fixed piece of plain Python: how fast this machine is at this moment."""
    total = 0
    for n in range(400):
        total += n * 3
    return total


def decided(of: Situation, ask: Ask, seed: int) -> DecisionMade:
    """A decision with its local values, as the planner makes it."""
    facts = of.view.route(ask.route)
    views = of.overlay.locals_of(
        facts.places, ask.session, NOW_NS, of.view.switches, NOW_NS, ask.input_tokens
    )
    return decide_on(
        facts,
        ask,
        views,
        now_ns=NOW_NS,
        seed=seed,
        decision=DecisionId("d"),
        config=of.view.digest,
        code="bench",
    )


def measure(work: Callable[[int], object]) -> dict[str, float]:
    """CPU microseconds of each round and of the reference beside it: preemption by others does not count,
    a busy sibling of the core does, and shows in the reference."""
    taken: list[float] = []
    beside: list[float] = []
    for n in range(ROUNDS):
        begun = time.thread_time_ns()
        work(n)
        worked = time.thread_time_ns()
        reference()
        taken.append((worked - begun) / 1_000)
        beside.append((time.thread_time_ns() - worked) / 1_000)
    p50, floor = statistics.median(taken), statistics.median(beside)
    return {
        "min_us": min(taken),
        "p50_us": p50,
        "p99_us": statistics.quantiles(taken, n=100)[98],
        "reference_p50_us": floor,
        "ratio_p50": p50 / floor,
    }


def request_of(of: Situation) -> Callable[[int], object]:
    """The planner's whole part of one request: plan, demand, attempt started and settled."""
    clock = SystemClock()
    ids = IdSource(clock, random.Random(1).getrandbits)
    planner = GatewayPlanner(Planner(of, of.overlay, clock, ids, SplitMix64(1), "bench"), of.overlay, clock)
    chosen = next(each for each in decided(of, ASK, 1).candidates if each.rank == 0)
    started = AttemptStarted(
        attempt=AttemptId("a"),
        target=chosen.target,
        pool=chosen.pool,
        route="code",
        index=0,
        input_tokens=12_000,
        reserve_output_tokens=256,
        windows=chosen.uses,
    )
    settled = UsageSettled(
        attempt=AttemptId("a"),
        target=chosen.target,
        pool=chosen.pool,
        route="code",
        basis="reported",
        outcome="completed",
        tokens=Tokens(3_000, 9_000, output=200),
        windows=chosen.uses,
    )

    def work(n: int) -> None:
        planner.demand(planner.plan(ASK))
        planner.attempt_started(started, n)
        planner.attempt_settled(settled, n, "s")
        if n % 64 == 63:  # snapshots cover what they have seen
            of.overlay.applied(partition_of(chosen.pool), {"gw@1": n})

    return work


def steps(of: Situation) -> dict[str, Callable[[int], object]]:
    """What is measured of a situation; the whole request last, because it leaves uses behind."""
    unlimited = msgspec.structs.replace(ASK, max_output_tokens=None)
    decision = decided(of, ASK, 1)
    facts = of.view.route(ASK.route)
    encode = msgspec.json.Encoder().encode
    return {
        "decide": lambda n: decided(of, ASK, n),
        "decide, no output limit": lambda n: decided(of, unlimited, n),
        "encode": lambda _: encode(decision),
        "demand": lambda _: demand_of(decision, facts),
        "whole request": request_of(of),
    }


def main() -> None:
    """Print the table and write `build/bench_decide.json`."""
    results: dict[str, dict[str, float]] = {}
    print(f"{'':42} {'min us':>8} {'p50 us':>8} {'p99 us':>8} {'reference':>10} {'ratio':>6}  goal")
    for name, of in situations().items():
        for step, work in steps(of).items():
            found = results[f"{name}: {step}"] = measure(work)
            figures = " ".join(
                f"{found[key]:>{width}.{digits}f}"
                for key, width, digits in (
                    ("min_us", 8, 1),
                    ("p50_us", 8, 1),
                    ("p99_us", 8, 1),
                    ("reference_p50_us", 10, 1),
                    ("ratio_p50", 6, 2),
                )
            )
            figure, goal = GOAL_US[name]
            told = f"{figure} <= {goal:.0f} us" if step == "decide" else ""
            print(f"{name + ': ' + step:42} {figures}  {told}")
        print(f"{name}: {len(msgspec.json.encode(decided(of, ASK, 1)))} bytes")
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "bench_decide.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
