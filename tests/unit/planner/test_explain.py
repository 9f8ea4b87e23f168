"""Explain: five lines, golden; a refusal lists every candidate."""

import json

import msgspec

from support.planning import (
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
    window,
    world,
)
from tidegate.events.decision import DecisionMade, LocalView
from tidegate.events.snapshots import Belief
from tidegate.planner.explain import explain, explanation


def mixed() -> DecisionMade:
    config = routing(
        [
            target("kimi-flat", priced(0.6, 2.5), pool="kimi"),
            target("openai-a", priced(2.5, 10, 0.25)),
            target("claude-b", priced(3, 15), dialect="anthropic"),
            target("own-7b", priced(0, 0), context_window=1_000),
            target("flaky", priced(0.1, 0.4)),
            target("revoked", priced(0.1, 0.4)),
        ],
        [flat("kimi", window("5h", "tokens", 10**6, duration_s=18_000.0))],
        time_value_nanousd_per_s=1_000,
    )
    view = world(
        config,
        of_target("kimi-flat", version=12, success=Belief(0.98, 0), ttft_ms=Belief(900, 1)),
        of_pool("kimi", used("5h", 400_000, 10**6, shadow_nanousd=1_500.25), version=7),
        of_target("openai-a", version=4, success=Belief(0.999, 0)),
        of_target(
            "flaky",
            version=9,
            circuit="refusing",
            circuit_until_ns=NOW_NS + 42 * S,
            circuit_cause="unavailable",
        ),
        of_target("revoked", version=2, circuit="refusing", circuit_cause="auth"),
    )
    local = {
        "openai-a": LocalView(session_prompt_tokens=800, session_cached_tokens=640, session_at_ns=NOW_NS)
    }
    return plan(view, local=local)


def test_a_plan_is_explained_in_five_lines() -> None:
    decision = mixed()
    digest = decision.config.removeprefix("sha256:")[:12]
    assert explain(decision).splitlines() == [
        "target: kimi-flat (pool kimi) for $0.001694375, route code by cheapest",
        (
            "price: cash $0.00 + quota $0.001650275 + retry $0.0000412 + time $0.0000029 + switch $0.00;"
            " expects 1000 input tokens (cache unknown), 100 output tokens"
        ),
        "runner-up: openai-a for $0.00206465, $0.000370275 dearer",
        (
            "rejected: claude-b dialect (client speaks openai); own-7b context_window (needs 1100, has 1000);"
            " flaky circuit_refusing (unavailable, retry in 42.0 s); revoked circuit_refusing (auth)"
        ),
        (
            f"read: config {digest}, snapshots target/pool: kimi-flat 12/7, openai-a 4/-, claude-b -/-,"
            " own-7b -/-, flaky 9/-, revoked 2/-; decide 5, code test, seed 7"
        ),
    ]


def test_a_refusal_is_explained_with_every_candidate() -> None:
    config = routing([target("a", priced(1, 1)), target("b", priced(1, 1), enabled=False)])
    decision = plan(world(config), local={"a": LocalView(pool_until_ns=NOW_NS + 90 * S)})
    digest = decision.config.removeprefix("sha256:")[:12]
    assert explain(decision).splitlines() == [
        "target: none, 2 candidates refused, retry in 90.0 s, route code by cheapest",
        "price: none",
        "runner-up: none",
        "rejected: a pool_cooldown (own failures, retry in 90.0 s); b disabled (by config)",
        f"read: config {digest}, snapshots target/pool: a -/-, b -/-; decide 5, code test, seed 7",
    ]


def test_a_refusal_without_an_end_says_so() -> None:
    decision = plan(world(routing([target("a", priced(1, 1), enabled=False)])))
    assert explain(decision).startswith("target: none, 1 candidates refused, no end known")


def test_a_cached_share_shows_in_the_price_line() -> None:
    decision = plan(
        world(routing([target("a", priced(2.5, 10, 0.25))])),
        local={"a": LocalView(session_prompt_tokens=800, session_cached_tokens=640, session_at_ns=NOW_NS)},
    )
    assert "expects 1000 input tokens (640 cached), 100 output tokens" in explain(decision)


def test_the_service_tier_shows_where_it_is_not_the_usual_one() -> None:
    asked = ask(service_tiers=(("a", "priority"),))
    decision = plan(world(routing([target("a", priced(1, 1)), target("b", priced(2, 2))])), asked)
    assert "100 output tokens, at service tier priority\n" in explain(decision)
    found = json.loads(json.dumps(explanation(decision)))
    assert (found["chosen"]["service_tier"], found["runner_up"]["service_tier"]) == ("priority", None)


def test_a_cheaper_runner_up_is_called_cheaper() -> None:
    config = routing([target("a", priced(3, 3)), target("b", priced(1, 1))], strategy="declared")
    assert "runner-up: b for $0.001166, $0.002156 cheaper" in explain(plan(world(config)))


def test_an_equal_runner_up_is_called_the_same() -> None:
    config = routing([target("a", priced(1, 1)), target("b", priced(1, 1))])
    assert "runner-up: b for $0.001122, the same" in explain(plan(world(config)))


def test_every_explanation_has_five_lines_also_after_the_log() -> None:
    decision = msgspec.json.decode(msgspec.json.encode(mixed()), type=DecisionMade)
    assert explain(decision) == explain(mixed())
    assert len(explain(decision).splitlines()) == 5


def test_programs_get_the_same_facts() -> None:
    found = json.loads(json.dumps(explanation(mixed())))
    assert found["chosen"]["target"] == "kimi-flat"
    assert found["chosen"]["price_nanousd"]["total"] == usd(0.001694375)
    assert found["runner_up"]["gap_nanousd"] == usd(0.000370275)
    assert [each["reason"] for each in found["rejected"]] == [
        "dialect",
        "context_window",
        "circuit_refusing",
        "circuit_refusing",
    ]
    assert found["snapshots"]["kimi-flat"] == {"target": 12, "pool": 7}
    refused = explanation(plan(world(routing([target("a")])), ask()))
    assert (refused["chosen"], refused["runner_up"]) == (None, None)
