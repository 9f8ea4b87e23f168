"""Closed by failures alone, with nothing else left: one request at a time goes through, and never otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from support.planning import NOW_NS, S, ask, of_target, plan, priced, routing, target, verdict, world
from tidegate.events.config import Routing
from tidegate.events.decision import LocalView
from tidegate.planner.admission import FOREVER_NS
from tidegate.planner.panic import TRICKLE_NS
from tidegate.planner.replay import verify

FAILING = LocalView(refusing_until_ns=NOW_NS + 30 * S, tried_at_ns=NOW_NS - TRICKLE_NS)
JUST_TRIED = LocalView(refusing_until_ns=NOW_NS + 30 * S, tried_at_ns=NOW_NS - TRICKLE_NS + 1)
THROTTLED = LocalView(refusing_until_ns=NOW_NS + 30 * S)
GIVEN_UP = LocalView(refusing_until_ns=FOREVER_NS)


def one() -> Routing:
    return routing([target("a", priced(1, 1))])


def two(**fields: Any) -> Routing:
    return routing([target("a", priced(1, 1)), target("b", priced(2, 2), **fields)])


def down(name: str, cause: str = "unavailable") -> Any:
    until_ns = None if cause == "auth" else NOW_NS + 300 * S
    return of_target(name, circuit="refusing", circuit_until_ns=until_ns, circuit_cause=cause)


def test_the_only_target_is_tried_again_once_a_second_while_it_is_closed() -> None:
    made = plan(world(one()), ask(), {"a": FAILING})
    assert (made.chosen, verdict(made, "a").local) == ("a", FAILING)
    refused = plan(world(one()), ask(), {"a": JUST_TRIED})
    assert (refused.chosen, verdict(refused, "a").reason) == (None, "circuit_refusing")
    assert refused.retry_at_ns == NOW_NS + 1, "not the end of the closing"


@pytest.mark.parametrize("cause", ["unavailable", "transport"])
def test_a_target_that_others_saw_fail_is_tried_by_one_request_at_a_time(cause: str) -> None:
    view = world(one(), down("a", cause))
    assert plan(view, ask()).chosen == "a"
    busy = plan(view, ask(), {"a": LocalView(in_flight=1)})
    assert (busy.chosen, busy.retry_at_ns) == (None, NOW_NS + TRICKLE_NS)
    assert plan(view, ask(), {"a": LocalView(in_flight=9, tried_at_ns=NOW_NS - TRICKLE_NS)}).chosen == "a"


@pytest.mark.parametrize("local", [THROTTLED, GIVEN_UP])
def test_what_the_provider_said_is_kept_to(local: LocalView) -> None:
    assert plan(world(one()), ask(), {"a": local}).chosen is None
    assert plan(world(one(), down("a")), ask(), {"a": local}).chosen is None


@pytest.mark.parametrize("cause", ["auth", "rate_limited", "quota_exhausted"])
def test_a_target_that_refuses_is_not_taken_for_an_ill_one(cause: str) -> None:
    assert plan(world(one(), down("a", cause)), ask()).chosen is None
    assert plan(world(one(), down("a", cause)), ask(), {"a": FAILING}).chosen is None


def test_a_closed_target_gets_nothing_while_another_one_serves() -> None:
    made = plan(world(two(), down("a")), ask(), {"a": FAILING})
    assert (made.chosen, verdict(made, "a").rank) == ("b", None)


@pytest.mark.parametrize("local", [LocalView(disabled=True), LocalView(in_flight=5)])
def test_targets_that_could_not_serve_anyway_do_not_keep_a_closed_one_shut(local: LocalView) -> None:
    made = plan(world(two(max_in_flight=5)), ask(), {"a": FAILING, "b": local})
    assert made.chosen == "a"


def test_what_else_keeps_a_closed_target_out_still_does() -> None:
    full = routing([target("a", priced(1, 1), max_in_flight=5)])
    made = plan(
        world(full), ask(), {"a": LocalView(in_flight=5, refusing_until_ns=NOW_NS + 9, tried_at_ns=0)}
    )
    assert (made.chosen, verdict(made, "a").reason) == (None, "in_flight_cap")


def test_all_closed_targets_whose_turn_has_come_are_ranked_as_ever() -> None:
    made = plan(world(two()), ask(), {"a": FAILING, "b": FAILING})
    assert [verdict(made, name).rank for name in "ab"] == [0, 1]
    assert plan(world(two()), ask(), {"a": JUST_TRIED, "b": FAILING}).chosen == "b"


def test_the_better_grade_is_kept_to_among_closed_targets() -> None:
    graded = routing([target("a", priced(1, 1)), target("b", priced(2, 2))], grades={"a": 1})
    made = plan(world(graded), ask(), {"a": FAILING, "b": FAILING})
    assert (made.chosen, verdict(made, "a").reason) == ("b", "grade")


def test_a_trial_is_decided_again_from_what_was_recorded() -> None:
    view = world(two(), down("b"))
    made = plan(view, ask(), {"a": FAILING, "b": JUST_TRIED})
    assert made.chosen == "a"
    assert verify(made, view.routing, view.snapshots).outcome == "identical"
