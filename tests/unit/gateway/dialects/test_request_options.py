"""Every option of a request, from each dialect into each."""

from __future__ import annotations

from typing import Any

import pytest

from support.dialect_calls import body, sent
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.dialects.tool_choices import is_strict

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
LOOSE = {"type": "object", "properties": {"a": {"type": "string"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
MESSAGES_TOOL = {"name": "f", "description": "d", "input_schema": SCHEMA}
RESPONSES_TOOL = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": False}

CARRIED: list[tuple[Wire, Wire, dict[str, Any], dict[str, Any]]] = [
    (C, M, {}, {"model": "m", "max_tokens": 8192}),
    (C, R, {}, {"model": "m", "store": False}),
    (M, C, {}, {"model": "m", "max_completion_tokens": 100}),
    (M, R, {}, {"model": "m", "max_output_tokens": 100, "store": False}),
    (C, M, {"max_tokens": 5}, {"max_tokens": 5}),
    (C, M, {"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6}),
    (C, R, {"max_completion_tokens": 600}, {"max_output_tokens": 600}),
    (R, M, {"max_output_tokens": 7}, {"max_tokens": 7}),
    (R, C, {"max_output_tokens": 7}, {"max_completion_tokens": 7}),
    (C, M, {"temperature": 0.5, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
    (M, C, {"temperature": 0}, {"temperature": 0}),
    (M, R, {"top_p": 0.2}, {"top_p": 0.2}),
    (R, C, {"top_p": 0.2, "temperature": 2}, {"top_p": 0.2, "temperature": 2}),
    (C, M, {"top_k": 4}, {"top_k": 4}),
    (R, C, {"frequency_penalty": 1, "presence_penalty": -1, "seed": 5}, {"frequency_penalty": 1, "presence_penalty": -1, "seed": 5}),
    (C, M, {"stop": "x"}, {"stop_sequences": ["x"]}),
    (C, M, {"stop": ["x", "y"]}, {"stop_sequences": ["x", "y"]}),
    (M, C, {"stop_sequences": ["x"]}, {"stop": ["x"]}),
    (C, M, {"stream": True}, {"stream": True}),
    (M, C, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    (M, R, {"stream": True}, {"stream": True}),
    (C, M, {"user": "u"}, {"metadata": {"user_id": "u"}}),
    (C, M, {"user": "u", "safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
    (M, C, {"metadata": {"user_id": "u"}}, {"user": "u"}),
    (M, R, {"metadata": {"user_id": "u"}}, {"safety_identifier": "u"}),
    (C, R, {"metadata": {"a": "b"}, "prompt_cache_key": "k"}, {"metadata": {"a": "b"}, "prompt_cache_key": "k"}),
    (R, C, {"metadata": {"a": "b"}, "prompt_cache_key": "k"}, {"metadata": {"a": "b"}, "prompt_cache_key": "k"}),
    (C, R, {"verbosity": "low"}, {"text": {"verbosity": "low"}}),
    (R, C, {"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    (C, R, {"service_tier": "flex"}, {"service_tier": "flex"}),
    (C, M, {"service_tier": "default"}, {"service_tier": "standard_only"}),
    (M, C, {"service_tier": "auto"}, {"service_tier": "auto"}),
    (M, C, {"service_tier": "standard_only"}, {"service_tier": "default"}),
    # tools
    (C, M, {"tools": [CHAT_TOOL]}, {"tools": [MESSAGES_TOOL]}),
    (C, R, {"tools": [CHAT_TOOL]}, {"tools": [RESPONSES_TOOL]}),
    (M, C, {"tools": [MESSAGES_TOOL]}, {"tools": [CHAT_TOOL]}),
    (M, R, {"tools": [MESSAGES_TOOL]}, {"tools": [RESPONSES_TOOL]}),
    (R, M, {"tools": [RESPONSES_TOOL]}, {"tools": [MESSAGES_TOOL]}),
    (C, M, {"tools": [{"function": {"name": "f"}}]}, {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]}),
    (C, R, {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}]}),
    (R, M, {"tools": [RESPONSES_TOOL | {"strict": True}]}, {"tools": [MESSAGES_TOOL | {"strict": True}]}),
    (M, C, {"tools": [MESSAGES_TOOL | {"type": "custom", "strict": True}]}, {"tools": [{"type": "function", "function": CHAT_TOOL["function"] | {"strict": True}}]}),
    (C, M, {"tools": [CHAT_TOOL], "tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    (C, M, {"tools": [CHAT_TOOL], "tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
    (C, M, {"tools": [CHAT_TOOL], "tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    (C, M, {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, {"tool_choice": {"type": "tool", "name": "f"}}),
    (C, R, {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, {"tool_choice": {"type": "function", "name": "f"}}),
    (M, C, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "tool", "name": "f"}}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
    (M, C, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
    (M, R, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
    (R, M, {"tools": [RESPONSES_TOOL], "tool_choice": {"type": "function", "name": "f"}}, {"tool_choice": {"type": "tool", "name": "f"}}),
    (C, M, {"tools": [CHAT_TOOL], "parallel_tool_calls": False}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
    (C, M, {"tools": [CHAT_TOOL], "parallel_tool_calls": False, "tool_choice": "required"}, {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}),
    (M, C, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"tool_choice": "auto", "parallel_tool_calls": False}),
    (M, R, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"parallel_tool_calls": False}),
    (R, C, {"tools": [RESPONSES_TOOL], "parallel_tool_calls": True}, {"parallel_tool_calls": True}),
    (M, C, {"tools": [MESSAGES_TOOL | {"input_schema": {"required": []}}]}, {"tools": [{"type": "function", "function": CHAT_TOOL["function"] | {"parameters": {"type": "object", "required": []}}}]}),
    # structured output
    (M, C, {"output_config": {"format": {"type": "json_schema", "schema": LOOSE}}}, {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": LOOSE, "strict": False}}}),
    (C, M, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    (C, R, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "d", "schema": SCHEMA, "strict": True}}}, {"text": {"format": {"type": "json_schema", "name": "n", "description": "d", "schema": SCHEMA, "strict": True}}}),
    (C, R, {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, {"text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}}),
    (C, R, {"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
    (R, C, {"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
    (R, C, {"text": {"format": {"type": "json_schema", "name": "n", "description": "d", "schema": SCHEMA}}}, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "d", "schema": SCHEMA}}}),
    (R, M, {"text": {"format": {"type": "text"}}}, {}),
    (M, C, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}}),
    (M, R, {"output_format": {"type": "json_schema", "schema": SCHEMA}}, {"text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}}),
    # what changes nothing is no loss
    (C, M, {"n": 1, "logprobs": False, "store": False, "response_format": {"type": "text"}, "modalities": ["text"], "frequency_penalty": None}, {}),
    (R, M, {"store": False, "truncation": "disabled", "background": False, "include": ["reasoning.encrypted_content"], "reasoning": {}}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("client", "upstream", "asked", "expected"), CARRIED)
def test_an_option_is_carried_over(
    client: Wire, upstream: Wire, asked: dict[str, Any], expected: dict[str, Any]
) -> None:
    made = body(client, upstream, **asked)
    assert {name: made.get(name) for name in expected} == expected


ABSENT: list[tuple[Wire, Wire, dict[str, Any], str]] = [
    (C, M, {}, "temperature"),
    (C, M, {}, "tool_choice"),
    (C, M, {}, "thinking"),
    (C, M, {"parallel_tool_calls": False}, "tool_choice"),
    (C, R, {"parallel_tool_calls": False}, "parallel_tool_calls"),
    (R, C, {"parallel_tool_calls": False}, "parallel_tool_calls"),
    (C, R, {}, "reasoning"),
    (C, R, {}, "include"),
    (C, R, {}, "max_output_tokens"),
    (M, C, {}, "stream_options"),
]


@pytest.mark.parametrize(("client", "upstream", "asked", "name"), ABSENT)
def test_what_was_not_said_is_not_made_up(
    client: Wire, upstream: Wire, asked: dict[str, Any], name: str
) -> None:
    assert name not in body(client, upstream, **asked)


LEFT_OUT: list[tuple[Wire, Wire, dict[str, Any], tuple[str, ...]]] = [
    (C, M, {"logprobs": True, "top_logprobs": 3}, ("logprobs", "top_logprobs")),
    (C, R, {"logprobs": True}, ("logprobs",)),
    (C, M, {"frequency_penalty": 1, "presence_penalty": 1, "seed": 1}, ("frequency_penalty", "presence_penalty", "seed")),
    (C, R, {"frequency_penalty": 1, "presence_penalty": 1, "seed": 1, "top_k": 1}, ("top_k", "frequency_penalty", "presence_penalty", "seed")),
    (M, C, {"top_k": 5}, ("top_k",)),
    (C, M, {"temperature": 1.5}, ("temperature.above_1",)),
    (C, M, {"verbosity": "low", "metadata": {"a": "b"}, "prompt_cache_key": "k", "service_tier": "flex"}, ("verbosity", "metadata", "prompt_cache_key", "service_tier")),
    (C, M, {"prediction": {"type": "content", "content": "x"}, "some_new_thing": 1}, ("prediction", "some_new_thing")),
    (C, M, {"bad\r\nname: é": 1}, ("bad__name___",)),
    (M, C, {"context_management": {}, "speed": "fast"}, ("context_management", "speed")),
    (M, C, {"metadata": {"user_id": "u", "more": 1}}, ("metadata.more",)),
    (M, R, {"max_tokens": 1}, ("max_tokens.below_16",)),
    (R, M, {"truncation": "auto", "max_tool_calls": 3, "store": True}, ("truncation", "max_tool_calls", "store")),
    (R, M, {"include": ["message.output_text.logprobs"]}, ("include.message.output_text.logprobs",)),
    (R, M, {"reasoning": {"effort": "low", "context": "auto"}}, ("reasoning.context",)),
    (C, M, {"tools": [{"type": "web_search"}]}, ("tools.web_search",)),
    (C, M, {"tools": [{"type": "web_search"}], "tool_choice": "auto"}, ("tools.web_search",)),
    (M, C, {"tools": [MESSAGES_TOOL | {"strict": True, "input_schema": LOOSE}]}, ("tools.strict",)),
    (M, C, {"tools": [{"type": "web_search_20260209", "name": "web_search"}, MESSAGES_TOOL | {"defer_loading": True}]}, ("tools.web_search_20260209", "tools.defer_loading")),
    (R, M, {"tools": [{"type": "web_search"}, {"type": "local_shell"}]}, ("tools.web_search", "tools.local_shell")),
    (M, C, {"tools": [MESSAGES_TOOL | {"cache_control": {"type": "ephemeral"}}]}, ("cache_control",)),
    (M, R, {"tools": [MESSAGES_TOOL | {"cache_control": {"type": "ephemeral"}}]}, ("cache_control",)),
]  # fmt: skip


@pytest.mark.parametrize(("client", "upstream", "asked", "names"), LEFT_OUT)
def test_what_is_left_out_is_named(
    client: Wire, upstream: Wire, asked: dict[str, Any], names: tuple[str, ...]
) -> None:
    _, warnings = sent(client, upstream, **asked)
    assert warnings == names


REFUSED: list[tuple[Wire, Wire, dict[str, Any], str]] = [
    (C, M, {"n": 2}, "n"),
    (C, R, {"n": 3}, "n"),
    (C, M, {"functions": [{"name": "f"}]}, "functions"),
    (C, M, {"function_call": "auto"}, "function_call"),
    (C, M, {"audio": {"voice": "a"}}, "audio"),
    (C, M, {"modalities": ["text", "audio"]}, "modalities"),
    (C, M, {"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
    (C, R, {"web_search_options": {}}, "web_search_options"),
    (C, M, {"moderation": {"model": "x"}}, "moderation"),
    (C, M, {"logit_bias": {"50256": -100}}, "logit_bias"),
    (C, M, {"response_format": {"type": "json_object"}}, "response_format"),
    (C, M, {"response_format": {"type": "grammar"}}, "response_format.type"),
    (C, M, {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema"),
    (C, M, {"tool_choice": "sometimes"}, "tool_choice"),
    (C, M, {"tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools"),
    (C, M, {"tool_choice": {"type": "hosted"}}, "tool_choice.type"),
    (C, M, {"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
    (C, M, {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    (C, M, {"tools": [{"type": "function"}]}, "tools[0].function"),
    (C, M, {"tools": ["f"]}, "tools[0]"),
    (C, M, {"tools": {}}, "tools"),
    (C, R, {"stop": ["x"]}, "stop"),
    (C, M, {"stop": 5}, "stop"),
    (C, M, {"stop": [5]}, "stop"),
    (C, M, {"temperature": "hot"}, "temperature"),
    (C, M, {"temperature": True}, "temperature"),
    (C, M, {"max_tokens": 1.5}, "max_tokens"),
    (C, M, {"max_tokens": True}, "max_tokens"),
    (C, M, {"stream": "yes"}, "stream"),
    (C, M, {"user": 5}, "user"),
    (C, M, {"metadata": []}, "metadata"),
    (C, M, {"stream_options": []}, "stream_options"),
    (C, M, {"reasoning_effort": "enormous"}, "reasoning_effort"),
    (C, M, {"messages": []}, "messages"),
    (C, M, {"messages": "hi"}, "messages"),
    (M, C, {"messages": []}, "messages"),
    (M, C, {"mcp_servers": [{"name": "x"}]}, "mcp_servers"),
    (M, C, {"container": "x"}, "container"),
    (M, C, {"inference_geo": "eu"}, "inference_geo"),
    (M, C, {"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
    (M, C, {"tool_choice": {}}, "tool_choice.type"),
    (M, C, {"stop_sequences": [1]}, "stop_sequences"),
    (M, C, {"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    (M, R, {"stop_sequences": ["x"]}, "stop"),
    (R, M, {"previous_response_id": "resp_1"}, "previous_response_id"),
    (R, R, {"previous_response_id": "resp_1"}, "previous_response_id"),
    (R, C, {"conversation": {"id": "x"}}, "conversation"),
    (R, C, {"prompt": {"id": "x"}}, "prompt"),
    (R, C, {"background": True}, "background"),
    (R, C, {"input": []}, "input"),
    (R, C, {"input": 5}, "input"),
    (R, C, {"text": {"format": {"type": "xml"}}}, "text.format.type"),
    (R, M, {"text": {"format": {"type": "json_object"}}}, "response_format"),
]  # fmt: skip


@pytest.mark.parametrize(("client", "upstream", "asked", "field"), REFUSED)
def test_what_cannot_be_left_out_is_refused_by_name(
    client: Wire, upstream: Wire, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestRefused) as refused:
        sent(client, upstream, **asked)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"`{field}`: ")


def test_the_number_of_warnings_is_bounded() -> None:
    unknown: dict[str, Any] = {f"unknown_{number}": 1 for number in range(100)}
    _, warnings = sent(C, M, PLAIN, **unknown)
    assert len(warnings) == 32


def test_a_body_that_cannot_be_written_is_refused() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(RequestRefused, match="nested too deep"):
        sent(M, C, tools=[MESSAGES_TOOL | {"input_schema": deep}])


def test_the_model_is_the_targets_and_the_answer_names_the_clients() -> None:
    made = translate.request(
        C, M, {"model": "route", "messages": [{"role": "user", "content": "x"}]}, model="m"
    )
    assert made.context.model == "route"
    made = translate.request(C, M, {"messages": [{"role": "user", "content": "x"}]}, model="m")
    assert made.context.model == "m"


def test_usage_is_told_only_to_chat_clients_that_asked() -> None:
    messages = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    asked = {"stream_options": {"include_usage": True}}
    assert translate.request(C, C, messages | asked, model="m").context.wants_usage
    assert not translate.request(C, C, messages, model="m").context.wants_usage
    assert translate.request(C, M, messages | asked, model="m").context.wants_usage
    assert not translate.request(C, M, messages, model="m").context.wants_usage
    assert not translate.request(C, M, messages | {"stream_options": {}}, model="m").context.wants_usage
    assert translate.request(M, C, messages | {"max_tokens": 1}, model="m").context.wants_usage


QUIRKS: list[tuple[Wire, Wire, dict[str, Any], dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    (M, C, {"max_tokens_field": "max_tokens"}, {}, {"max_tokens": 100, "max_completion_tokens": None}, ()),
    (M, C, {"no_stream_options": True}, {"stream": True}, {"stream": True, "stream_options": None}, ()),
    (M, C, {"no_parallel_tool_calls": True}, {"tools": [MESSAGES_TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"parallel_tool_calls": None}, ("parallel_tool_calls",)),
    (R, C, {"no_parallel_tool_calls": True}, {"tools": [RESPONSES_TOOL], "parallel_tool_calls": True}, {"parallel_tool_calls": None}, ()),
    (M, C, {"no_strict_tools": True}, {"tools": [MESSAGES_TOOL | {"strict": True}]}, {"tools": [CHAT_TOOL]}, ()),
    (R, M, {"no_strict_tools": True}, {"tools": [RESPONSES_TOOL | {"strict": True}]}, {"tools": [MESSAGES_TOOL]}, ()),
    (C, R, {"no_strict_tools": True}, {"tools": [{"type": "function", "function": CHAT_TOOL["function"] | {"strict": True}}]}, {"tools": [RESPONSES_TOOL]}, ()),
    (M, C, {"cache_control": True}, {"tools": [MESSAGES_TOOL | {"cache_control": {"type": "ephemeral"}}]}, {"tools": [CHAT_TOOL | {"cache_control": {"type": "ephemeral"}}]}, ()),
    (C, M, {"default_max_output_tokens": 50}, {}, {"max_tokens": 50}, ()),
    (C, M, {"auto_cache": True}, {}, {"cache_control": {"type": "ephemeral"}}, ()),
    (C, M, {"auto_cache": True}, {"tools": [CHAT_TOOL | {"cache_control": {"type": "ephemeral"}}]}, {"cache_control": None}, ()),
    (C, M, {"no_sampling": True}, {"temperature": 1, "top_p": 1}, {"temperature": None, "top_p": None}, ("temperature", "top_p")),
    (R, C, {"no_reasoning_effort": True}, {"reasoning": {"effort": "high"}}, {"reasoning_effort": None}, ("reasoning",)),
    (C, M, {"no_reasoning_effort": True}, {"reasoning_effort": "high"}, {"thinking": None, "output_config": None}, ("reasoning",)),
    (C, R, {"no_reasoning_effort": True}, {"reasoning_effort": "high"}, {"reasoning": None}, ("reasoning",)),
]  # fmt: skip


@pytest.mark.parametrize(("client", "upstream", "flags", "asked", "expected", "names"), QUIRKS)
def test_a_declared_quirk_is_respected(
    client: Wire,
    upstream: Wire,
    flags: dict[str, Any],
    asked: dict[str, Any],
    expected: dict[str, Any],
    names: tuple[str, ...],
) -> None:
    made, warnings = sent(client, upstream, Quirks(**flags), **asked)
    assert {name: made.get(name) for name in expected} == expected
    assert warnings == names


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({}, True),
        (SCHEMA, True),
        (LOOSE, False),
        (SCHEMA | {"required": []}, False),
        (SCHEMA | {"required": "a"}, False),
        (SCHEMA | {"properties": {"a": LOOSE}}, False),
        (SCHEMA | {"properties": {"a": {"type": "array", "items": LOOSE}}}, False),
        (SCHEMA | {"properties": {"a": {"anyOf": [SCHEMA, LOOSE]}}}, False),
        (SCHEMA | {"properties": {"a": {"anyOf": [SCHEMA, {"type": "null"}], "enum": [LOOSE]}}}, True),
        (SCHEMA | {"$defs": {"x": LOOSE}}, False),
        ({"type": "object"}, False),
        ({"type": "object", "additionalProperties": False, "required": [5]}, True),
    ],
)
def test_what_strict_mode_takes_is_known(schema: Any, strict: bool) -> None:
    assert is_strict(schema) == strict


@pytest.mark.parametrize(
    ("client", "upstream", "asked"),
    [
        (M, C, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (M, R, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (R, M, {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (C, C, {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
    ],
)
def test_a_schema_is_refused_where_the_target_takes_none(
    client: Wire, upstream: Wire, asked: dict[str, Any]
) -> None:
    with pytest.raises(RequestRefused, match="takes no JSON schema"):
        sent(client, upstream, Quirks(no_structured_output=True), **asked)
