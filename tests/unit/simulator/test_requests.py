"""Requests are read strictly, and tokens are a quarter of the bytes that count."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.simulator import anthropic_ask, openai_ask
from tidegate.simulator.ask import PLACEHOLDER_BYTES
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.tokens import count

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}


def openai(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields})


def anthropic(**fields: Any) -> bytes:
    return orjson.dumps(
        {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **fields}
    )


def test_openai_counts_tools_texts_calls_and_a_fixed_size_for_images() -> None:
    conversation = [
        {"role": "system", "content": "abc"},
        {"role": "user", "content": [{"type": "text", "text": "é"}, IMAGE]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "look"}}]},
    ]
    ask = openai_ask.read(openai(messages=conversation, tools=[TOOL]))
    texts = orjson.dumps([TOOL]) + b"abc" + "é".encode()
    assert ask.prompt.startswith(texts)
    assert ask.prompt.endswith(b'{"name":"look"}')
    assert len(ask.prompt) == len(texts) + PLACEHOLDER_BYTES + len(b'{"name":"look"}')
    assert ask.tools == ("look",)


def test_anthropic_counts_in_the_order_tools_system_messages_and_keeps_breakpoints() -> None:
    keep = {"type": "ephemeral"}
    ask = anthropic_ask.read(
        anthropic(
            tools=[{"name": "look", "input_schema": {}, "cache_control": {**keep, "ttl": "1h"}}],
            system=[{"type": "text", "text": "sys", "cache_control": keep}],
            messages=[
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {"a": 1}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "content": "yes", "cache_control": keep}],
                },
            ],
        )
    )
    tool, rest = ask.prompt.split(b"syshi")
    assert rest == b'{"a":1}yes'
    assert [mark.end_byte for mark in ask.marks] == [len(tool), len(tool) + 3, len(ask.prompt)]
    assert [mark.hour for mark in ask.marks] == [True, False, False]


def test_a_breakpoint_on_the_whole_request_covers_the_whole_prompt() -> None:
    ask = anthropic_ask.read(anthropic(cache_control={"type": "ephemeral"}))
    assert [mark.end_byte for mark in ask.marks] == [len(ask.prompt)]


def test_a_system_message_may_stand_inside_a_conversation() -> None:
    conversation = [{"role": "user", "content": "hi"}, {"role": "system", "content": "yo"}]
    assert anthropic_ask.read(anthropic(messages=conversation)).prompt == b"hiyo"


def test_a_fault_behind_the_model_is_split_off_and_the_model_stays_as_sent() -> None:
    ask = openai_ask.read(openai(model="m!cut;after_tokens=2"))
    assert (ask.model, ask.name, ask.fault) == ("m!cut;after_tokens=2", "m", "cut;after_tokens=2")
    assert openai_ask.read(openai()).fault is None


def test_usage_is_shown_in_a_stream_only_when_asked_for() -> None:
    assert openai_ask.read(openai()).show_usage
    assert not openai_ask.read(openai(stream=True)).show_usage
    assert openai_ask.read(openai(stream=True, stream_options={"include_usage": True})).show_usage


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        openai(model=None),
        openai(messages=[]),
        openai(messages="hi"),
        openai(messages=[{"role": "robot", "content": "hi"}]),
        openai(messages=[{"role": "user", "content": 5}]),
        openai(messages=[{"role": "user", "content": [{"text": "no type"}]}]),
        openai(messages=[{"role": "user", "content": [{"type": "text"}]}]),
        openai(n=2),
        openai(stream="yes"),
        openai(stream_options=5, stream=True),
        openai(max_tokens=0),
        openai(max_completion_tokens=True),
        openai(tools=[{"type": "function"}]),
    ],
)
def test_a_bad_chat_completion_is_refused_with_400(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        openai_ask.read(body)
    assert caught.value.status == 400
    assert caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        anthropic(max_tokens=None),
        anthropic(messages=[{"role": "system", "content": "hi"}]),
        anthropic(messages=[{"role": "user", "content": [{"type": "text"}]}]),
        anthropic(messages=[{"role": "user", "content": ["hi"]}]),
        anthropic(system=5),
        anthropic(cache_control={"type": "forever"}),
        anthropic(cache_control={"type": "ephemeral", "ttl": "2h"}),
    ],
)
def test_a_bad_message_is_refused_with_400(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        anthropic_ask.read(body)
    assert caught.value.status == 400


@given(st.text())
def test_tokens_are_a_quarter_of_the_utf8_bytes_rounded_up(text: str) -> None:
    ask = openai_ask.read(openai(messages=[{"role": "user", "content": text}]))
    size = len(text.encode())
    assert len(ask.prompt) == size
    assert count(size) * 4 - 3 <= size <= count(size) * 4 or size == 0
