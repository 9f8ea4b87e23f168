"""Per dialect, requests that together hold every kind of object that its reader knows."""

from __future__ import annotations

from typing import Any

from support.dialect_answers import CHAT, MESSAGES, RESPONSES

_PDF = "data:application/pdf;base64,JVBERg=="
_PNG = "https://a.test/1.png"
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
_CLOSED = _SCHEMA | {"additionalProperties": False}
_GRAMMAR = {"syntax": "lark", "definition": "start: /x/"}
_MARK = {"type": "ephemeral"}


def _chat() -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}"}}
    custom = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}
    details = [
        {
            "type": "reasoning.text",
            "format": "anthropic-claude-v1",
            "index": 0,
            "text": "hm",
            "signature": "s",
        },
        {
            "type": "reasoning.encrypted",
            "format": "openai-responses-v1",
            "id": "r",
            "data": "d",
            "summary": "m",
        },
        {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "d"},
    ]
    talk = [
        {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": _MARK}]},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": _PNG, "detail": "low"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}], "reasoning_details": details, "tool_calls": [call, custom], "annotations": [], "refusal": None},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "r"},
        {"role": "system", "content": "later"},
        {"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": _PDF}}]},
    ]  # fmt: skip
    tools = [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": _SCHEMA, "strict": False},
        },
        {"type": "custom", "custom": {"name": "g", "format": {"type": "grammar", "grammar": _GRAMMAR}}},
        {"type": "custom", "custom": {"name": "h", "format": {"type": "text"}}},
    ]
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": _CLOSED, "strict": True}}
    named = {"type": "function", "function": {"name": "f"}}
    return [
        {"messages": talk, "tools": tools, "tool_choice": named, "response_format": form},
        {"messages": talk[2:3], "response_format": {"type": "json_object"}, "metadata": {"a": "b"}},
        {"messages": talk[2:3], "tools": tools, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named, {"type": "custom", "custom": {"name": "g"}}]}}},
        {"messages": talk[2:3], "stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}, "prediction": {"type": "content", "content": "x"}},
    ]  # fmt: skip


def _messages() -> list[dict[str, Any]]:
    png = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    plain = {"type": "text", "media_type": "text/plain", "data": "words"}
    several = {
        "type": "content",
        "content": [{"type": "text", "text": "t"}, {"type": "image", "source": png}],
    }
    found = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}], "citations": {"enabled": False}}  # fmt: skip
    shown = [
        {"type": "text", "text": "q", "cache_control": _MARK, "citations": []},
        {"type": "image", "source": png, "transformations": {}},
        {"type": "image", "source": {"type": "url", "url": _PNG}},
        {"type": "document", "source": pdf, "title": "t", "context": "c", "citations": {"enabled": False}},
        {"type": "document", "source": plain, "title": "t", "context": "c"},
        {"type": "document", "source": several},
        found,
    ]
    said = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "a"},
        {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "w",
            "content": [{"type": "web_search_result", "url": "u"}],
        },
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": {"b": 1}}, "caller": {"type": "direct"}},
    ]
    reference = {"type": "tool_reference", "tool_name": "f"}
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "is_error": True,
        "content": [*shown[:3], reference],
    }
    talk = [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": said},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    ]
    tools = [
        {"name": "f", "description": "d", "input_schema": _CLOSED, "strict": True, "cache_control": _MARK},
        {"type": "web_search_20250305", "name": "web_search", "user_location": {"type": "approximate"}},
        {"type": "bash_20250124", "name": "bash", "cache_control": _MARK},
    ]
    by_url = {
        "role": "user",
        "content": [{"type": "document", "source": {"type": "url", "url": "https://a.test/a.pdf"}}],
    }
    asked = {"max_tokens": 90, "messages": talk, "tools": tools}
    return [
        asked | {"system": [{"type": "text", "text": "s", "cache_control": _MARK}], "tool_choice": {"type": "tool", "name": "f"}, "metadata": {"user_id": "u"}},
        asked | {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": _CLOSED}}, "cache_control": _MARK},
        {"max_tokens": 90, "messages": [by_url], "context_management": {"edits": [{"type": "clear"}]}},
    ]  # fmt: skip


def _responses() -> list[dict[str, Any]]:
    said = {"type": "output_text", "text": "a", "annotations": [], "logprobs": []}
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "s"}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "q"},
            {"type": "input_image", "image_url": _PNG, "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": _PDF},
        ]},
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "message", "role": "assistant", "id": "m1", "status": "completed", "content": [said, {"type": "refusal", "refusal": "no"}]},
        {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f", "namespace": "n", "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}, {"type": "input_image", "image_url": _PNG}]},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "r"},
        {"role": "system", "content": "later"},
        {"role": "user", "content": "and?"},
    ]  # fmt: skip
    function = {"type": "function", "name": "f", "description": "d", "parameters": _SCHEMA, "strict": False}
    tools = [
        {"type": "namespace", "name": "n", "tools": [function]},
        {"type": "custom", "name": "g", "format": {"type": "grammar", **_GRAMMAR}},
        {"type": "web_search", "user_location": {"type": "approximate"}},
        function | {"name": "h"},
    ]
    form = {
        "format": {"type": "json_schema", "name": "n", "schema": _CLOSED, "strict": True},
        "verbosity": "low",
    }
    named = {"type": "function", "name": "h"}
    late = [
        {"type": "additional_tools", "role": "developer", "tools": [function | {"name": "late"}]},
        {"type": "tool_search_output", "call_id": "c3", "tools": [function | {"name": "found"}]},
    ]
    return [
        {"input": items, "tools": tools, "tool_choice": named, "text": form, "instructions": "i"},
        {"input": "q", "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}},
        {"input": "q", "stream": True, "stream_options": {"include_obfuscation": False}, "text": {"format": {"type": "json_object"}}},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://a.test/a.pdf"}]}]},
        {"input": [items[0], *late, {"role": "user", "content": "q"}], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "late"}, {"type": "web_search"}]}},
    ]  # fmt: skip


EVERYTHING: dict[str, list[dict[str, Any]]] = {CHAT: _chat(), MESSAGES: _messages(), RESPONSES: _responses()}
