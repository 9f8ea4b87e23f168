"""The view: replaced as a whole, recompiled only where a snapshot says something new."""

from support.planning import of_pool, of_target, plan, priced, routing, target, world
from tidegate.events.config import Candidate, Pool, Route, Routing
from tidegate.events.types import PoolId, RouteName, TargetId
from tidegate.planner.view import view_of, with_snapshots, with_switch

CONFIG = routing([target("a", priced(1, 1), pool="p"), target("b", priced(2, 2))], [Pool(id=PoolId("p"))])


def two_routes() -> Routing:
    routes = tuple(
        Route(name=RouteName(f"only-{name}"), candidates=(Candidate(target=TargetId(name)),)) for name in "ab"
    )
    return Routing(targets=CONFIG.targets, pools=CONFIG.pools, routes=routes)


def test_a_newer_snapshot_changes_the_next_decision_and_not_the_view_in_hand() -> None:
    old = world(CONFIG)
    new = with_snapshots(old, [of_target("a", version=1, circuit="refusing")])
    assert plan(old).chosen == "a"
    assert plan(new).chosen == "b"


def test_views_built_at_once_or_step_by_step_are_equal() -> None:
    snapshots = [of_target("a", version=2), of_pool("p", version=5), of_target("b", version=1)]
    stepwise = world(CONFIG)
    for snapshot in snapshots:
        stepwise = with_snapshots(stepwise, [snapshot])
    assert stepwise == world(CONFIG, *snapshots)


def test_an_old_or_repeated_version_changes_nothing() -> None:
    view = world(CONFIG, of_target("a", version=3))
    assert with_snapshots(view, [of_target("a", version=3, circuit="refusing")]) is view
    assert with_snapshots(view, [of_target("a", version=2, circuit="refusing")]) is view


def test_only_routes_that_read_the_subject_are_recompiled() -> None:
    view = view_of(two_routes())
    changed = with_snapshots(view, [of_pool("p", version=1)])
    assert changed.routes["only-a"] is not view.routes["only-a"]
    assert changed.routes["only-b"] is view.routes["only-b"]


def test_one_route_may_be_compiled_alone() -> None:
    assert list(view_of(two_routes(), only="only-b").routes) == ["only-b"]


def test_a_switch_is_kept_when_snapshots_change() -> None:
    view = with_switch(world(CONFIG), TargetId("a"), disabled=True)
    assert with_snapshots(view, [of_target("a", version=1)]).switches == {"a": True}
