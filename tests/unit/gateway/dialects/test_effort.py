"""How much to think, carried between words and budgets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dialect_calls import body, sent
from tidegate.gateway.dialects.blocks import Effort
from tidegate.gateway.dialects.effort import BUDGET_TOKENS, ORDER, from_budget, nearest, to_budget
from tidegate.gateway.dialects.quirks import Quirks

BUDGET = Quirks(thinking="budget")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


@pytest.mark.parametrize("effort", BUDGET_TOKENS)
def test_an_effort_survives_the_way_over_its_budget(effort: Effort) -> None:
    budget = to_budget(effort, 10**9)
    assert budget is not None
    assert from_budget(budget) == effort


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_budget_is_never_less_effort(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert ORDER.index(from_budget(low)) <= ORDER.index(from_budget(high))


@given(st.sampled_from(ORDER), st.integers(0, 100_000))
def test_a_budget_is_what_anthropic_accepts(effort: Effort, limit: int) -> None:
    budget = to_budget(effort, limit)
    assert budget is None or 1024 <= budget < limit


@pytest.mark.parametrize(
    ("asked", "accepted", "becomes"),
    [
        ("minimal", ("low", "medium", "high"), "low"),
        ("low", ("low", "medium", "high"), "low"),
        ("medium", ("low", "medium", "high"), "medium"),
        ("xhigh", ("low", "medium", "high"), "high"),
        ("max", ("low", "medium", "high"), "high"),
        ("medium", ("low", "high"), "low"),
        ("none", ("low", "high"), "low"),
        ("minimal", ("none", "high"), "high"),
        ("low", ("none",), "none"),
        ("max", (), "max"),
    ],
)
def test_an_effort_the_target_does_not_know_becomes_the_nearest(
    asked: Effort, accepted: tuple[Effort, ...], becomes: Effort
) -> None:
    assert nearest(asked, accepted) == becomes
    assert (
        body("openai-responses", "openai", Quirks(efforts=accepted), reasoning={"effort": asked})[
            "reasoning_effort"
        ]
        == becomes
    )
    assert (
        body("openai", "openai", Quirks(efforts=accepted), reasoning_effort=asked)["reasoning_effort"]
        == becomes
    )


@pytest.mark.parametrize(
    ("asked", "thinking", "config"),
    [
        ("minimal", {"type": "adaptive"}, {"effort": "low"}),
        ("low", {"type": "adaptive"}, {"effort": "low"}),
        ("max", {"type": "adaptive"}, {"effort": "max"}),
        ("none", {"type": "disabled"}, None),
    ],
)
def test_an_effort_becomes_adaptive_thinking(asked: str, thinking: Any, config: Any) -> None:
    made = body("openai", "anthropic", reasoning_effort=asked)
    assert (made["thinking"], made.get("output_config")) == (thinking, config)


def test_who_wants_to_read_along_gets_the_thinking_shown() -> None:
    made = body("openai-responses", "anthropic", reasoning={"effort": "low", "summary": "auto"})
    assert made["thinking"] == {"type": "adaptive", "display": "summarized"}
    made = body("openai-responses", "anthropic", reasoning={"effort": "low", "generate_summary": "auto"})
    assert made["thinking"] == {"type": "adaptive", "display": "summarized"}
    made = body("openai-responses", "anthropic", reasoning={"summary": "auto"})
    assert "thinking" not in made


@pytest.mark.parametrize(
    ("thinking", "config", "reasoning"),
    [
        ({"type": "adaptive"}, {}, {"effort": "medium", "summary": "auto"}),
        ({"type": "adaptive"}, {"effort": "max"}, {"effort": "max", "summary": "auto"}),
        ({"type": "adaptive", "display": "omitted"}, {"effort": "low"}, {"effort": "low"}),
        ({"type": "enabled", "budget_tokens": 9000}, {}, {"effort": "medium", "summary": "auto"}),
        ({"type": "enabled", "budget_tokens": 100_000}, {}, {"effort": "max", "summary": "auto"}),
        ({"type": "disabled"}, {}, {"effort": "none"}),
        (None, {"effort": "high"}, {"effort": "high"}),
    ],
)
def test_thinking_becomes_an_effort(thinking: Any, config: Any, reasoning: Any) -> None:
    made = body("anthropic", "openai-responses", thinking=thinking, output_config=config)
    assert made["reasoning"] == reasoning
    assert made.get("include") == (None if reasoning["effort"] == "none" else ["reasoning.encrypted_content"])
    made = body("anthropic", "openai", thinking=thinking, output_config=config)
    assert made["reasoning_effort"] == reasoning["effort"]


def test_a_wish_for_a_summary_alone_is_carried() -> None:
    made = body("openai-responses", "openai", reasoning={"summary": "auto"})
    assert "reasoning_effort" not in made
    made, _ = sent("anthropic", "openai-responses", thinking={"type": "enabled"})
    assert made["reasoning"] == {"summary": "auto"}


@pytest.mark.parametrize(
    ("fields", "max_tokens", "budget"),
    [
        ({"reasoning_effort": "low"}, 8192 + 2048, 2048),
        ({"reasoning_effort": "high", "max_tokens": 4000}, 4000, 3999),
        ({"reasoning_effort": "low", "max_tokens": 30_000}, 30_000, 2048),
    ],
)
def test_an_effort_becomes_a_budget_within_the_answers_limit(
    fields: Any, max_tokens: int, budget: int
) -> None:
    made = body("openai", "anthropic", BUDGET, **fields)
    assert made["max_tokens"] == max_tokens
    assert made["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert "output_config" not in made


def test_too_small_an_answer_leaves_no_budget() -> None:
    made, warnings = sent("openai", "anthropic", BUDGET, reasoning_effort="high", max_tokens=1024)
    assert "thinking" not in made
    assert warnings == ("reasoning",)


@pytest.mark.parametrize("quirks", [Quirks(), BUDGET])
def test_a_forced_tool_forbids_thinking(quirks: Quirks) -> None:
    forced = {"type": "function", "function": {"name": "f"}}
    for choice in ("required", forced):
        made, warnings = sent(
            "openai", "anthropic", quirks, reasoning_effort="low", tools=[TOOL], tool_choice=choice
        )
        assert "thinking" not in made
        assert warnings == ("reasoning",)
    made, warnings = sent(
        "openai", "anthropic", quirks, reasoning_effort="low", tools=[TOOL], tool_choice="auto"
    )
    assert "thinking" in made
    assert warnings == ()


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
SIGNED = [{"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "hm", "signature": "s"}]


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        ([{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [CALL]}, RESULT], False),
        ([{"role": "assistant", "tool_calls": [CALL], "reasoning_details": SIGNED}, RESULT], True),
        ([{"role": "assistant", "tool_calls": [CALL]}, RESULT, {"role": "user", "content": "z"}], True),
        ([{"role": "assistant", "content": "x"}, RESULT], True),
        ([RESULT], True),
        ([{"role": "system", "content": "q"}], True),
    ],
)
def test_a_tool_loop_begun_without_thinking_goes_on_without(messages: Any, thinks: bool) -> None:
    made, _ = sent("openai", "anthropic", BUDGET, reasoning_effort="low", messages=messages)
    assert ("thinking" in made) == thinks
    made, _ = sent("openai", "anthropic", reasoning_effort="low", messages=messages)
    assert "thinking" in made


def test_thinking_leaves_no_choice_of_sampling() -> None:
    made, warnings = sent("openai", "anthropic", reasoning_effort="low", temperature=0.5, top_p=1, top_k=3)
    assert not {"temperature", "top_p", "top_k"} & made.keys()
    assert warnings == ("temperature", "top_k")
