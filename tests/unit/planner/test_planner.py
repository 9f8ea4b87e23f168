"""The planner as the gateway calls it: current view, overlay, ids, seeds, time taken."""

import pytest

from support.planning import NOW_NS, ask, flat, plan, priced, routing, target, window, world
from tidegate.events.clock import ManualClock
from tidegate.events.config import Routing
from tidegate.events.ids import IdSource
from tidegate.events.types import AttemptId, PoolId, TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner
from tidegate.planner.replay import first_difference
from tidegate.planner.rng import SplitMix64
from tidegate.planner.view import View, with_switch


class Held:
    def __init__(self, view: View) -> None:
        self.view = view


class SlowClock(ManualClock):
    """Every look at the monotonic clock takes 500 ns."""

    def mono_ns(self) -> int:
        self.advance_ns(500)
        return super().mono_ns()


def planner_of(held: Held, overlay: Overlay | None = None, seed: int = 0) -> Planner:
    clock = SlowClock(NOW_NS)
    return Planner(
        held, overlay or Overlay("gw@1"), clock, IdSource(clock, lambda bits: 0), SplitMix64(seed), "build-1"
    )


def test_a_plan_is_the_pure_decision_with_its_ids_and_the_time_it_took() -> None:
    view = world(routing([target("a", priced(1, 1)), target("b", priced(2, 2))]))
    made = planner_of(Held(view)).plan(ask())
    pure = plan(view, ask(), now_ns=made.now_ns, seed=made.seed)
    assert (made.code, made.took_ns, len(made.decision)) == ("build-1", 500, 36)
    assert first_difference(made, pure) == f"decision: {made.decision!r} != 'd-1'"
    assert made.candidates == pure.candidates


def test_every_decision_has_an_id_and_a_seed_of_its_own() -> None:
    planner = planner_of(Held(world(routing([target("a", priced(1, 1))]))))
    made = [planner.plan(ask()) for _ in range(50)]
    assert len({each.decision for each in made}) == len({each.seed for each in made}) == 50
    assert all(0 <= each.seed < 2**63 for each in made)


def test_the_overlay_is_read_and_recorded() -> None:
    overlay = Overlay("gw@1")
    planner = planner_of(Held(world(routing([target("a", priced(1, 1), max_in_flight=1)]))), overlay)
    overlay.started(AttemptId("1"), TargetId("a"), PoolId("a"))
    made = planner.plan(ask())
    assert made.candidates[0].reason == "in_flight_cap"
    assert made.candidates[0].local.in_flight == 1


def test_a_later_try_is_admitted_by_what_others_took_and_operators_said_since_the_plan() -> None:
    overlay, a = Overlay("gw@1"), TargetId("a")
    held = Held(world(routing([target("a", priced(1, 1), max_in_flight=1)])))
    planner = planner_of(held, overlay)
    assert planner.may_still_try(ask(), a)
    overlay.started(AttemptId("1"), a, PoolId("a"))
    assert not planner.may_still_try(ask(), a)
    overlay.undone(AttemptId("1"))
    assert planner.may_still_try(ask(), a)
    held.view = with_switch(held.view, a, disabled=True)
    assert not planner.may_still_try(ask(), a)


def test_a_request_keeps_the_candidates_of_the_config_it_began_with() -> None:
    held = Held(world(routing([target("a", priced(1, 1))])))
    planner = planner_of(held)
    assert planner.may_still_try(ask(), TargetId("gone"))
    held.view = world(Routing())
    assert planner.may_still_try(ask(), TargetId("a"))


def test_a_kill_switch_of_the_view_is_recorded_as_local_and_acts_at_once() -> None:
    held = Held(world(routing([target("a", priced(1, 1))])))
    planner = planner_of(held)
    assert planner.plan(ask()).chosen == "a"
    held.view = with_switch(held.view, TargetId("a"), disabled=True)
    made = planner.plan(ask())
    assert (made.candidates[0].reason, made.candidates[0].local.disabled) == ("disabled", True)


def test_demand_is_read_off_the_decision_and_none_is_left_of_a_route_that_went() -> None:
    held = Held(world(routing([target("a", pool="p")], [flat("p", window("w", "requests", 9))])))
    planner = planner_of(held)
    made = planner.plan(ask())
    assert [(each.pool, each.chosen) for each in planner.demand(made)] == [("p", True)]
    held.view = world(Routing())
    assert planner.demand(made) == ()


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_the_generator_gives_the_published_numbers(seed: int, expected: list[int]) -> None:
    stream = SplitMix64(seed)
    assert [stream.next() for _ in range(3)] == expected
