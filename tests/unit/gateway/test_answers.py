"""What under a 200 is an answer, and what is an error in whatever dress."""

from __future__ import annotations

import copy
from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.dialect_answers import WIRES, Wire, stream, whole
from support.dialect_answers import Said as Block
from support.dialect_corpus import spec as corpus_spec
from tidegate.events.types import Cause, Dialect
from tidegate.gateway.answers import lacks, produced_tokens
from tidegate.gateway.said import Said
from tidegate.gateway.said import produced_tokens as produced_of_stream
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
        ("openai", {"choices": [{"message": {"content": "hello"}}]}, 2),
        ("openai", {"choices": [{"message": {"content": "hello"}}, {"message": {"refusal": "hello friend"}}]}, 5),
        ("openai", {"choices": [{"message": {"content": "hey", "audio": {"data": "UklG" * 99, "transcript": "friends"}}}]}, 3),
        ("openai", {"choices": [{"message": {"content": "hey", "reasoning_details": [{"data": "c2Vh" * 99}]}}]}, 1),
        ("openai", {"choices": [{"message": {"content": "hey"}, "logprobs": {"content": [{"token": "hey"}] * 99}}]}, 1),
        ("openai", {"choices": [{"message": None}, 3, {}]}, 0),
        ("openai", {"choices": []}, 0),
        ("anthropic", {"content": [{"type": "text", "text": "hello"}]}, 2),
        ("anthropic", {"content": [{"type": "thinking", "thinking": "hello", "signature": "c2Vh" * 999}]}, 2),
        ("anthropic", {"content": [{"type": "redacted_thinking", "data": "c2Vh" * 999}]}, 0),
        ("anthropic", {"content": [{"type": "text", "text": "hello", "citations": [{"cited_text": "x" * 999}]}]}, 2),
        ("anthropic", {"content": [{"type": "web_search_tool_result", "content": [{"text": "x" * 999}]}]}, 0),
        ("openai-responses", {"output": [{"type": "message", "content": [{"text": "x" * 400}]}]}, 100),
        ("openai-responses", {"output": [{"type": "reasoning", "summary": [], "encrypted_content": "x" * 999}]}, 0),
        ("openai-responses", {"output": [{"type": "message", "content": [{"transcript": "hello", "audio": "x" * 99}]}]}, 2),
        ("openai-embeddings", {"data": [{"embedding": [0.5] * 1_000}]}, 0),
        ("openai", {}, 0),
    ],
)  # fmt: skip
def test_what_an_answer_without_usage_is_taken_to_have_cost_follows_from_what_it_says(
    dialect: Dialect, answer: dict[str, Any], tokens: int
) -> None:
    assert produced_tokens(dialect, answer, None) == tokens
    assert produced_tokens(dialect, answer, 1) == min(1, tokens)


def _compact(block: Block) -> str:
    if block.kind != "tool":
        return block.text
    value = orjson.loads(block.text)
    return orjson.dumps(value).decode() if value else ""


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_a_whole_answer_is_estimated_as_the_stream_that_says_the_same(wire: Wire, seed: int) -> None:
    random = Random(seed)
    spec = corpus_spec(random, wire)
    if wire == "anthropic":  # an object has no blanks, and none is said of one without members
        spec = replace(spec, blocks=tuple(replace(each, text=_compact(each)) for each in spec.blocks))
    streamed = Said(wire)
    streamed.add(stream(wire, spec, random))
    answer = whole(wire, spec)
    told = produced_tokens(wire, answer, None)
    assert told == produced_of_stream(0, streamed.size_bytes, None)
    bare = copy.deepcopy(answer)
    for part in (*bare.get("content", ()), *bare.get("output", ())):
        for sealed in ("signature", "data", "encrypted_content"):
            part.pop(sealed, None)
    for choice in bare.get("choices", ()):
        choice.pop("logprobs", None)
    assert produced_tokens(wire, bare, None) == told
