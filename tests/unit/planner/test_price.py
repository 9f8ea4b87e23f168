"""The price: every part by hand, in nano-dollars, rounded once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    routing,
    target,
    usd,
    used,
    verdict,
    window,
    world,
)
from support.planning_worlds import FAIR
from tidegate.events.config import DatedPrice, Pool, Routing
from tidegate.events.decision import DecisionMade, LocalView, PriceParts, WindowUse
from tidegate.events.money import ListPrice, Tokens, cost_nanousd
from tidegate.events.quota import prior_shadow_nanousd
from tidegate.events.snapshots import Belief, CacheAt
from tidegate.events.types import PoolId, WindowId
from tidegate.planner import price
from tidegate.planner.facts import PRIOR_FAILURE, PRIOR_OUTPUT_TOKENS, Rates
from tidegate.planner.price import CACHE_TTL_NS

SURE = Belief(1.0, 0.0)
PERIOD_NS = NOW_NS - NOW_NS % HOUR_NS


def parts(decision: DecisionMade, name: str = "a") -> PriceParts:
    found = verdict(decision, name).price
    assert found is not None
    return found


def warm(prompt: int | None, cached: int | None, age_ns: int = 0) -> dict[str, LocalView]:
    return {
        "a": LocalView(
            session_prompt_tokens=prompt, session_cached_tokens=cached, session_at_ns=NOW_NS - age_ns
        )
    }


def test_cash_is_tokens_times_list_price_in_force() -> None:
    later = DatedPrice(from_ns=NOW_NS + 1, input_uncached=usd(9), output=usd(9))
    config = routing([target("a", (*priced(3, 15), later))])
    assert parts(plan(world(config))).cash == usd((1_000 * 3 + 100 * 15) / 1e6)
    assert parts(plan(world(config), now_ns=NOW_NS + 1)).cash == usd(1_100 * 9 / 1e6)


def test_an_observed_bill_replaces_the_list_price_of_its_class() -> None:
    snapshot = of_target("a", price_input_uncached=Belief(usd(2) + 0.4, 1.0), success=SURE)
    decision = plan(world(routing([target("a", priced(3, 15))]), snapshot))
    assert parts(decision).cash == usd((1_000 * 2 + 100 * 15) / 1e6)


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0])
def test_a_belief_that_is_no_number_leaves_the_declared_value(nonsense: float) -> None:
    belief = Belief(nonsense, 1.0)
    snapshot = of_target(
        "a",
        price_output=belief,
        output_tokens=belief,
        success=belief,
        ttft_ms=belief,
        output_tokens_per_s=belief,
    )
    config = routing([target("a", priced(3, 15))], time_value_nanousd_per_s=100)
    assert parts(plan(world(config, snapshot))) == parts(plan(world(config)))


def test_nothing_is_billed_in_a_flat_pool() -> None:
    config = routing([target("a", priced(3, 15), pool="p")], [flat("p")])
    snapshot = of_target("a", price_output=Belief(usd(99), 0))
    assert parts(plan(world(config, snapshot))) == PriceParts()


@pytest.mark.parametrize(
    ("believed", "asked", "allowed", "expected"),
    [
        (None, None, None, PRIOR_OUTPUT_TOKENS),
        (700.5, None, None, 701),
        (700.5, 300, None, 300),
        (700.5, 300, 300, 300),
        (700.5, None, 200, 200),
        (0.0, 300, None, 0),
    ],
)
def test_the_expected_answer_is_what_is_believed_within_what_is_asked_and_allowed(
    believed: float | None, asked: int | None, allowed: int | None, expected: int
) -> None:
    snapshot = of_target("a", output_tokens=None if believed is None else Belief(believed, 1.0))
    config = routing([target("a", priced(3, 15), max_output_tokens=allowed)])
    decision = plan(world(config, snapshot), ask(max_output_tokens=asked))
    assert verdict(decision, "a").expected_output_tokens == expected
    assert parts(decision).cash == usd((1_000 * 3 + expected * 15) / 1e6)


@pytest.mark.parametrize(
    ("local", "cached"),
    [
        ({}, None),
        (warm(800, 600), 600),
        (warm(2_000, 1_000), 500),
        (warm(800, 900), 800),
        (warm(800, 600, CACHE_TTL_NS), 600),
        (warm(800, 600, CACHE_TTL_NS + 1), 0),
        (warm(800, None), None),
        (warm(0, 0), 0),
    ],
)
def test_the_session_finds_its_cached_share_until_the_time_to_live_passed(
    local: dict[str, LocalView], cached: int | None
) -> None:
    decision = plan(world(routing([target("a", priced(3, 15, 0.3))])), local=local)
    assert verdict(decision, "a").expected_cached_tokens == cached
    known = cached or 0
    assert parts(decision).cash == usd(((1_000 - known) * 3 + known * 0.3 + 100 * 15) / 1e6)


def test_a_cache_read_without_a_price_costs_the_uncached_price() -> None:
    decision = plan(world(routing([target("a", priced(3, 15))])), local=warm(800, 600))
    assert parts(decision).cash == usd((1_000 * 3 + 100 * 15) / 1e6)


def quota_world() -> Routing:
    return routing(
        [target("a", pool="p")], [flat("p", window("w", "tokens", 10**6), window("v", "requests", 9))]
    )


def test_quota_costs_its_shadow_price_over_all_windows_rounded_once() -> None:
    beliefs = of_pool(
        "p", used("w", 0, 10**6, shadow_nanousd=0.3, p_exhaust=0.2), used("v", 0, 9, shadow_nanousd=0.7)
    )
    decision = plan(world(quota_world(), beliefs))
    assert parts(decision).quota == 331  # 1,100 × 0.3 + 1 × 0.7 = 330.7
    assert verdict(decision, "a").p_exhaust == 0.2
    assert verdict(decision, "a").uses == (
        WindowUse(WindowId("w"), PERIOD_NS, 1_100, HOUR_NS),
        WindowUse(WindowId("v"), PERIOD_NS, 1, HOUR_NS),
    )


def test_quota_of_a_period_of_which_nothing_is_believed_has_its_prior_price() -> None:
    """λ starts positive: before the first snapshot, and again when the period that was believed of has ended."""
    beliefs = of_pool(
        "p", used("w", 10**6, 10**6, shadow_nanousd=9.0, p_exhaust=1.0, period_start_ns=PERIOD_NS - HOUR_NS)
    )
    config = quota_world()
    (pool,) = config.pools
    w, v = (prior_shadow_nanousd(window, config.targets) for window in pool.windows)
    assert min(w, v) > 0
    for known in (beliefs, None):
        decision = plan(world(config, *([] if known is None else [known])))
        assert parts(decision).quota == round(1_100 * w + v)
        assert verdict(decision, "a").p_exhaust is None


def test_a_dollar_window_counts_the_list_price_that_nobody_is_billed() -> None:
    config = routing([target("a", priced(3, 15), pool="p")], [flat("p", window("w", "nanousd", usd(5)))])
    decision = plan(world(config, of_pool("p", used("w", 0, usd(5), shadow_nanousd=0.5))))
    assert verdict(decision, "a").uses[0].units == usd(0.0045)
    assert (parts(decision).cash, parts(decision).quota) == (0, usd(0.00225))


def test_a_failure_is_repaired_by_the_cheapest_other_candidate() -> None:
    config = routing([target("a", priced(1, 0)), target("b", priced(2, 0)), target("c", priced(3, 0))])
    beliefs = [of_target(name, success=Belief(0.75, 0.0)) for name in "abc"]
    decision = plan(world(config, *beliefs))
    assert [parts(decision, name).retry for name in "abc"] == [usd(0.0005), usd(0.00025), usd(0.00025)]
    assert parts(decision, "a").total == usd(0.0015)


def test_alone_a_failure_is_repaired_by_the_same_candidate() -> None:
    decision = plan(world(routing([target("a", priced(1, 0))])))
    assert parts(decision).retry == round(PRIOR_FAILURE * usd(0.001))


def test_time_costs_what_the_route_says_a_second_is_worth() -> None:
    beliefs = of_target("a", ttft_ms=Belief(500.0, 1.0), output_tokens_per_s=Belief(50.0, 1.0), success=SURE)
    config = routing([target("a", priced(1, 1))], time_value_nanousd_per_s=1_001)
    assert parts(plan(world(config, beliefs))).time == 2_503  # 1,001 × (0.5 + 100 / 50), half up
    assert parts(plan(world(config, beliefs), ask(max_output_tokens=50))).time == 1_502  # 1,001 × 1.5


def test_time_of_an_unknown_target_is_not_free() -> None:
    config = routing([target("a", priced(1, 1))], time_value_nanousd_per_s=1_000)
    assert parts(plan(world(config))).time == 3_000  # one second to the first token, 50 tokens a second


def test_the_total_is_the_sum_of_the_parts() -> None:
    config = routing(
        [target("a", priced(3, 15), pool="p")],
        [Pool(id=PoolId("p"), windows=(window("w", "tokens", 10**6),))],
        time_value_nanousd_per_s=77,
    )
    found = parts(plan(world(config, of_pool("p", used("w", 0, 10**6, shadow_nanousd=1.5)))))
    assert min(found.cash, found.quota, found.retry, found.time) > 0
    assert found.total == found.cash + found.quota + found.retry + found.time + found.switch


@pytest.mark.unmeasured
@FAIR
@given(
    tokens=st.tuples(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**6)),
    rates=st.tuples(*[st.integers(0, 10**12)] * 3),
)
def test_expected_cash_equals_what_the_ledger_would_charge_for_that_usage(
    tokens: tuple[int, int, int], rates: tuple[int, int, int]
) -> None:
    uncached, read, output = tokens
    listed = ListPrice(input_uncached=rates[0], cache_read=rates[1], output=rates[2])
    usage = Tokens(input_uncached=uncached, cache_read=read, output=output)
    expected = Rates(*rates, usual_output=output * rates[2])
    assert price.cost_nanousd(expected, uncached + read, read, expected.usual_output) == cost_nanousd(
        usage, listed
    )


def test_prices_by_date_agree_with_the_targets_own_answer() -> None:
    prices = (
        DatedPrice(from_ns=10 * S, input_uncached=1, output=2),
        DatedPrice(from_ns=20 * S, input_uncached=3, output=4),
    )
    a = target("a", prices)
    facts = world(routing([a])).route("code").candidates[0]
    for now_ns in (0, 10 * S - 1, 10 * S, 20 * S - 1, 20 * S, 30 * S):
        rates, listed = price.rates_at(facts.prices, now_ns, 0), a.list_price(now_ns)
        assert (rates is None) is (listed is None)
        if rates is not None and listed is not None:
            assert (rates.input_uncached, rates.output) == (listed.input_uncached, listed.output)


def kept(*shares: tuple[float | None, float, bool]) -> tuple[CacheAt, ...]:
    """(up to how old in seconds, share, prior) in turn."""
    return tuple(CacheAt(to_age_s, Belief(share, 0.01, prior=prior)) for to_age_s, share, prior in shares)


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(59, 760), (60, 640), (299, 640), (301, 0), (600, 200), (999, 200), (5_000, 0)],
)
def test_what_the_cache_is_seen_to_keep_at_an_age_replaces_the_time_to_live(
    age_s: int, expected: int
) -> None:
    by_age = kept(
        (60.0, 0.95, False),
        (300.0, 0.8, False),
        (400.0, 0.9, True),
        (1_000.0, 0.25, False),
        (None, 0.5, True),
    )
    snapshot = of_target("a", cache_by_age=by_age)
    local = warm(1_000, 800, age_s * S)
    decision = plan(world(routing([target("a", priced(3, 15))]), snapshot), local=local)
    assert verdict(decision, "a").expected_cached_tokens == expected


def test_a_share_kept_that_is_no_number_leaves_the_time_to_live() -> None:
    snapshot = of_target("a", cache_by_age=kept((None, float("nan"), False)))
    local = warm(1_000, 800, S)
    decision = plan(world(routing([target("a", priced(3, 15))]), snapshot), local=local)
    assert verdict(decision, "a").expected_cached_tokens == 800


def test_output_is_expected_as_the_route_has_it_else_as_the_target() -> None:
    belief: dict[str, Any] = {
        "output_tokens": Belief(900.0, 1.0),
        "output_tokens_by_route": {"code": Belief(40.0, 1.0)},
    }
    decision = plan(world(routing([target("a", priced(3, 15))]), of_target("a", **belief)))
    assert verdict(decision, "a").expected_output_tokens == 40
    other = {**belief, "output_tokens_by_route": {"chat": Belief(40.0, 1.0)}}
    unlimited = ask(max_output_tokens=None)
    decision = plan(world(routing([target("a", priced(3, 15))]), of_target("a", **other)), unlimited)
    assert verdict(decision, "a").expected_output_tokens == 900
