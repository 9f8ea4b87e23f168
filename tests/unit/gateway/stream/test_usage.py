"""Usage objects -> disjoint classes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.events.money import Tokens
from tidegate.gateway.usage import MAX_COUNT, UsageTally, from_answer

FAIR = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
OPENAI: list[tuple[dict[str, Any], Tokens]] = [
    ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Tokens(input_uncached=10, output=5)),
    (
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 80, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        Tokens(input_uncached=20, cache_read=80, output=50, reasoning=30),
    ),
    (
        {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
        Tokens(input_uncached=0, cache_read=0, output=0),
    ),
    ({"prompt_tokens": 7, "total_tokens": 7}, Tokens(input_uncached=7, output=0)),
    ({"prompt_tokens": 7}, Tokens(input_uncached=7)),
    ({"prompt_tokens": 9, "total_tokens": 7}, Tokens(input_uncached=9)),
    (
        {
            "prompt_tokens": 10,
            "completion_tokens": 1,
            "prompt_cache_hit_tokens": 4,
            "prompt_cache_miss_tokens": 6,
        },
        Tokens(input_uncached=6, cache_read=4, output=1),
    ),
    (
        {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 12}},
        Tokens(
            input_uncached=None, cache_read=12, output=1
        ),  # a part exceeds the whole: one of them is wrong
    ),
    (
        {
            "input_tokens": 10,
            "output_tokens": 4,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        Tokens(input_uncached=7, cache_read=3, output=4, reasoning=2),
    ),
    ({"prompt_tokens": None, "completion_tokens": True, "prompt_tokens_details": None}, Tokens()),
    ({"prompt_tokens": -1, "completion_tokens": "5"}, Tokens()),
]
ANTHROPIC: list[tuple[dict[str, Any], Tokens]] = [
    ({"input_tokens": 10, "output_tokens": 5}, Tokens(input_uncached=10, output=5)),
    (
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
            "output_tokens": 5,
        },
        Tokens(input_uncached=10, cache_read=100, cache_write_5m=20, cache_write_1h=10, output=5),
    ),
    ({"input_tokens": 1, "cache_creation_input_tokens": 30}, Tokens(input_uncached=1, cache_write_5m=30)),
    (
        {"cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0}},
        Tokens(cache_write_5m=2, cache_write_1h=0),
    ),
    (
        {"cache_creation_input_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 9}},
        Tokens(cache_write_5m=0, cache_write_1h=5),
    ),
    ({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}, Tokens(0, 0, output=0)),
    ({}, Tokens()),
]


@pytest.mark.parametrize(("usage", "tokens"), OPENAI)
def test_openai_counts_become_disjoint(usage: dict[str, Any], tokens: Tokens) -> None:
    assert from_answer("openai", {"usage": usage}) == tokens


@pytest.mark.parametrize(("usage", "tokens"), ANTHROPIC)
def test_anthropic_counts_keep_their_classes(usage: dict[str, Any], tokens: Tokens) -> None:
    assert from_answer("anthropic", {"usage": usage}) == tokens


@pytest.mark.parametrize("answer", [{}, {"usage": None}, {"usage": []}, {"usage": 3}])
def test_an_answer_without_usage_is_unknown_and_not_zero(answer: dict[str, Any]) -> None:
    assert from_answer("openai", answer) == from_answer("anthropic", answer) == Tokens()


def test_the_last_explicit_value_of_each_field_wins() -> None:
    tally = UsageTally("anthropic")
    tally.observe({"input_tokens": 25, "cache_read_input_tokens": 0, "output_tokens": 1})
    tally.observe({"output_tokens": 15})
    tally.observe({"output_tokens": 20, "input_tokens": None})
    assert tally.tokens() == Tokens(input_uncached=25, cache_read=0, output=20)


def test_a_later_zero_replaces_an_earlier_count() -> None:
    tally = UsageTally("openai")
    tally.observe({"prompt_tokens": 5, "completion_tokens": 3})
    tally.observe({"completion_tokens": 0})
    assert tally.tokens() == Tokens(input_uncached=5, output=0)


def test_a_later_write_total_overrides_an_earlier_split() -> None:
    tally = UsageTally("anthropic")
    tally.observe({"cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6}})
    tally.observe({"cache_creation_input_tokens": 25})
    assert tally.tokens() == Tokens(cache_write_5m=19, cache_write_1h=6)


COUNTS = st.integers(0, 10**9)


@FAIR
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_classes_sum_to_the_providers_total(uncached: int, cached: int, output: int, reasoning: int) -> None:
    usage = {
        "prompt_tokens": uncached + cached,
        "completion_tokens": output + reasoning,
        "total_tokens": uncached + cached + output + reasoning,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    tokens = from_answer("openai", {"usage": usage})
    assert tokens.known_total() == usage["total_tokens"]
    assert tokens == Tokens(uncached, cached, output=output + reasoning, reasoning=reasoning)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.slow
@FAIR
@given(JSON, JSON)
def test_hostile_usage_never_raises_and_never_counts_below_zero(first: Any, second: Any) -> None:
    for tally in (UsageTally("openai"), UsageTally("anthropic")):
        tally.observe(first)
        tally.observe({"input_tokens": second, "cache_creation": second, "prompt_tokens_details": second})
        tokens = tally.tokens()
        assert all(
            value is None or value >= 0 for value in (tokens.input_uncached, tokens.output, tokens.cache_read)
        )


@pytest.mark.parametrize("count", [MAX_COUNT + 1, 10**18, 10**40])
def test_a_count_that_no_model_can_reach_is_unknown(count: int) -> None:
    """Whoever sums such counts would leave 64 bits, and stop."""
    openai = from_answer("openai", {"usage": {"prompt_tokens": count, "completion_tokens": 3}})
    assert (openai.input_uncached, openai.output) == (None, 3)
    anthropic = from_answer("anthropic", {"usage": {"input_tokens": 4, "output_tokens": count}})
    assert (anthropic.input_uncached, anthropic.output) == (4, None)
