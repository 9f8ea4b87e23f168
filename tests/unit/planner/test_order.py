"""Order: total, and equal prices are told apart by the stated rules one after the other."""

import pytest

from support.planning import (
    HOUR_NS,
    NOW_NS,
    ask,
    flat,
    of_pool,
    of_target,
    plan,
    priced,
    routing,
    target,
    used,
    window,
    world,
)
from tidegate.events.config import Pool, Routing, Strategy
from tidegate.events.decision import DecisionMade, LocalView
from tidegate.events.snapshots import RateSnapshot
from tidegate.planner.explain import explain

PERIOD_NS = NOW_NS - NOW_NS % HOUR_NS


def ranks(decision: DecisionMade) -> list[str]:
    ranked = [each for each in decision.candidates if each.rank is not None]
    return [each.target for each in sorted(ranked, key=lambda each: each.rank or 0)]


def three_pools(duration_s: float = 3_600.0) -> Routing:
    """Three free candidates, each in a pool of its own with one window."""
    pools = [
        flat("pa", window("w", "requests", 9)),
        flat("pb", window("w", "requests", 9, duration_s=duration_s)),
        flat("pc", window("w", "requests", 9)),
    ]
    return routing([target("a", pool="pa"), target("b", pool="pb"), target("c", pool="pc")], pools)


def risk(pool: str, p_exhaust: float | None) -> RateSnapshot:
    return of_pool(pool, used("w", 0, 9, p_exhaust=p_exhaust))


def test_the_cheapest_goes_first() -> None:
    config = routing([target("a", priced(3, 3)), target("b", priced(1, 1)), target("c", priced(2, 2))])
    assert ranks(plan(world(config))) == ["b", "c", "a"]


def test_declared_keeps_the_order_of_the_route_whatever_it_costs() -> None:
    config = routing(
        [target("c", priced(3, 3)), target("a", priced(1, 1)), target("b", priced(2, 2))], strategy="declared"
    )
    assert ranks(plan(world(config))) == ["c", "a", "b"]


SICK = of_target("a", ejected=True)


@pytest.mark.parametrize(
    ("strategy", "order"), [("cheapest", ["b", "a", "c"]), ("declared", ["b", "c", "a"])]
)
def test_one_that_fails_too_often_ranks_after_the_others_of_its_grade_and_stays_in_the_plan(
    strategy: Strategy, order: list[str]
) -> None:
    targets = [target("a", priced(1, 1)), target("b", priced(9, 9)), target("c", priced(9, 9))]
    config = routing(targets, grades={"c": 1}, strategy=strategy, allow_downgrade=True, avoid_ejected=True)
    decision = plan(world(config, SICK))
    assert ranks(decision) == order
    assert [each.target for each in decision.candidates if each.ejected] == ["a"]
    assert (", ejected: it fails too often" in explain(decision)) == (order[1] == "a")


@pytest.mark.parametrize("strategy", ["cheapest", "declared"])
def test_a_route_may_go_by_price_alone_and_where_all_fail_nothing_changes(strategy: Strategy) -> None:
    targets = [target("a", priced(1, 1)), target("b", priced(9, 9))]
    config = routing(targets, strategy=strategy)
    assert ranks(plan(world(config, SICK))) == ["a", "b"]
    config = routing(targets, strategy=strategy, avoid_ejected=True)
    assert ranks(plan(world(config, SICK, of_target("b", ejected=True)))) == ["a", "b"]


def test_equal_prices_go_to_the_pool_less_likely_to_exhaust() -> None:
    beliefs = [risk("pa", 0.5), risk("pb", 0.1), risk("pc", None)]
    assert ranks(plan(world(three_pools(), *beliefs))) == ["b", "a", "c"]


def test_then_to_the_quota_that_lapses_first() -> None:
    assert ranks(plan(world(three_pools(duration_s=900.0)))) == ["b", "a", "c"]


def two_windows(first_s: float, second_s: float, name: str = "p") -> Pool:
    return flat(
        name,
        window("w", "requests", 9, duration_s=first_s),
        window("v", "requests", 9, duration_s=second_s),
    )


def test_of_several_windows_the_likeliest_to_exhaust_speaks_for_the_pool() -> None:
    pools = [two_windows(3_600.0, 3_600.0, "p"), two_windows(3_600.0, 3_600.0, "q")]
    config = routing([target("a", pool="p"), target("b", pool="q")], pools)
    beliefs = [
        of_pool("p", used("w", 0, 9, p_exhaust=0.1), used("v", 0, 9, p_exhaust=0.6)),
        of_pool("q", used("w", 0, 9, p_exhaust=0.5), used("v", 0, 9, p_exhaust=0.4)),
    ]
    decision = plan(world(config, *beliefs))
    assert ranks(decision) == ["b", "a"]
    assert [each.p_exhaust for each in decision.candidates] == [0.6, 0.5]


def test_of_several_windows_the_one_that_resets_first_speaks_for_the_pool() -> None:
    pools = [two_windows(7_200.0, 3_600.0, "p"), two_windows(900.0, 86_400.0, "q")]
    config = routing([target("a", pool="p"), target("b", pool="q")], pools)
    assert ranks(plan(world(config))) == ["b", "a"]


def test_a_pool_without_windows_cannot_exhaust() -> None:
    config = routing(
        [target("a", pool="p"), target("b", pool="q")], [flat("p", window("w", "requests", 9)), flat("q")]
    )
    assert ranks(plan(world(config))) == ["b", "a"]


def test_then_to_where_the_session_was_last() -> None:
    local = {
        "b": LocalView(session_at_ns=NOW_NS - 1),
        "c": LocalView(session_at_ns=NOW_NS - 2),
    }
    assert ranks(plan(world(three_pools()), local=local)) == ["b", "a", "c"]


def test_then_to_the_lower_priority_number() -> None:
    names = ["a", "b", "c"]
    config = routing([target(name, priced(1, 1)) for name in names], priorities={"a": 2, "b": 1, "c": 3})
    assert ranks(plan(world(config))) == ["b", "a", "c"]


def test_and_last_to_the_lesser_id() -> None:
    config = routing([target(name, priced(1, 1)) for name in ("b", "c", "a")])
    assert ranks(plan(world(config))) == ["a", "b", "c"]


def test_grade_comes_before_price() -> None:
    config = routing(
        [target("a", priced(1, 1)), target("b", priced(9, 9))], grades={"a": 1}, allow_downgrade=True
    )
    assert ranks(plan(world(config))) == ["b", "a"]


@pytest.mark.parametrize("strategy", ["cheapest", "declared"])
def test_only_the_first_has_a_chance_while_nothing_explores(strategy: str) -> None:
    config = routing([target("a", priced(1, 1)), target("b", priced(2, 2))], strategy=strategy)
    decision = plan(world(config), ask())
    assert {each.target: each.propensity for each in decision.candidates} == {"a": 1.0, "b": 0.0}
