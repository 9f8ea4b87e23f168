"""Appraisal: the quick way for candidates that raise no question and the general one are the same."""

import hashlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given

from support.planning import NOW_NS, plan
from support.planning_worlds import (
    FAIR,
    World,
    ailing_world_of,
    billed_world_of,
    tiered_world_of,
    world_of,
    worlds,
)
from tidegate.events.decision import NOTHING_LOCAL
from tidegate.planner.admission import Refusal, asked_of
from tidegate.planner.appraise import Admitted, Refused, appraise, appraise_all
from tidegate.planner.decide import DECIDE_VERSION
from tidegate.planner.view import view_of

WORLDS = 400
DIGEST = "1bb08c22617aeaf3f464e21c07f1aa30f6f1873a25cf4de3178d75fb5b6d51bc"
"""SHA-256 of the decisions of version 3 in the worlds of seeds 0 to 399, as first recorded."""
AILING_DIGEST = "a04ecf80ed1744a1f0225a535f1143c05c3395e879add8eadadf30a3f99e1713"
TIERED_DIGEST = "a929eafd28ce4ec09c6c8a05017c7da666ed08e5a95cefe9d4f1f2ef9a513f56"
"""The same of version 4 in worlds with service tiers, which version 3 did not know."""
BILLED_DIGEST = "da0ac196cf4cd9c72bc576d24e1973af2951635980fd9f7b0050d6c55b51ee94"
"""The same of version 5 where bills say what is charged of a list price, which version 4 did not know."""


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


@pytest.mark.parametrize(
    ("make", "version", "recorded"),
    [
        (world_of, 3, DIGEST),
        (tiered_world_of, 4, TIERED_DIGEST),
        (ailing_world_of, 4, AILING_DIGEST),
        (billed_world_of, 5, BILLED_DIGEST),
    ],
)
def test_decisions_come_out_as_when_their_version_was_first_recorded(
    make: Callable[[int], World], version: int, recorded: str
) -> None:
    digest = hashlib.sha256()
    for seed in range(WORLDS):
        world = make(seed)
        made = plan(view_of(world.routing, world.snapshots), world.ask, world.local)
        digest.update(msgspec.json.encode(msgspec.structs.replace(made, decide_version=version)))
    assert DECIDE_VERSION == 5, "a new version decides otherwise: pin its digest"
    assert digest.hexdigest() == recorded
