"""No field that a client's SDK can send is lost without a word when the upstream speaks another dialect."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from support.dialect_calls import sent
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"
DECLARED: dict[Wire, Any] = {
    C: CompletionCreateParamsNonStreaming,
    M: MessageCreateParamsNonStreaming,
    R: ResponseCreateParamsNonStreaming,
}
VALUES: list[Any] = [
    *(True, 2, 0.25, "x", "low", ["x"], [{"type": "x"}], {"type": "x"}, {"x": "y"}, {"id": "x"}),
]
SAID: dict[Wire, set[str]] = {
    C: {"model", "messages", "stream_options", "parallel_tool_calls"},
    M: {"model", "messages", "max_tokens"},
    R: {"model", "input", "stream_options", "parallel_tool_calls"},
}
"""What every request has, what only says how a stream is padded, and what means nothing without tools."""


@pytest.mark.parametrize("client", DECLARED)
def test_every_field_is_carried_over_or_named_or_refused(client: Wire) -> None:
    lost: list[Any] = []
    for field in DECLARED[client].__annotations__.keys() - SAID[client]:
        for upstream in DECLARED.keys() - {client}:
            plain = sent(client, upstream, PLAIN)
            for value in VALUES:
                try:
                    found = sent(client, upstream, PLAIN, **{field: value})
                except RequestRefused:
                    continue
                if found == plain:
                    lost.append((upstream, field, value))
    assert lost == []


ODD = {"odd": 1}
SCHEMA = {"type": "object"}
INSIDE: list[tuple[Wire, dict[str, Any], str]] = [
    (C, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, **ODD}}}, "response_format.json_schema.odd"),
    (C, {"response_format": {"type": "text", **ODD}}, "response_format.odd"),
    (C, {"tools": [{"type": "function", "function": {"name": "f"}, **ODD}]}, "tools.odd"),
    (C, {"tools": [{"type": "function", "function": {"name": "f", **ODD}}]}, "tools.odd"),
    (C, {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "function", "function": {"name": "f"}, **ODD}}, "tool_choice.odd"),
    (C, {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "function", "function": {"name": "f", **ODD}}}, "tool_choice.function.odd"),
    (R, {"text": {"verbosity": "low", **ODD}}, "text.odd"),
    (R, {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, **ODD}}}, "text.format.odd"),
    (R, {"reasoning": {"effort": "low", **ODD}}, "reasoning.odd"),
    (R, {"tools": [{"type": "function", "name": "f", **ODD}]}, "tools.odd"),
    (R, {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", **ODD}]}]}, "tools.odd"),
    (M, {"output_config": {"effort": "low", **ODD}}, "output_config.odd"),
    (M, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA, **ODD}}}, "output_config.format.odd"),
    (M, {"thinking": {"type": "adaptive", **ODD}}, "thinking.odd"),
    (M, {"tools": [{"name": "f", "input_schema": SCHEMA, **ODD}]}, "tools.odd"),
    (M, {"tools": [{"name": "f", "input_schema": SCHEMA}], "tool_choice": {"type": "auto", **ODD}}, "tool_choice.odd"),
    (M, {"metadata": {"user_id": "u", **ODD}}, "metadata.odd"),
    (M, {"service_tier": "odd"}, "service_tier"),
]  # fmt: skip


PARTS: list[tuple[Wire, dict[str, Any]]] = [
    (C, {"type": "image_url", "image_url": {"url": "https://a.test/1.png", **ODD}}),
    (C, {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg==", **ODD}}),
    (C, {"type": "text", "text": "a", **ODD}),
    (M, {"type": "image", "source": {"type": "url", "url": "https://a.test/1.png", **ODD}}),
    (M, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO", **ODD}}),
    (M, {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a", **ODD}}),
    (M, {"type": "text", "text": "a", **ODD}),
    (R, {"type": "input_image", "image_url": "https://a.test/1.png", **ODD}),
    (R, {"type": "input_text", "text": "a", **ODD}),
]


@pytest.mark.parametrize(("client", "part"), PARTS)
def test_what_is_unknown_inside_a_part_is_named_and_nothing_else(client: Wire, part: dict[str, Any]) -> None:
    name = "input" if client == R else "messages"
    for upstream in DECLARED.keys() - {client}:
        turns = [{"role": "user", "content": [part]}]
        assert sent(client, upstream, PLAIN, **{name: turns})[1] == (f"{name}.content.odd",), upstream


@pytest.mark.parametrize(("client", "asked", "name"), INSIDE)
def test_what_is_unknown_inside_a_field_is_named_too(client: Wire, asked: dict[str, Any], name: str) -> None:
    for upstream in DECLARED.keys() - {client}:
        assert name in sent(client, upstream, PLAIN, **asked)[1], upstream


def test_a_form_of_answers_that_is_none_of_messages_is_refused() -> None:
    with pytest.raises(RequestRefused, match="must be json_schema") as refusal:
        sent(M, C, PLAIN, output_config={"format": {"type": "grammar", "schema": SCHEMA}})
    assert refusal.value.field == "output_config.format.type"
