"""Demand: every pool with windows that could have served the request counts, chosen or not."""

from support.planning import (
    HOUR_NS,
    NOW_NS,
    ask,
    flat,
    of_pool,
    plan,
    priced,
    routing,
    target,
    usd,
    used,
    window,
    world,
)
from tidegate.events.config import Pool, Routing
from tidegate.events.decision import LocalView, WindowUse
from tidegate.events.signals import DemandSeen
from tidegate.events.types import DecisionId, PoolId, WindowId
from tidegate.planner.demand import demand_of

PERIOD_NS = NOW_NS - NOW_NS % HOUR_NS
USE = (WindowUse(WindowId("w"), PERIOD_NS, 1_100, HOUR_NS),)
W = window("w", "tokens", 10**6)


def seen(config: Routing, local: dict[str, LocalView] | None = None, **asked: int) -> dict[str, DemandSeen]:
    view = world(config)
    return {each.pool: each for each in demand_of(plan(view, ask(**asked), local), view.route("code"))}


def test_each_admitted_pool_with_windows_shows_its_use_and_the_best_alternative() -> None:
    config = routing(
        [target("a", pool="p"), target("b", pool="q"), target("m", priced(1, 1)), target("n", priced(2, 2))],
        [flat("p", W), flat("q", W)],
    )
    # Own cash, and 2 % retries at a pool whose λ is its prior: 2,500 nano-dollars a token × 25 %.
    total = usd(0.0011) + 1_100 * 625 // 50
    assert seen(config) == {
        "p": DemandSeen(
            decision=DecisionId("d-1"), pool=PoolId("p"), windows=USE, alternative_nanousd=total, chosen=True
        ),
        "q": DemandSeen(decision=DecisionId("d-1"), pool=PoolId("q"), windows=USE, alternative_nanousd=total),
    }


def test_a_pool_that_was_not_admitted_shows_no_demand() -> None:
    config = routing([target("a", pool="p"), target("m", priced(1, 1))], [flat("p", W)])
    assert seen(config, {"a": LocalView(disabled=True)}) == {}


def test_a_pool_without_windows_shows_no_demand() -> None:
    assert seen(routing([target("a", pool="p"), target("m", priced(1, 1))], [flat("p")])) == {}


def test_a_pool_is_no_alternative_to_itself() -> None:
    config = routing(
        [target("a", priced(1, 1), pool="p"), target("b", priced(2, 2), pool="p"), target("m", priced(9, 9))],
        [Pool(id=PoolId("p"), windows=(W,))],
    )
    found = seen(config)
    assert list(found) == ["p"]
    assert found["p"].alternative_nanousd == (
        usd(0.0099)
        + (usd(0.0011) + 1_100 * 500) // 50  # own cash, 2 % retries at `a`, whose quota has its prior
    )


def test_the_use_is_that_of_the_pools_best_candidate() -> None:
    config = routing(
        [target("a", priced(2, 2), pool="p"), target("b", priced(1, 1), pool="p", max_output_tokens=50)],
        [Pool(id=PoolId("p"), windows=(W,))],
    )
    view = world(config)
    found = demand_of(plan(view, ask(max_output_tokens=None)), view.route("code"))
    assert found[0].windows == (WindowUse(WindowId("w"), PERIOD_NS, 1_050, HOUR_NS),)


def test_without_a_metered_alternative_the_refusal_cost_counts() -> None:
    config = routing([target("a", pool="p")], [flat("p", W)], refusal_cost_nanousd=123)
    assert seen(config)["p"].alternative_nanousd == 123


def test_without_a_refusal_cost_the_cheapest_list_price_of_the_route_counts() -> None:
    config = routing(
        [target("a", priced(5, 5), pool="p"), target("off", priced(2, 2), enabled=False)], [flat("p", W)]
    )
    assert seen(config)["p"].alternative_nanousd == usd(0.0022)
    assert seen(config, max_output_tokens=900)["p"].alternative_nanousd == usd(0.003)


def test_without_any_price_the_alternative_is_unknown() -> None:
    assert seen(routing([target("a", pool="p")], [flat("p", W)]))["p"].alternative_nanousd is None


EXHAUSTED = used("w", 999_950, 10**6)


def test_a_pool_without_quota_left_still_shows_its_demand_and_until_when_it_was_refused() -> None:
    config = routing(
        [target("a", pool="p"), target("b", pool="p"), target("m", priced(1, 1))], [flat("p", W)]
    )
    view = world(config, of_pool("p", EXHAUSTED))
    (found,) = demand_of(plan(view, ask()), view.route("code"))
    assert found == DemandSeen(
        decision=DecisionId("d-1"),
        pool=PoolId("p"),
        windows=USE,
        alternative_nanousd=usd(0.0011) + usd(0.0011) // 50,
        refused_until_ns=PERIOD_NS + HOUR_NS,
    )
    (without_limit,) = demand_of(plan(view, ask(max_output_tokens=None)), view.route("code"))
    assert without_limit.windows[0].units == 1_500


def test_a_pool_that_cools_down_shows_its_demand_in_the_periods_that_run() -> None:
    windows = (W, window("r", "requests", 10), window("d", "nanousd", 10**12))
    config = routing([target("a", priced(1, 1), pool="p"), target("m", priced(1, 1))], [flat("p", *windows)])
    until = NOW_NS + 5
    (found,) = seen(config, {"a": LocalView(pool_until_ns=until)}).values()
    assert found.refused_until_ns == until
    assert [use.units for use in found.windows] == [1_100, 1, usd(0.0011)]
    assert {use.period_start_ns for use in found.windows} == {PERIOD_NS}
    assert not found.chosen


def test_a_use_that_never_fits_is_no_demand() -> None:
    small = window("w", "tokens", 500)
    assert seen(routing([target("a", pool="p"), target("m", priced(1, 1))], [flat("p", small)])) == {}


def test_a_candidate_that_left_the_route_meanwhile_shows_nothing() -> None:
    config = routing([target("a", pool="p"), target("m", priced(1, 1))], [flat("p", W)])
    view = world(config, of_pool("p", EXHAUSTED))
    other = world(routing([target("m", priced(1, 1))]))
    assert demand_of(plan(view, ask()), other.route("code")) == ()


def test_a_model_that_counts_more_often_needs_shows_and_takes_as_much_more() -> None:
    config = routing([target("a", pool="p", quota_weight=2.5), target("m", priced(1, 1))], [flat("p", W)])
    view = world(config)
    decision = plan(view, ask())
    heavy = WindowUse(WindowId("w"), PERIOD_NS, 2_750, HOUR_NS)
    (demand,) = demand_of(decision, view.route("code"))
    assert demand.windows == (heavy,)
    verdict = next(each for each in decision.candidates if each.target == "a")
    assert verdict.uses == (heavy,)
    assert verdict.price is not None
    assert verdict.price.quota == 2_750 * 625
    full = world(config, of_pool("p", used("w", 10**6 - 2_749, 10**6)))
    refused = next(each for each in plan(full, ask()).candidates if each.target == "a")
    assert refused.detail == "window w: needs 2750 tokens, has 2749"
