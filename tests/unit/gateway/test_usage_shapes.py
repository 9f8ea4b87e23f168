"""Classes -> usage objects: what a client is told is what was read, in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.money import Tokens
from tidegate.gateway.dialects import usage_shape
from tidegate.gateway.usage import UsageTally, from_answer
from tidegate.gateway.usage_rules import Wire

counts = st.integers(0, 10**6)
maybe = st.none() | counts


@st.composite
def openai_tokens(draw: st.DrawFn) -> Tokens:
    """What OpenAI's objects can say: one lifetime of writes, parts of what is there."""
    tokens = draw(st.builds(Tokens, input_uncached=counts, cache_read=maybe, cache_write_5m=maybe, output=counts,
                            reasoning=maybe, web_searches=st.none() | st.integers(1, 9)))  # fmt: skip
    parts = {
        "input_audio": tokens.input_uncached,
        "input_image": tokens.input_uncached,
        "cache_read_audio": tokens.cache_read,
        "output_audio": tokens.output,
        "output_image": tokens.output,
    }
    chosen = {name: draw(st.none() | st.integers(1, whole)) for name, whole in parts.items() if whole}
    return msgspec.structs.replace(tokens, **chosen)


anthropic_tokens = st.builds(
    Tokens, input_uncached=maybe, cache_read=maybe, cache_write_5m=counts, cache_write_1h=counts, output=maybe,
    reasoning=maybe, web_searches=st.none() | st.integers(1, 9),
    service_tier=st.sampled_from([None, "batch", "priority"]),
)  # fmt: skip


@given(openai_tokens())
def test_chat_usage_reads_back_as_what_was_written(tokens: Tokens) -> None:
    assert from_answer("openai", {"usage": usage_shape.to_chat(tokens)}) == tokens


@given(openai_tokens())
def test_responses_usage_reads_back_with_its_required_details(tokens: Tokens) -> None:
    required = {name: getattr(tokens, name) or 0 for name in ("cache_read", "cache_write_5m", "reasoning")}
    known = msgspec.structs.replace(tokens, **required)
    assert from_answer("responses", {"usage": usage_shape.to_responses(tokens)}) == known


@given(anthropic_tokens)
def test_messages_usage_reads_back_as_what_was_written(tokens: Tokens) -> None:
    known = msgspec.structs.replace(
        tokens, input_uncached=tokens.input_uncached or 0, output=tokens.output or 0
    )
    assert from_answer("anthropic", {"usage": usage_shape.to_messages(tokens)}) == known


@given(openai_tokens(), st.sampled_from([usage_shape.to_chat, usage_shape.to_responses]))
def test_the_sums_of_openai_are_the_sums_of_the_classes(
    tokens: Tokens, told: Callable[[Tokens], dict[str, Any]]
) -> None:
    usage = told(tokens)
    assert usage["total_tokens"] == tokens.known_total()
    assert usage.get("prompt_tokens", usage.get("input_tokens")) == tokens.known_input()


@pytest.mark.parametrize(
    ("told", "tokens", "usage"),
    [
        (
            usage_shape.to_chat,
            Tokens(10, 5, 3, output=7, reasoning=2, web_searches=1),
            {
                "prompt_tokens": 18,
                "completion_tokens": 7,
                "total_tokens": 25,
                "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 2},
                "server_tool_use": {"web_search_requests": 1},
            },
        ),
        (
            usage_shape.to_chat,
            Tokens(10, output=0),
            {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10},
        ),
        (
            usage_shape.to_messages,
            Tokens(10, 5, 3, 4, 7, service_tier="batch"),
            {
                "input_tokens": 10,
                "output_tokens": 7,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 5,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
                "service_tier": "batch",
            },
        ),
        (
            usage_shape.to_messages,
            Tokens(10, output=1, cache_write_5m=3, service_tier="flex"),
            {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 3},
        ),
    ],
)
def test_each_dialect_is_told_in_its_own_words(
    told: Callable[[Tokens], dict[str, Any]], tokens: Tokens, usage: dict[str, Any]
) -> None:
    assert told(tokens) == usage


@pytest.mark.parametrize(
    ("dialect", "answer", "tier"),
    [
        ("openai", {"usage": {}, "service_tier": "priority"}, "priority"),
        ("openai", {"usage": {}, "service_tier": "flex"}, "flex"),
        ("openai", {"usage": {}, "service_tier": "default"}, None),
        ("openai", {"usage": {}, "service_tier": None}, None),
        ("openai", {"usage": {}, "service_tier": "Not A Tier"}, None),
        ("openai", {"usage": {}, "service_tier": 3}, None),
        ("anthropic", {"usage": {"service_tier": "batch"}}, "batch"),
        ("anthropic", {"usage": {"service_tier": "standard"}}, None),
        ("anthropic", {"usage": {"service_tier": "standard", "speed": "fast"}}, "fast"),
        ("anthropic", {"usage": {"speed": "standard"}}, None),
    ],
)
def test_the_service_tier_is_what_the_provider_says_it_was(
    dialect: Wire, answer: dict[str, Any], tier: str | None
) -> None:
    assert from_answer(dialect, answer).service_tier == tier


def test_the_last_service_tier_wins_and_the_usual_one_clears_it() -> None:
    tally = UsageTally("openai")
    tally.observe({"prompt_tokens": 1}, "flex")
    tally.observe({"completion_tokens": 1}, "default")
    assert tally.tokens() == Tokens(1, output=1)


def test_sound_in_the_cache_is_told_apart_from_sound_that_was_heard_anew() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {
            "cached_tokens": 40,
            "audio_tokens": 60,
            "image_tokens": 5,
            "cached_tokens_details": {"audio_tokens": 30},
        },
        "completion_tokens_details": {"audio_tokens": 20, "image_tokens": 8},
    }
    assert from_answer("openai", {"usage": usage}) == Tokens(
        60, 40, output=50, input_audio=30, input_image=5, cache_read_audio=30, output_audio=20, output_image=8
    )


def test_a_part_is_never_more_than_its_class() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 9},
        "completion_tokens_details": {"audio_tokens": 6},
    }
    tokens = from_answer("openai", {"usage": usage})
    assert (tokens.input_audio, tokens.output_audio) == (2, 5)


def test_searches_of_the_provider_are_counted_beside_the_tokens() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 3}}
    assert from_answer("anthropic", {"usage": usage}).web_searches == 3
    usage["server_tool_use"] = {"web_search_requests": 0}
    assert from_answer("anthropic", {"usage": usage}).web_searches is None


@pytest.mark.parametrize(
    ("count", "output"), [(12.0, 12), (12.5, None), (-1.0, None), (1e300, None), (True, None)]
)
def test_a_count_written_as_a_fraction_counts_when_it_is_whole(count: Any, output: int | None) -> None:
    assert from_answer("openai", {"usage": {"prompt_tokens": 3, "completion_tokens": count}}).output == output
