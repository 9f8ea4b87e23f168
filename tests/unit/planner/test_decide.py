"""Decide: promises that hold for every config, belief, ask and local value."""

import subprocess
import sys
from pathlib import Path

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from support.planning import ask, of_target, plan, priced, routing, target, verdict, world
from support.planning_worlds import FAIR, World, ailing_worlds, worlds
from tidegate.events.config import Candidate, Routing, Target
from tidegate.events.decision import DecisionMade
from tidegate.events.snapshots import Belief
from tidegate.events.types import TargetId
from tidegate.planner.decide import DECIDE_VERSION
from tidegate.planner.view import view_of

WORLDS = worlds()
AILING = ailing_worlds()


def decided(world: World, seed: int = 7) -> DecisionMade:
    return plan(view_of(world.routing, world.snapshots), world.ask, world.local, seed=seed)


def with_target(config: Routing, added: Target, at: int) -> Routing:
    route = config.routes[0]
    candidates = (*route.candidates[:at], Candidate(target=added.id), *route.candidates[at:])
    return msgspec.structs.replace(
        config,
        targets=(*config.targets, added),
        routes=(msgspec.structs.replace(route, candidates=candidates),),
    )


@FAIR
@given(WORLDS)
def test_the_same_inputs_give_the_same_bytes(world: World) -> None:
    assert msgspec.json.encode(decided(world)) == msgspec.json.encode(decided(world))


@FAIR
@given(WORLDS)
def test_ranks_are_a_total_order_over_the_admitted_and_the_first_is_chosen(world: World) -> None:
    decision = decided(world)
    ranked = sorted(each.rank for each in decision.candidates if each.rank is not None)
    assert ranked == list(range(len(ranked)))
    assert [each.target for each in decision.candidates if each.rank == 0] == (
        [] if decision.chosen is None else [decision.chosen]
    )


@FAIR
@given(WORLDS)
def test_every_candidate_of_the_route_has_exactly_one_verdict(world: World) -> None:
    decision = decided(world)
    assert [each.target for each in decision.candidates] == [
        each.target for each in world.routing.routes[0].candidates
    ]
    for each in decision.candidates:
        assert (each.reason is None) == (each.rank is not None) == (each.price is not None)


@FAIR
@given(WORLDS)
def test_a_refusal_lists_every_candidate_with_its_reason(world: World) -> None:
    decision = decided(world)
    if decision.chosen is None:
        assert len(decision.candidates) == len(world.routing.targets)
        assert all(each.reason is not None for each in decision.candidates)
        times = [each.retry_at_ns for each in decision.candidates if each.retry_at_ns is not None]
        assert decision.retry_at_ns == min(times, default=None)


@FAIR
@given(WORLDS | AILING)
def test_cheapest_never_ranks_a_dearer_one_before_a_cheaper_one_of_its_grade(world: World) -> None:
    assume(world.routing.routes[0].strategy == "cheapest")
    ranked = sorted(
        (each for each in decided(world).candidates if each.rank is not None), key=lambda each: each.rank or 0
    )
    keys = [(each.grade, each.ejected, each.price.total if each.price else 0) for each in ranked]
    assert keys == sorted(keys)


@FAIR
@given(WORLDS, st.integers(0, 6), st.booleans())
def test_a_candidate_that_is_not_admitted_never_changes_the_plan(
    world: World, at: int, other_dialect: bool
) -> None:
    added = target(
        "added", priced(0, 0), enabled=other_dialect, dialect="anthropic" if other_dialect else "openai"
    )
    more = world._replace(routing=with_target(world.routing, added, at))
    before, after = decided(world), decided(more)
    assert verdict(after, "added").reason in {"disabled", "dialect"}
    assert [each for each in after.candidates if each.target != "added"] == list(before.candidates)
    assert after.chosen == before.chosen


@FAIR
@given(WORLDS, st.integers(0, 6))
def test_a_candidate_better_in_every_part_wins(world: World, at: int) -> None:
    assume(world.routing.routes[0].strategy == "cheapest")
    before = decided(world)
    assume(before.chosen is not None)
    added = target("added", priced(0, 0))
    best = of_target("added", success=Belief(1, 0), ttft_ms=Belief(0, 0), output_tokens_per_s=Belief(1e12, 0))
    more = world._replace(
        routing=with_target(world.routing, added, at), snapshots={**world.snapshots, best.subject: best}
    )
    after = decided(more)
    price = verdict(after, "added").price
    assert price is not None
    assert price.total == 0
    chosen = verdict(after, after.chosen or "")
    assert chosen.price is not None
    assert chosen.price.total == 0


@FAIR
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1), st.floats(0, 1), st.integers(0, 10**9))
def test_a_cheaper_and_surer_candidate_is_never_ranked_lower(
    cost: int, more: int, success: float, less: float, third: int
) -> None:
    """`b` costs no more and fails no more often than `a`; retries and rounding must not turn that round."""
    config = routing([target(name) for name in "abc"])
    snapshots = {
        "a": (cost + more, success * less),
        "b": (cost, success),
        "c": (third, 0.5),
    }
    view = world(
        config,
        *[
            of_target(
                name,
                price_input_uncached=Belief(price * 1_000, 0),
                price_output=Belief(0, 0),
                success=Belief(sure, 0),
            )
            for name, (price, sure) in snapshots.items()
        ],
    )
    decision = plan(view)
    a, b = verdict(decision, "a").price, verdict(decision, "b").price
    assert a is not None
    assert b is not None
    assert b.total <= a.total


@FAIR
@given(WORLDS)
def test_renaming_the_tenant_renames_it_in_the_decision_and_changes_nothing_else(world: World) -> None:
    renamed = msgspec.structs.replace(world.ask, tenant="other", key="k-9", session="s-9", request="r-9")
    after = decided(world._replace(ask=renamed))
    assert after.ask == renamed
    assert msgspec.structs.replace(after, ask=world.ask) == decided(world)


@FAIR
@given(WORLDS, st.integers(0, 2**63 - 1))
def test_the_seed_is_recorded_and_draws_nothing_yet(world: World, seed: int) -> None:
    decision = decided(world, seed)
    assert decision.seed == seed
    assert msgspec.structs.replace(decision, seed=7) == decided(world)


@FAIR
@given(WORLDS)
def test_what_was_read_is_recorded(world: World) -> None:
    view = view_of(world.routing, world.snapshots)
    decision = decided(world)
    assert (decision.config, decision.decide_version) == (view.digest, DECIDE_VERSION)
    for each in decision.candidates:
        of_target_, of_pool_ = (
            world.snapshots.get(f"target:{each.target}"),
            world.snapshots.get(f"pool:{each.pool}"),
        )
        assert each.target_version == (None if of_target_ is None else of_target_.version)
        assert each.pool_version == (None if of_pool_ is None else of_pool_.version)
        if each.target in world.local:
            assert each.local == world.local[TargetId(each.target)]


PROGRAM = """
import sys, msgspec
from support.planning import ask, of_target, plan, priced, routing, target, world
config = routing([target(f"t{n}", priced(1, 1)) for n in range(20)])
view = world(config, *[of_target(f"t{n}", version=n + 1) for n in range(20)])
sys.stdout.buffer.write(msgspec.json.encode(plan(view, ask())))
"""


def test_the_hash_seed_of_the_process_changes_no_byte() -> None:
    tests = str(Path(__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": tests},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    config = routing([target(f"t{n}", priced(1, 1)) for n in range(20)])
    view = world(config, *[of_target(f"t{n}", version=n + 1) for n in range(20)])
    assert outputs == {msgspec.json.encode(plan(view, ask()))}
