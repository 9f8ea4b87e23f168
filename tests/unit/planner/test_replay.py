"""Replay: a recorded decision comes out again to the byte, and a difference is named."""

import msgspec
import pytest
from hypothesis import given

from support.planning import ask, of_pool, of_target, plan, priced, routing, target, world
from support.planning_worlds import FAIR, World, ailing_worlds, billed_worlds, tiered_worlds, worlds
from tidegate.events.config import Routing
from tidegate.events.decision import DecisionMade, LocalView, PriceParts
from tidegate.events.snapshots import RateSnapshot
from tidegate.planner.decide import DECIDE_VERSION
from tidegate.planner.replay import InputMissing, Verification, first_difference, replay, verify
from tidegate.planner.view import view_of

CONFIG = routing([target("a", priced(1, 1)), target("b", priced(2, 2))])
SNAPSHOTS = {each.subject: each for each in (of_target("a", version=3), of_pool("b", version=4))}


def recorded() -> DecisionMade:
    return plan(view_of(CONFIG, SNAPSHOTS), local={"b": LocalView(disabled=True)})


@FAIR
@given(worlds() | tiered_worlds() | ailing_worlds() | billed_worlds())
def test_a_decision_replays_to_the_same_bytes_after_a_round_trip_through_the_log(world: World) -> None:
    made = plan(view_of(world.routing, world.snapshots), world.ask, world.local)
    written = msgspec.json.encode(msgspec.structs.replace(made, took_ns=12_345))
    read = msgspec.json.decode(written, type=DecisionMade)
    routing = msgspec.json.decode(msgspec.json.encode(world.routing), type=Routing)
    snapshots = msgspec.json.decode(msgspec.json.encode(world.snapshots), type=dict[str, RateSnapshot])
    assert msgspec.json.encode(replay(read, routing, snapshots)) == written
    assert verify(read, routing, snapshots) == Verification("identical")


def test_a_snapshot_that_was_not_read_is_not_needed_and_does_not_disturb() -> None:
    later = of_target("b", version=9)
    assert verify(recorded(), CONFIG, {**SNAPSHOTS, later.subject: later}).outcome == "identical"


def test_a_changed_verdict_is_reported_by_its_field() -> None:
    made = recorded()
    first = msgspec.structs.replace(made.candidates[0], price=PriceParts(cash=1))
    tampered = msgspec.structs.replace(made, candidates=(first, *made.candidates[1:]))
    assert verify(tampered, CONFIG, SNAPSHOTS) == Verification(
        "different", "candidates[0].price.cash: 1 != 1100000"
    )


@FAIR
@given(worlds())
def test_a_decision_from_before_service_tiers_replays_to_its_own_bytes(world: World) -> None:
    made = msgspec.structs.replace(
        plan(view_of(world.routing, world.snapshots), world.ask, world.local), decide_version=3
    )
    again = replay(made, world.routing, world.snapshots)
    assert msgspec.json.encode(again) == msgspec.json.encode(made)
    assert verify(made, world.routing, world.snapshots) == Verification("identical")


@FAIR
@given(billed_worlds())
def test_a_decision_from_before_factors_replays_to_its_own_bytes_on_snapshots_that_tell_them(
    world: World,
) -> None:
    """A gateway that was older than its estimator did not see them."""
    replays_though_it_did_not_see(world, 4, billed=None)


@FAIR
@given(ailing_worlds())
def test_a_decision_from_before_ejection_was_read_replays_to_its_own_bytes(world: World) -> None:
    """The snapshots that it read may have told of it."""
    replays_though_it_did_not_see(world, 3, ejected=False)


def replays_though_it_did_not_see(world: World, decide_version: int, **unseen: object) -> None:
    """A decision of this version on snapshots whose targets told nothing of these fields, replayed on all they tell."""
    seen = {
        subject: each
        if each.target is None
        else msgspec.structs.replace(each, target=msgspec.structs.replace(each.target, **unseen))
        for subject, each in world.snapshots.items()
    }
    made = msgspec.structs.replace(
        plan(view_of(world.routing, seen), world.ask, world.local), decide_version=decide_version
    )
    again = replay(made, world.routing, world.snapshots)
    assert msgspec.json.encode(again) == msgspec.json.encode(made)
    assert verify(made, world.routing, world.snapshots) == Verification("identical")


def test_a_decision_of_before_is_told_when_it_comes_out_otherwise() -> None:
    """Its tier was not part of what it read: one that was, is another decision."""
    made = msgspec.structs.replace(recorded(), decide_version=3, chosen=None)
    assert verify(made, CONFIG, SNAPSHOTS).outcome == "different"


@pytest.mark.parametrize("version", [1, 2, DECIDE_VERSION + 1])
def test_a_decision_of_another_version_is_replayed_by_this_one(version: int) -> None:
    other = msgspec.structs.replace(recorded(), decide_version=version)
    assert replay(other, CONFIG, SNAPSHOTS).decide_version == DECIDE_VERSION


def test_a_decision_of_another_version_is_counted_apart() -> None:
    other = msgspec.structs.replace(recorded(), decide_version=DECIDE_VERSION + 1)
    assert verify(other, CONFIG, SNAPSHOTS).outcome == "other_version"


@pytest.mark.parametrize(
    ("snapshots", "missing"),
    [
        ({}, "target:a version 3 was read, none is at hand"),
        ({"target:a": of_target("a", version=4)}, "target:a version 3 was read, version 4 is at hand"),
        ({"target:a": of_target("a", version=3)}, "pool:b version 4 was read, none is at hand"),
    ],
)
def test_a_missing_snapshot_is_named_and_never_guessed(
    snapshots: dict[str, RateSnapshot], missing: str
) -> None:
    verification = verify(recorded(), CONFIG, snapshots)
    assert verification.outcome == "input_missing"
    assert missing in (verification.detail or "")


def test_another_config_is_refused() -> None:
    other = routing([target("a", priced(1, 2)), target("b", priced(2, 2))])
    with pytest.raises(InputMissing, match="read config sha256:"):
        replay(recorded(), other, SNAPSHOTS)


def test_a_config_without_the_route_is_refused() -> None:
    config = Routing()
    made = msgspec.structs.replace(recorded(), config=config.digest())
    with pytest.raises(InputMissing, match="has no route 'code'"):
        replay(made, config, SNAPSHOTS)


def test_a_candidate_without_recorded_local_values_is_refused() -> None:
    made = recorded()
    with pytest.raises(InputMissing, match="no local values of target 'b'"):
        replay(msgspec.structs.replace(made, candidates=made.candidates[:1]), CONFIG, SNAPSHOTS)


@pytest.mark.parametrize(
    ("a", "b", "difference"),
    [
        (1, 1, None),
        (1, 1.0, "value: 1 != 1.0"),
        (0.1, 0.2, "value: 0.1 != 0.2"),
        ((1, 2), (1, 3), "[1]: 2 != 3"),
        ((1, 2), (1,), ": 2 entries != 1 entries"),
        (LocalView(in_flight=1), LocalView(in_flight=2), "in_flight: 1 != 2"),
        (LocalView(), None, "value: LocalView"),
        (ask(), ask(), None),
        (ask(), ask(vision=True), "vision: False != True"),
    ],
)
def test_the_first_difference_is_named_with_both_values(a: object, b: object, difference: str | None) -> None:
    found = first_difference(a, b)
    assert found is None if difference is None else (found or "").startswith(difference)


def test_two_equal_decisions_have_no_difference() -> None:
    assert (
        first_difference(
            recorded(), plan(world(CONFIG, *SNAPSHOTS.values()), local={"b": LocalView(disabled=True)})
        )
        is None
    )
