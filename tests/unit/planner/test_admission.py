"""Admission: each hard fact refuses with its own reason, its limiting fact, and when it may pass."""

from typing import Any, get_args

import msgspec
import pytest

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
    reasons,
    routing,
    target,
    usd,
    used,
    verdict,
    window,
    world,
)
from tidegate.events.config import Routing, Target, Window
from tidegate.events.decision import Ask, LocalView, Reason, WindowUse
from tidegate.events.snapshots import Belief, RateSnapshot
from tidegate.events.types import WindowId
from tidegate.planner.admission import FOREVER_NS, PROBING_NS, asked_of, first_refusal, is_clear
from tidegate.planner.panic import TRICKLE_NS
from tidegate.planner.view import ConfigRefused, RouteUnknown

PRICES = priced(1, 4)
PERIOD_NS = NOW_NS - NOW_NS % HOUR_NS


def one(**fields: Any) -> Target:
    return target("a", fields.pop("prices", PRICES), **fields)


def in_pool(*windows: Window, **route: Any) -> Routing:
    return routing([one(pool="p")], [flat("p", *windows)], **route)


CASES: dict[str, tuple[Routing, tuple[RateSnapshot, ...], Ask, LocalView, tuple[Any, ...]]] = {
    "disabled by config": (
        routing([one(enabled=False)]), (), ask(), LocalView(), ("disabled", "by config", None),
    ),
    "disabled by kill-switch": (
        routing([one()]), (), ask(), LocalView(disabled=True), ("disabled", "by kill-switch", None),
    ),
    "other dialect": (
        routing([one(dialect="anthropic")]), (), ask(), LocalView(), ("dialect", "client speaks openai", None),
    ),
    "context too small": (
        routing([one(context_window=1_099)]), (), ask(), LocalView(),
        ("context_window", "needs 1100, has 1099", None),
    ),
    "output too long": (
        routing([one(max_output_tokens=99)]), (), ask(), LocalView(),
        ("output_limit", "needs 100, has 99", None),
    ),
    "no vision": (
        routing([one(vision=False)]), (), ask(vision=True), LocalView(), ("vision", None, None),
    ),
    "no documents": (
        routing([one(documents=False)]), (), ask(documents=True), LocalView(), ("documents", None, None),
    ),
    "no tools": (routing([one(tools=False)]), (), ask(tools=True), LocalView(), ("tools", None, None)),
    "no reasoning": (
        routing([one(reasoning=False)]), (), ask(reasoning=True), LocalView(), ("reasoning", None, None),
    ),
    "no price": (
        routing([one(prices=())]), (), ask(), LocalView(),
        ("price_unknown", "no list price and none observed", None),
    ),
    "no price for a dollar window of a flat pool": (
        routing([one(prices=(), pool="p")], [flat("p", window("d", "nanousd", 5))]), (), ask(), LocalView(),
        ("price_unknown", "no list price and none observed", None),
    ),
    "circuit refusing": (
        routing([one()]),
        (of_target("a", circuit="refusing", circuit_until_ns=NOW_NS + 1, circuit_cause="rate_limited"),),
        ask(), LocalView(), ("circuit_refusing", "rate_limited", NOW_NS + 1),
    ),
    "circuit refusing for ever, enabled by an operator, one being tried": (
        routing([one()]), (of_target("a", circuit="refusing", circuit_cause="auth"),),
        ask(), LocalView(disabled=False, in_flight=1),
        ("circuit_refusing", "being tried again, 1 in flight", None),
    ),
    "circuit refusing for ever": (
        routing([one()]), (of_target("a", circuit="refusing", circuit_cause="auth"),),
        ask(), LocalView(), ("circuit_refusing", "auth", None),
    ),
    "own failures": (
        routing([one()]), (), ask(), LocalView(refusing_until_ns=NOW_NS + 5),
        ("circuit_refusing", "own failures", NOW_NS + 5),
    ),
    "own credential failure": (
        routing([one()]), (), ask(), LocalView(refusing_until_ns=FOREVER_NS),
        ("circuit_refusing", "own failures", None),
    ),
    "probing with one in flight": (
        routing([one()]), (of_target("a", circuit="probing"),), ask(), LocalView(in_flight=1),
        ("circuit_refusing", "being tried again, 1 in flight", NOW_NS + TRICKLE_NS),
    ),
    "refusal just ran out with one in flight": (
        routing([one()]), (of_target("a", circuit="refusing", circuit_until_ns=NOW_NS),), ask(),
        LocalView(in_flight=2), ("circuit_refusing", "being tried again, 2 in flight", None),
    ),
    "pool cooling down": (
        routing([one()]),
        (of_pool("a", cooldown_until_ns=NOW_NS + 9, cooldown_cause="quota_exhausted"),),
        ask(), LocalView(), ("pool_cooldown", "quota_exhausted", NOW_NS + 9),
    ),
    "pool cooling down by own failures": (
        routing([one()]), (), ask(), LocalView(pool_until_ns=NOW_NS + 9),
        ("pool_cooldown", "own failures", NOW_NS + 9),
    ),
    "in-flight cap": (
        routing([one(max_in_flight=2)]), (), ask(), LocalView(in_flight=2),
        ("in_flight_cap", "2 in flight, cap 2", None),
    ),
    "slow first token": (
        routing([one()], max_ttft_p90_ms=800), (of_target("a", ttft_p90_ms=801.0),), ask(), LocalView(),
        ("ttft_limit", "p90 801 ms, limit 800 ms", None),
    ),
    "quota used too fast for the route": (
        in_pool(window("w", "tokens", 10_000), uvi_blocks="critical"),
        (of_pool("p", used("w", 1, 10_000, status="critical", uvi=2.5)),), ask(), LocalView(),
        ("uvi", "window w is critical at 2.50", None),
    ),
    "window without room": (
        in_pool(window("w", "tokens", 10_000)), (of_pool("p", used("w", 8_901, 10_000)),), ask(), LocalView(),
        ("window_exhausted", "window w: needs 1100 tokens, has 1099", PERIOD_NS + HOUR_NS),
    ),
    "window without room for the stated quantile": (
        in_pool(window("w", "tokens", 10_000)), (of_pool("p", used("w", 8_000, 10_000, use_p90=2_000.5)),),
        ask(), LocalView(),
        ("window_exhausted", "window w: needs 2001 tokens, has 2000", PERIOD_NS + HOUR_NS),
    ),
    "window filled by own uses": (
        in_pool(window("w", "requests", 3)), (of_pool("p", used("w", 2, 3)),), ask(),
        LocalView(uses=(WindowUse(WindowId("w"), PERIOD_NS, 1),)),
        ("window_exhausted", "window w: needs 1 requests, has 0", PERIOD_NS + HOUR_NS),
    ),
    "window as large as the request, but used": (
        in_pool(window("w", "requests", 1)), (of_pool("p", used("w", 1, 1)),), ask(), LocalView(),
        ("window_exhausted", "window w: needs 1 requests, has 0", PERIOD_NS + HOUR_NS),
    ),
    "request larger than the whole window": (
        in_pool(window("w", "tokens", 1_099)), (), ask(), LocalView(),
        ("window_exhausted", "window w: needs 1100 tokens, has 1099", None),
    ),
    "second window without room": (
        in_pool(window("w", "requests", 9), window("v", "nanousd", usd(0.001))), (), ask(), LocalView(),
        ("window_exhausted", f"window v: needs {usd(0.0014)} nanousd, has {usd(0.001)}", None),
    ),
    "over the cost cap": (
        routing([one()], max_cost_nanousd=usd(0.001)), (), ask(), LocalView(),
        ("cost_cap", "expects $0.0014, cap $0.001", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_hard_fact_refuses_with_its_reason_and_limiting_fact(case: str) -> None:
    config, snapshots, asked, local, expected = CASES[case]
    decision = plan(world(config, *snapshots), asked, {"a": local})
    refused = verdict(decision, "a")
    assert (refused.reason, refused.detail, refused.retry_at_ns) == expected
    assert (decision.chosen, refused.rank, refused.price) == (None, None, None)
    assert decision.retry_at_ns == expected[2]


def test_every_reason_of_the_contract_is_produced() -> None:
    assert {case[4][0] for case in CASES.values()} | {"grade"} == set(get_args(Reason))


ADMITTED: dict[str, tuple[Routing, tuple[RateSnapshot, ...], Ask, LocalView]] = {
    "nothing is believed": (routing([one()]), (), ask(), LocalView()),
    "sizes fit exactly": (
        routing([one(context_window=1_100, max_output_tokens=100)]), (), ask(), LocalView(),
    ),
    "enabled against the config": (routing([one(enabled=False)]), (), ask(), LocalView(disabled=False)),
    "own refusal ended": (routing([one()]), (), ask(), LocalView(refusing_until_ns=NOW_NS)),
    "pool refusal ended": (routing([one()]), (), ask(), LocalView(pool_until_ns=NOW_NS)),
    "cooldown ended": (routing([one()]), (of_pool("a", cooldown_until_ns=NOW_NS),), ask(), LocalView()),
    "the only one in flight may probe": (
        routing([one()]), (of_target("a", circuit="probing"),), ask(), LocalView(),
    ),
    "no news of the probed target for long": (
        routing([one()]), (of_target("a", circuit="refusing", circuit_until_ns=NOW_NS - PROBING_NS),), ask(),
        LocalView(in_flight=9),
    ),
    "first token as slow as the limit": (
        routing([one()], max_ttft_p90_ms=800), (of_target("a", ttft_p90_ms=800.0),), ask(), LocalView(),
    ),
    "one below the in-flight cap": (
        routing([one(max_in_flight=2)]), (), ask(), LocalView(in_flight=1),
    ),
    "unknown first-token time passes the limit": (
        routing([one()], max_ttft_p90_ms=1), (of_target("a"),), ask(), LocalView(),
    ),
    "window has room exactly": (
        in_pool(window("w", "tokens", 10_000)), (of_pool("p", used("w", 8_900, 10_000)),), ask(), LocalView(),
    ),
    "the exhausted period ended": (
        in_pool(window("w", "requests", 3)),
        (of_pool("p", used("w", 3, 3, period_start_ns=PERIOD_NS - HOUR_NS)),), ask(), LocalView(),
    ),
    "own uses of an ended period are past": (
        in_pool(window("w", "requests", 1)), (), ask(),
        LocalView(uses=(WindowUse(WindowId("w"), PERIOD_NS - HOUR_NS, 1),)),
    ),
    "a flat pool needs no price": (routing([one(prices=(), pool="p")], [flat("p")]), (), ask(), LocalView()),
    "a price is observed where none is listed": (
        routing([one(prices=())]),
        (of_target("a", price_input_uncached=Belief(1e9, 0), price_output=Belief(4e9, 0)),), ask(), LocalView(),
    ),
    "as dear as the cap": (routing([one()], max_cost_nanousd=usd(0.0014)), (), ask(), LocalView()),
}  # fmt: skip


@pytest.mark.parametrize("case", ADMITTED)
def test_what_no_fact_refuses_is_admitted(case: str) -> None:
    config, snapshots, asked, local = ADMITTED[case]
    decision = plan(world(config, *snapshots), asked, {"a": local})
    assert reasons(decision) == {"a": None}
    assert decision.chosen == "a"


def test_the_quick_check_never_clears_what_a_fact_refuses() -> None:
    cleared = 0
    for config, snapshots, asked, local in [*(case[:4] for case in CASES.values()), *ADMITTED.values()]:
        facts = world(config, *snapshots).route("code")
        compared = asked_of(asked, facts.route)
        candidate = facts.candidates[0]
        if is_clear(candidate, compared, local):
            cleared += 1
            assert first_refusal(candidate, compared, local, NOW_NS) is None
    assert cleared >= 8


def test_an_observed_price_that_is_only_a_prior_is_no_price() -> None:
    prior = Belief(1e9, 0, prior=True)
    decision = plan(
        world(routing([one(prices=())]), of_target("a", price_input_uncached=prior, price_output=prior))
    )
    assert reasons(decision) == {"a": "price_unknown"}


def test_a_refusal_says_when_the_first_candidate_may_be_back() -> None:
    config = routing([target("a", PRICES), target("b", PRICES), target("c", PRICES, enabled=False)])
    local = {
        "a": LocalView(refusing_until_ns=NOW_NS + 20 * S),
        "b": LocalView(pool_until_ns=NOW_NS + 10 * S),
    }
    assert plan(world(config), local=local).retry_at_ns == NOW_NS + 10 * S


def test_only_the_best_admitted_grade_stays() -> None:
    config = routing([target("a", PRICES), target("b", PRICES)], grades={"b": 1})
    decision = plan(world(config))
    assert reasons(decision) == {"a": None, "b": "grade"}
    assert verdict(decision, "b").detail == "grade 1, best admitted 0"


def test_the_best_grade_is_the_best_of_those_admitted() -> None:
    config = routing([target("a", PRICES, enabled=False), target("b", PRICES)], grades={"b": 1})
    assert plan(world(config)).chosen == "b"


def test_a_lower_grade_joins_the_plan_only_where_the_route_allows_it() -> None:
    config = routing(
        [target("a", PRICES), target("b", priced(0.1, 0.4))], grades={"b": 1}, allow_downgrade=True
    )
    decision = plan(world(config))
    assert [verdict(decision, name).rank for name in ("a", "b")] == [0, 1]


def test_a_limit_of_another_config_does_not_bind() -> None:
    config = in_pool(window("w", "requests", 10))
    stale = of_pool("p", used("w", 5, 5), config="sha256:other")
    current = of_pool("p", used("w", 5, 5), config=config.digest())
    assert plan(world(config, stale)).chosen == "a"
    assert plan(world(config, current)).chosen is None


def test_a_first_request_window_is_open_from_our_own_first_use() -> None:
    config = in_pool(window("w", "requests", 5, kind="first_request"))
    opened_ns = NOW_NS - 10 * S
    local = {"a": LocalView(uses=(WindowUse(WindowId("w"), opened_ns, 1),))}
    later = verdict(plan(world(config), local=local), "a")
    assert later.uses == (WindowUse(WindowId("w"), opened_ns, 1, HOUR_NS, first_request=True),)
    first = verdict(plan(world(config)), "a")
    assert first.uses == (WindowUse(WindowId("w"), NOW_NS, 1, HOUR_NS, first_request=True),)


def test_each_window_is_renewed_by_itself() -> None:
    """The short window's period ended; the long one's runs on, still full: it alone refuses."""
    short, long = window("s", "requests", 5), window("l", "requests", 9, duration_s=86_400.0)
    start_ns = NOW_NS - NOW_NS % (24 * HOUR_NS)
    view = world(
        in_pool(short, long),
        of_pool(
            "p",
            used("s", 5, 5, period_start_ns=PERIOD_NS - HOUR_NS),
            used("l", 9, 9, period_start_ns=start_ns),
        ),
    )
    refused = verdict(plan(view), "a")
    assert (refused.detail, refused.retry_at_ns) == (
        "window l: needs 1 requests, has 0",
        start_ns + 24 * HOUR_NS,
    )


def test_a_renewed_period_that_own_uses_filled_ends_one_duration_after_it_began() -> None:
    local = {"a": LocalView(uses=(WindowUse(WindowId("w"), PERIOD_NS, 3),))}
    refused = verdict(plan(world(in_pool(window("w", "requests", 3))), local=local), "a")
    assert (refused.reason, refused.retry_at_ns) == ("window_exhausted", PERIOD_NS + HOUR_NS)


def test_an_unknown_route_is_refused_by_name() -> None:
    with pytest.raises(RouteUnknown, match="no route 'nope'"):
        plan(world(routing([one()])), ask(route="nope"))


def test_a_route_over_an_undeclared_target_is_refused_by_name() -> None:
    config = msgspec.structs.replace(routing([one()]), targets=())
    with pytest.raises(ConfigRefused, match="route 'code' names target 'a'"):
        world(config)


def test_a_target_closed_for_ever_is_tried_again_once_an_operator_enables_it() -> None:
    view = world(routing([one()]), of_target("a", circuit="refusing", circuit_cause="auth"))
    assert plan(view).chosen is None
    assert plan(view, local={"a": LocalView(disabled=False)}).chosen == "a"


SHARES = window("w", "tokens", 500, scope="unified-5h", percent_only=True)


def admitted(*snapshots: Any) -> bool:
    return plan(world(in_pool(SHARES), *snapshots), ask(), {}).chosen is not None


def test_a_guessed_capacity_refuses_nobody_a_known_one_and_a_full_window_do() -> None:
    """Else a guess below one request would never be found wrong."""
    assert admitted()
    assert admitted(of_pool("p", used("w", 499, 500)))
    assert admitted(of_pool("p", used("w", 499, 500, capacity=Belief(500.0, 1.0, prior=True))))
    assert not admitted(of_pool("p", used("w", 500, 500, capacity=Belief(500.0, 1.0, prior=True))))
    assert not admitted(of_pool("p", used("w", 9_000, 10_000, capacity=Belief(1e4, 1.0))))
    assert admitted(of_pool("p", used("w", 8_900, 10_000, capacity=Belief(1e4, 1.0))))
