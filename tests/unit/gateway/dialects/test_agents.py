"""What coding agents send, in small: nothing of it is refused, and what is left out is known."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from support.dialect_answers import MESSAGES, RESPONSES, Said, Spec, stream
from support.dialect_calls import streamed
from tidegate.gateway.dialects import translate

CLAUDE_CODE: dict[str, Any] = {
    "model": "route",
    "max_tokens": 32_000,
    "stream": True,
    "metadata": {"user_id": "user_1_account__session_2"},
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=8f3a1;"},
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "medium"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "tools": [
        {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}},
        {"name": "mcp__a_server__a_tool", "description": "d", "input_schema": {"type": "object"}, "eager_input_streaming": True},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>"}, {"type": "text", "text": "Fix it."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False, "cache_control": {"type": "ephemeral"}}
            ],
        },
    ],
}  # fmt: skip

CODEX: dict[str, Any] = {
    "model": "route",
    "instructions": "You are an agent.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAA"},
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
        {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
    ],
    "tools": [
        {"type": "function", "name": "exec_command", "description": "d", "strict": False, "parameters": {"type": "object", "properties": {}}},
        {"type": "custom", "name": "apply_patch", "description": "d", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
        {"type": "namespace", "name": "mcp__files", "description": "d", "tools": [{"type": "function", "name": "read", "parameters": {}}]},
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "text": {"verbosity": "low"},
    "client_metadata": {"x": "y"},
}  # fmt: skip


def test_claude_code_reaches_openai_models() -> None:
    made = translate.request(MESSAGES, "openai", CLAUDE_CODE, model="m")
    assert set(made.warnings) == {
        "tools.eager_input_streaming", "system.billing_header", "context_management", "cache_control", "thinking",
    }  # fmt: skip
    body = json.loads(made.body)
    assert body["messages"][0] == {"role": "system", "content": "You are an agent.\n\nRules."}
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["reasoning_effort"] == "medium"
    body = json.loads(translate.request(MESSAGES, RESPONSES, CLAUDE_CODE, model="m").body)
    assert body["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert [item["type"] for item in body["input"]] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]


def test_codex_reaches_anthropics_models_and_gets_its_own_tools_back() -> None:
    made = translate.request(RESPONSES, MESSAGES, CODEX, model="m")
    assert set(made.warnings) == {
        "tools.web_search",
        "tools.format",
        "tools.namespace.description",
        "client_metadata",
        "verbosity",
        "prompt_cache_key",
        "thinking",
    }
    body = json.loads(made.body)
    assert [text["text"] for text in body["system"]] == ["You are an agent.", "<permissions>"]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    names = [tool["name"] for tool in body["tools"]]
    blocks = (
        Said("thinking", "hm", "c2ln"),
        Said("tool", '{"input": "*** Begin Patch"}', call_id="toolu_1", name="apply_patch"),
        Said("tool", '{"path": "a"}', call_id="toolu_2", name=names[2]),
    )
    answer = stream(MESSAGES, Spec("msg_1", "u", blocks, "tool_use", 1, 0, 0, 2, 0), Random(1))
    step, found = streamed(RESPONSES, MESSAGES, answer, made.context)
    assert step.terminal
    thought, patch, read = found[-1]["response"]["output"]
    assert thought["encrypted_content"] == "tidegate:anthropic:signature:c2ln"
    assert (patch["type"], patch["name"], patch["input"]) == (
        "custom_tool_call",
        "apply_patch",
        "*** Begin Patch",
    )
    assert (read["type"], read["namespace"], read["name"]) == ("function_call", "mcp__files", "read")
    next_turn = CODEX | {"input": [*CODEX["input"], thought, patch, read]}
    body = json.loads(translate.request(RESPONSES, MESSAGES, next_turn, model="m").body)
    assert body["messages"][-1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    assert [block["name"] for block in body["messages"][-1]["content"][1:]] == ["apply_patch", names[2]]


def test_codex_reaches_chat_models() -> None:
    made = translate.request(RESPONSES, "openai", CODEX, model="m")
    body = json.loads(made.body)
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert body["prompt_cache_key"] == "0199"
    assert body["parallel_tool_calls"] is True
