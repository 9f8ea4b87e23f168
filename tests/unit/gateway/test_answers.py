"""What under a 200 is an answer, and what is an error in whatever dress."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.events.types import Cause, Dialect
from tidegate.gateway.answers import lacks, produced_tokens
from tidegate.gateway.taxonomy import classify_event, error_in

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        ("openai", {"choices": [CHOICE]}),
        ("openai", {"choices": []}),
        ("openai", {"choices": [CHOICE], "error": {"message": "cut"}}),
        ("openai", {"choices": [CHOICE], "error": None}),
        ("anthropic", {"type": "message", "content": []}),
        ("openai-responses", {"output": [], "error": None, "status": "incomplete"}),
        ("openai-responses", {"output": []}),
        ("openai-embeddings", {"data": []}),
    ],
)
def test_an_answer_has_what_every_client_reads(dialect: Dialect, answer: dict[str, Any]) -> None:
    assert lacks(dialect, answer) is None


@pytest.mark.parametrize(
    ("dialect", "answer", "lacking"),
    [
        ("openai", {}, "choices"),
        ("openai", {"choices": None}, "choices"),
        ("openai", {"choices": [], "error": {"message": "down"}}, "choices"),
        ("openai", {"detail": "internal failure"}, "choices"),
        ("anthropic", {"type": "message"}, "message content"),
        ("anthropic", {"content": []}, "message content"),
        ("anthropic", {"choices": [CHOICE]}, "message content"),
        ("anthropic", {"error": {"type": "overloaded_error"}}, "message content"),
        ("openai-responses", {"status": "failed", "output": []}, "output"),
        ("openai-responses", {"status": "completed"}, "output"),
        ("openai-embeddings", {"object": "list"}, "data"),
    ],
)
def test_what_no_client_can_read_is_no_answer(dialect: Dialect, answer: dict[str, Any], lacking: str) -> None:
    assert lacks(dialect, answer) == lacking


@pytest.mark.parametrize(
    ("data", "cause", "rule"),
    [
        (
            {"error": {"type": "overloaded_error", "message": "x"}},
            "unavailable",
            "event_type:overloaded_error",
        ),
        ({"object": "error", "message": "boom", "code": 500}, "unavailable", "event_status_500_typed"),
        ({"type": "error", "message": "too many requests"}, "rate_limited", "event_text_rate"),
        ({"error": {"message": "x", "code": 429}}, "rate_limited", "event_status_429_typed"),
        ({"error": "Service Unavailable"}, "unavailable", "event_text_unavailable"),
        ({"error": {"message": "x", "code": 7}}, "unknown", "event_none"),
    ],
)
def test_an_error_is_found_in_every_shape(data: dict[str, Any], cause: Cause, rule: str) -> None:
    failure = classify_event(data, 0)
    assert (failure.cause, failure.rule) == (cause, rule)
    assert error_in(data)


@pytest.mark.parametrize(
    "data", [[], None, {}, {"error": None}, {"error": ""}, {"type": "error"}, {"detail": "x"}]
)
def test_what_names_no_error_holds_none(data: Any) -> None:
    assert error_in(data) == {}


@pytest.mark.parametrize(
    ("dialect", "answer", "tokens"),
    [
        ("openai", {"choices": [{"message": {"content": "hello"}}]}, 9),
        ("openai", {"choices": []}, 1),
        ("anthropic", {"content": [{"type": "text", "text": "hello"}]}, 8),
        ("openai-responses", {"output": [{"type": "message", "content": [{"text": "x" * 400}]}]}, 111),
        ("openai-embeddings", {"data": [{"embedding": [0.5] * 1_000}]}, 0),
        ("openai", {}, 0),
    ],
)
def test_what_an_answer_without_usage_is_taken_to_have_cost_follows_from_what_it_says(
    dialect: Dialect, answer: dict[str, Any], tokens: int
) -> None:
    assert produced_tokens(dialect, answer) == tokens
