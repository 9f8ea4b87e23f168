"""Appraisal: the quick way for candidates that raise no question and the general one are the same."""

import hashlib

import msgspec
from hypothesis import given

from support.planning import NOW_NS, plan
from support.planning_worlds import FAIR, World, world_of, worlds
from tidegate.events.decision import NOTHING_LOCAL
from tidegate.planner.admission import Refusal, asked_of
from tidegate.planner.appraise import Admitted, Refused, appraise, appraise_all
from tidegate.planner.decide import DECIDE_VERSION
from tidegate.planner.view import view_of

WORLDS = 400
DIGEST = "1bb08c22617aeaf3f464e21c07f1aa30f6f1873a25cf4de3178d75fb5b6d51bc"
"""SHA-256 of the decisions of version 3 in the worlds of seeds 0 to 399, as first recorded."""


@FAIR
@given(worlds())
def test_every_candidate_is_appraised_as_it_would_be_alone(world: World) -> None:
    route = view_of(world.routing, world.snapshots).route("code")
    asked = asked_of(world.ask, route.route)
    views = [world.local.get(facts.target, NOTHING_LOCAL) for facts in route.candidates]
    admitted: list[Admitted] = []
    refused: list[Refused] = []
    for facts, view in zip(route.candidates, views, strict=True):
        found = appraise(facts, asked, view, NOW_NS)
        if isinstance(found, Refusal):
            refused.append(Refused(facts, view, found))
        else:
            admitted.append(found)
    assert appraise_all(route, asked, views, NOW_NS) == (admitted, refused)


def test_the_worlds_put_candidates_to_both_ways() -> None:
    quick = 0
    candidates = 0
    for seed in range(WORLDS):
        world = world_of(seed)
        for facts in view_of(world.routing, world.snapshots).route("code").candidates:
            candidates += 1
            quick += facts.plain is not None and facts.target not in world.local
    assert candidates // 20 < quick < candidates // 2


def test_decisions_come_out_as_when_their_version_was_first_recorded() -> None:
    digest = hashlib.sha256()
    for seed in range(WORLDS):
        world = world_of(seed)
        made = plan(view_of(world.routing, world.snapshots), world.ask, world.local)
        digest.update(msgspec.json.encode(made))
    assert DECIDE_VERSION == 3, "a new version decides otherwise: pin its digest"
    assert digest.hexdigest() == DIGEST
