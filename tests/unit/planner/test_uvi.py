"""UVI by policy: it may order and refuse, by the worst window, until that window begins anew; it decides nothing unasked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planning import (
    HOUR_NS,
    NOW_NS,
    S,
    ask,
    flat,
    of_pool,
    of_target,
    plan,
    priced,
    routing,
    target,
    verdict,
    window,
    world,
)
from tidegate.events.config import Pool, Routing, UviBlocks
from tidegate.events.decision import DecisionMade
from tidegate.events.snapshots import Belief, RateSnapshot, UviStatus, WindowBelief
from tidegate.events.types import WindowId
from tidegate.planner.explain import explain
from tidegate.planner.replay import replay, verify
from tidegate.planner.uvi import DEMOTED, LAST, PROMOTED, USUAL, bucket_of, pool_uvi

END_NS = NOW_NS - NOW_NS % HOUR_NS + HOUR_NS
STATUSES: tuple[UviStatus, ...] = ("unknown", "surplus", "ok", "stressed", "critical", "exhausted")


def believed(status: UviStatus, name: str = "w", ends_ns: int | None = END_NS, **fields: Any) -> WindowBelief:
    return WindowBelief(
        window=WindowId(name),
        period_start_ns=END_NS - HOUR_NS,
        resets_at_ns=ends_ns,
        used=1,
        limit=9,
        status=status,
        **fields,
    )


def two(strategy: str = "adaptive", blocks: UviBlocks | None = None, **route: Any) -> Routing:
    """A flat plan `a` and a metered `b`."""
    targets = [target("a", pool="p"), target("b", priced(900, 900))]
    pools = [flat("p", window("w", "requests", 9))]
    return routing(targets, pools, strategy=strategy, uvi_blocks=blocks, **route)


def ranks(decision: DecisionMade) -> list[str]:
    ranked = [each for each in decision.candidates if each.rank is not None]
    return [each.target for each in sorted(ranked, key=lambda each: each.rank or 0)]


@pytest.mark.parametrize(
    ("status", "order"),
    [
        ("unknown", "ab"),
        ("surplus", "ab"),
        ("ok", "ab"),
        ("stressed", "ba"),
        ("critical", "ba"),
        ("exhausted", "ba"),
    ],
)
def test_a_stressed_pool_comes_after_one_on_schedule_until_its_window_begins_anew(
    status: UviStatus, order: str
) -> None:
    view = world(two(), of_pool("p", believed(status)))
    assert ranks(plan(view)) == list(order)
    assert ranks(plan(view, now_ns=END_NS)) == ["a", "b"]


def test_a_pool_in_surplus_comes_before_all_others_whatever_they_cost_and_however_fast_they_are() -> None:
    config = routing(
        [target("slow", pool="p"), target("fast", priced(1, 1))],
        [flat("p", window("w", "requests", 9))],
        strategy="adaptive",
    )
    slow = of_target("slow", ttft_ms=belief(9_000.0))
    assert ranks(plan(world(config, slow, of_pool("p", believed("surplus"))))) == ["slow", "fast"]
    assert ranks(plan(world(config, slow, of_pool("p", believed("ok"))))) == ["fast", "slow"]


def belief(mean: float) -> Belief:
    return Belief(mean, 1.0)


def test_within_a_bucket_the_faster_goes_first_then_the_cheaper_then_as_declared() -> None:
    targets = [target("dear", priced(9, 9)), target("cheap", priced(1, 1)), target("fast", priced(9, 9))]
    config = routing(targets, strategy="adaptive")
    assert ranks(plan(world(config, of_target("fast", ttft_ms=belief(10.0))))) == ["fast", "cheap", "dear"]


@pytest.mark.parametrize("strategy", ["cheapest", "declared"])
@pytest.mark.parametrize("status", STATUSES)
def test_without_the_policy_uvi_changes_nothing(strategy: str, status: UviStatus) -> None:
    config = two(strategy)
    made, plain = plan(world(config, of_pool("p", believed(status)))), plan(world(config))
    assert ranks(made) == ranks(plain) == ["a", "b"]


@pytest.mark.parametrize("strategy", ["cheapest", "declared", "adaptive"])
@pytest.mark.parametrize(
    ("blocks", "refused"),
    [("critical", {"critical", "exhausted"}), ("stressed", {"stressed", "critical", "exhausted"})],
)
@pytest.mark.parametrize("status", STATUSES)
def test_a_route_may_refuse_a_status_until_the_window_resets(
    strategy: str, blocks: UviBlocks, refused: set[str], status: UviStatus
) -> None:
    config = two(strategy, blocks)
    snapshot = of_pool("p", believed(status, uvi=2.25), config=config.digest())
    view = world(config, snapshot)
    made = plan(view)
    found = verdict(made, "a")
    if status not in refused:
        assert found.rank is not None
        return
    assert (found.reason, found.detail) == ("uvi", f"window w is {status} at 2.25")
    assert found.retry_at_ns == END_NS
    assert ranks(made) == ["b"]
    assert f"a uvi (window w is {status} at 2.25, retry in" in explain(made)
    assert verdict(plan(view, now_ns=END_NS), "a").rank is not None
    assert verify(made, config, {snapshot.subject: snapshot}).outcome == "identical"
    assert replay(made, config, {snapshot.subject: snapshot}) == made


def test_where_every_pool_is_refused_the_client_is_told_when_the_first_comes_again() -> None:
    config = routing(
        [target("a", pool="p"), target("b", pool="q")],
        [flat("p", window("w", "requests", 9)), flat("q", window("w", "requests", 9))],
        uvi_blocks="critical",
    )
    later = END_NS + HOUR_NS
    beliefs = [of_pool("p", believed("critical", ends_ns=later)), of_pool("q", believed("critical"))]
    made = plan(world(config, *beliefs))
    assert (made.chosen, made.retry_at_ns) == (None, END_NS)


def test_a_refusal_outlives_the_worse_of_two_windows_while_the_other_still_refuses() -> None:
    windows = window("w", "requests", 9), window("v", "requests", 9, duration_s=7_200.0)
    config = routing(
        [target("a", pool="p"), target("b", priced(1, 1))], [flat("p", *windows)], uvi_blocks="stressed"
    )
    later_ns = END_NS + HOUR_NS
    view = world(config, of_pool("p", believed("critical"), believed("stressed", "v", later_ns)))
    assert verdict(plan(view, now_ns=END_NS), "a").reason == "uvi"
    assert verdict(plan(view, now_ns=later_ns), "a").rank is not None


POOL = Pool(id=flat("p").id, windows=(window("w", "requests", 9), window("v", "requests", 9)))


@pytest.mark.parametrize(
    ("w", "v", "bucket", "until_ns"),
    [
        ("surplus", "surplus", PROMOTED, END_NS),
        ("surplus", "ok", USUAL, END_NS + S),
        ("surplus", "unknown", USUAL, END_NS + S),
        ("stressed", "ok", DEMOTED, END_NS),
        ("stressed", "stressed", DEMOTED, END_NS + S),
        ("stressed", "critical", LAST, END_NS + S),
        ("exhausted", "surplus", LAST, END_NS),
    ],
)
def test_the_worst_window_counts_and_surplus_only_where_all_are(
    w: UviStatus, v: UviStatus, bucket: int, until_ns: int
) -> None:
    found = pool_uvi(POOL, [believed(w), believed(v, "v", END_NS + S)], None)
    assert found is not None
    assert (found.bucket, found.until_ns) == (bucket, until_ns)
    assert bucket_of(found, until_ns - 1) == bucket
    assert bucket_of(found, until_ns) == USUAL


def test_a_refusal_lasts_until_all_windows_behind_it_began_anew_and_of_a_rolling_one_nobody_knows_when() -> (
    None
):
    both = [believed("stressed"), believed("critical", "v", END_NS + S)]
    found = pool_uvi(POOL, both, "stressed")
    assert found is not None
    assert (found.blocked_by, found.blocked_until_ns) == ("window w is stressed", END_NS + S)
    rolling = pool_uvi(POOL, [believed("critical", ends_ns=None)], "critical")
    assert rolling is not None
    assert (rolling.blocked_by, rolling.blocked_until_ns) == ("window w is critical", None)


def test_windows_that_the_pool_no_longer_has_say_nothing() -> None:
    assert pool_uvi(POOL, [believed("critical", "gone")], "critical") is None
    assert pool_uvi(POOL, [], "critical") is None
    assert bucket_of(None, NOW_NS) == USUAL


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=6), st.sampled_from(["adaptive", "cheapest"]))
def test_every_admitted_pool_is_ranked_once_by_bucket_and_replays_to_its_own_bytes(
    statuses: list[UviStatus], strategy: str
) -> None:
    names = [f"t{n}" for n in range(len(statuses))]
    config = routing(
        [target(name, pool=f"p-{name}") for name in names],
        [flat(f"p-{name}", window("w", "requests", 9)) for name in names],
        strategy=strategy,
        uvi_blocks="critical",
    )
    beliefs: list[RateSnapshot] = [
        of_pool(f"p-{name}", believed(status), config=config.digest())
        for name, status in zip(names, statuses, strict=True)
    ]
    made = plan(world(config, *beliefs), ask())
    order = [{"surplus": 0, "unknown": 1, "ok": 1, "stressed": 2}[statuses[int(t[1:])]] for t in ranks(made)]
    assert len(order) == sum(status not in {"critical", "exhausted"} for status in statuses)
    if strategy == "adaptive":
        assert order == sorted(order)
    assert replay(made, config, {each.subject: each for each in beliefs}) == made
