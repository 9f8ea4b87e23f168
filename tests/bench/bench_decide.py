"""CPU time of a decision with 8 and 64 candidates, overlay included: `python tests/bench/bench_decide.py`."""

import json
import statistics
import time
from pathlib import Path

from tidegate.events.config import Candidate, DatedPrice, Pool, Route, Routing, Target, Window
from tidegate.events.decision import Ask, WindowUse
from tidegate.events.money import Tokens
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
from tidegate.planner.decide import decide
from tidegate.planner.overlay import Overlay
from tidegate.planner.view import View, view_of

NOW_NS = 1_800_000_000_000_000_000
HOUR_NS = 3_600_000_000_000
GOAL_US = {8: ("p50", 25.0), 64: ("p99", 150.0)}


def routing_of(count: int) -> Routing:
    """Every fourth pool is flat with two windows."""
    pools = tuple(
        Pool(
            id=PoolId(f"pool-{n:02}"),
            billing="per_token" if n % 4 else "flat",
            windows=()
            if n % 4
            else (
                Window(id=WindowId("5h"), unit="tokens", limit=50_000_000, duration_s=18_000),
                Window(id=WindowId("week"), unit="requests", limit=9_000, duration_s=604_800),
            ),
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


def busy_overlay(routing: Routing) -> Overlay:
    """An attempt in flight on every fourth target, with uses, and a warm session there."""
    overlay = Overlay("gw@1")
    for n, target in enumerate(routing.targets):
        if n % 4 == 0:
            uses = (WindowUse(WindowId("5h"), NOW_NS - HOUR_NS, 9_000),)
            overlay.started(AttemptId(f"a{n}"), target.id, target.pool_id, uses)
            overlay.remember("s", target.id, Tokens(1_000, 9_000, output=1), NOW_NS)
    return overlay


def reference() -> int:
    """A fixed piece of plain Python: how fast this machine is at this moment."""
    total = 0
    for n in range(400):
        total += n * 3
    return total


def measure(count: int, rounds: int = 4_000) -> tuple[list[float], list[float]]:
    """CPU microseconds of each decision and of the reference beside it: preemption by others does not count,
    a busy sibling of the core does, and shows in the reference."""
    routing = routing_of(count)
    view, overlay = view_with_beliefs(routing), busy_overlay(routing)
    ask = Ask(
        request="r", tenant="t", key="k", route="code", dialect="openai", session="s", input_tokens=12_000
    )
    taken: list[float] = []
    beside: list[float] = []
    for n in range(rounds):
        begun = time.thread_time_ns()
        local_of = overlay.locals_of("s", NOW_NS, view.switches)
        decide(view, ask, local_of, now_ns=NOW_NS, seed=n, decision=DecisionId("d"), code="bench")
        decided = time.thread_time_ns()
        reference()
        taken.append((decided - begun) / 1_000)
        beside.append((time.thread_time_ns() - decided) / 1_000)
    return taken, beside


def main() -> None:
    """Print the table and write `build/bench_decide.json`."""
    results: dict[str, dict[str, float]] = {}
    print(
        f"{'candidates':>10} {'min us':>8} {'p50 us':>8} {'p99 us':>8} {'reference':>10} {'ratio':>6}  goal"
    )
    for count, (figure, goal) in GOAL_US.items():
        taken, beside = measure(count)
        low, p50, p99 = min(taken), statistics.median(taken), statistics.quantiles(taken, n=100)[98]
        floor = statistics.median(beside)
        results[str(count)] = {
            "min_us": low,
            "p50_us": p50,
            "p99_us": p99,
            "reference_p50_us": floor,
            "ratio_p50": p50 / floor,
        }
        print(
            f"{count:>10} {low:>8.1f} {p50:>8.1f} {p99:>8.1f} {floor:>10.1f} {p50 / floor:>6.2f}"
            f"  {figure} <= {goal:.0f} us"
        )
    build = Path("build")
    build.mkdir(exist_ok=True)
    (build / "bench_decide.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
