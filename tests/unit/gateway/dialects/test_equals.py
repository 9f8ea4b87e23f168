"""What one dialect has a word for and another says otherwise is said otherwise, not refused and not left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.dialect_calls import body, sent
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN, Quirks

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"
SCHEMA = {"type": "object", "properties": {}}


def function(wire: Wire, name: str) -> dict[str, Any]:
    if wire == M:
        return {"name": name, "input_schema": SCHEMA}
    inner = {"name": name, "parameters": SCHEMA}
    return {"type": "function", "function": inner} if wire == C else {"type": "function", **inner}


def custom(wire: Wire, name: str) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": name}} if wire == C else {"type": "custom", "name": name}


def named(wire: Wire, kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, kind: {"name": name}} if wire == C else {"type": kind, "name": name}


def allowed(wire: Wire, mode: str, *entries: dict[str, Any]) -> dict[str, Any]:
    among = {"mode": mode, "tools": [*entries]}
    return {"type": "allowed_tools", **({"allowed_tools": among} if wire == C else among)}


def names(wire: Wire, made: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] if wire == C else tool["name"] for tool in made["tools"]]


@pytest.mark.parametrize(("client", "upstream"), [(C, R), (C, M), (R, C), (R, M)])
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_among_some_tools_is_made_among_them(client: Wire, upstream: Wire, mode: str) -> None:
    """Responses can be told; who cannot is shown no others."""
    tools = [function(client, "a"), function(client, "b"), function(client, "c")]
    choice = allowed(client, mode, named(client, "function", "c"), named(client, "function", "a"))
    made = body(client, upstream, tools=tools, tool_choice=choice)
    if upstream == R:
        assert names(R, made) == ["a", "b", "c"]
        assert made["tool_choice"] == allowed(R, mode, named(R, "function", "a"), named(R, "function", "c"))
        return
    assert names(upstream, made) == ["a", "c"]
    word = {"auto": "auto", "required": "any" if upstream == M else "required"}[mode]
    assert made["tool_choice"] == ({"type": word} if upstream == M else word)


def test_custom_tools_may_be_among_those_that_are_allowed() -> None:
    tools = [function(C, "a"), custom(C, "patch")]
    made = body(C, R, tools=tools, tool_choice=allowed(C, "auto", named(C, "custom", "patch")))
    assert made["tool_choice"] == allowed(R, "auto", named(R, "custom", "patch"))
    made = body(R, C, tools=[function(R, "a"), custom(R, "patch")], tool_choice=allowed(R, "auto", named(R, "custom", "patch")))  # fmt: skip
    assert made["tools"] == [custom(C, "patch")]


def test_a_tool_of_a_namespace_is_allowed_by_its_own_name() -> None:
    space = {"type": "namespace", "name": "files", "tools": [function(R, "read"), function(R, "cut")]}  # fmt: skip
    made = body(R, M, tools=[space], tool_choice=allowed(R, "required", named(R, "function", "read")))
    (name,) = names(M, made)
    assert name.startswith("files_read")


@pytest.mark.parametrize("upstream", [C, M])
def test_what_is_allowed_and_cannot_be_called_elsewhere_is_not_forced(upstream: Wire) -> None:
    tools = [function(R, "a"), {"type": "web_search"}]
    asked = {"tools": tools, "tool_choice": allowed(R, "auto", {"type": "web_search"})}
    made, warnings = sent(R, upstream, PLAIN, **asked)
    assert warnings == ("tools.web_search",)
    assert made["tool_choice"] == ({"type": "none"} if upstream == M else "none")
    with pytest.raises(RequestRefused, match="names no tool that is there"):
        sent(R, upstream, PLAIN, tools=tools, tool_choice=allowed(R, "required", {"type": "web_search"}))
    with pytest.raises(RequestRefused, match="demands a call"):
        sent(R, upstream, PLAIN, tools=tools[1:], tool_choice=allowed(R, "required", {"type": "web_search"}))
    made, _ = sent(R, upstream, PLAIN, tools=tools[1:], tool_choice=allowed(R, "auto"))
    assert "tool_choice" not in made


@pytest.mark.parametrize(("client", "upstream"), [(C, R), (R, M)])
def test_what_is_unknown_of_an_allowed_tool_is_named(client: Wire, upstream: Wire) -> None:
    choice = allowed(client, "auto", {**named(client, "function", "a"), "odd": 1})
    assert sent(client, upstream, PLAIN, tools=[function(client, "a")], tool_choice=choice)[1] == ("tool_choice.tools.odd",)  # fmt: skip


@pytest.mark.parametrize(("client", "upstream"), [(C, M), (R, M), (C, R), (R, C)])
def test_a_mode_that_is_none_is_refused_by_name(client: Wire, upstream: Wire) -> None:
    with pytest.raises(RequestRefused, match="must be auto or required") as refusal:
        sent(client, upstream, PLAIN, tools=[function(client, "a")], tool_choice=allowed(client, "none"))
    assert refusal.value.field == ("tool_choice.allowed_tools.mode" if client == C else "tool_choice.mode")


@pytest.mark.parametrize(("client", "upstream"), [(C, R), (R, C)])
def test_a_prompt_is_kept_as_long_as_the_client_asks(client: Wire, upstream: Wire) -> None:
    asked: dict[str, Any] = {"prompt_cache_retention": "24h"}
    assert body(client, upstream, PLAIN, **asked)["prompt_cache_retention"] == "24h"
    assert sent(client, M, PLAIN, **asked)[1] == ("prompt_cache_retention",)


@pytest.mark.parametrize("upstream", [C, M])
def test_a_request_that_wants_no_answer_is_not_answered_elsewhere(upstream: Wire) -> None:
    with pytest.raises(RequestRefused, match="wants no answer") as refusal:
        sent(R, upstream, PLAIN, prompt_cache_options={"prewarm": True})
    assert refusal.value.field == "prompt_cache_options.prewarm"
    assert sent(R, upstream, PLAIN, prompt_cache_options={"ttl": "30m"})[1] == ("prompt_cache_options",)


def test_a_title_that_cannot_stand_beside_a_url_is_named() -> None:
    block = {"type": "document", "title": "t", "source": {"type": "url", "url": "https://a.test/1.pdf"}}
    made, warnings = sent(M, R, PLAIN, messages=[{"role": "user", "content": [block]}])
    assert made["input"][0]["content"] == [{"type": "input_file", "file_url": "https://a.test/1.pdf"}]
    assert warnings == ("messages.content.title",)


CLIENT_TOOLS: list[tuple[dict[str, Any], set[str], dict[str, Any]]] = [
    ({"type": "bash_20250124", "name": "bash"}, {"command", "restart"}, {"command": "ls"}),
    ({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9}, {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text"}, {"command": "view", "path": "/a"}),
    ({"type": "memory_20250818", "name": "memory"}, {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text", "old_path", "new_path"}, {"command": "rename", "old_path": "a", "new_path": "b"}),
]  # fmt: skip


@pytest.mark.parametrize("upstream", [C, R])
@pytest.mark.parametrize(("tool", "fields", "call"), CLIENT_TOOLS)
def test_a_tool_that_the_client_runs_is_a_function_elsewhere(
    upstream: Wire, tool: dict[str, Any], fields: set[str], call: dict[str, Any]
) -> None:
    """With the form that Anthropic's models know without being told; its calls come back as they would there."""
    asked = {
        "model": "route",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "q"}],
        "tools": [tool],
    }
    made = translate.request(M, upstream, asked, model="m")
    assert made.warnings == ()
    (written,) = json.loads(made.body)["tools"]
    told = written.get("function", written)
    assert (written["type"], told["name"]) == ("function", tool["name"])
    assert told["description"]
    assert told["parameters"]["properties"].keys() == fields
    arguments = json.dumps(call)
    if upstream == C:
        calls = [{"id": "c", "type": "function", "function": {"name": tool["name"], "arguments": arguments}}]
        said = {"role": "assistant", "content": None, "tool_calls": calls}
        answer: dict[str, Any] = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": said}]}
    else:
        item = {"type": "function_call", "call_id": "c", "name": tool["name"], "arguments": arguments}
        answer = {"status": "completed", "output": [item]}
    back = json.loads(translate.answer(M, upstream, json.dumps(answer).encode(), made.context))
    assert back["content"] == [{"type": "tool_use", "id": "c", "name": tool["name"], "input": call}]
    assert back["stop_reason"] == "tool_use"


def test_the_client_may_force_and_mark_such_a_tool() -> None:
    mark = {"type": "ephemeral"}
    tool = {"type": "bash_20250124", "name": "bash", "cache_control": mark, "strict": True}
    choice = {"type": "tool", "name": "bash"}
    made, warnings = sent(M, C, Quirks(cache_control=True), tools=[tool], tool_choice=choice)
    assert made["tools"][0]["cache_control"] == mark
    assert made["tool_choice"] == {"type": "function", "function": {"name": "bash"}}
    assert warnings == ("tools.strict",)


def test_a_tool_that_only_its_provider_runs_is_named_as_left_out() -> None:
    for kind in ("web_search_20260318", "code_execution_20260521", "text_editor_20250124"):
        made, warnings = sent(M, C, PLAIN, tools=[{"type": kind, "name": "x"}])
        assert "tools" not in made
        assert warnings == (f"tools.{kind}",)


def test_a_tool_that_was_found_is_named_where_all_are_there_from_the_start() -> None:
    found = [{"type": "tool_reference", "tool_name": "far"}]
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "search", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": found}]},
    ]
    tools = [function(M, "search"), {**function(M, "far"), "defer_loading": True}]
    made, warnings = sent(M, C, PLAIN, messages=turns, tools=tools)
    assert made["messages"][2] == {"role": "tool", "tool_call_id": "c", "content": "far"}
    assert names(C, made) == ["search", "far"]
    assert warnings == ("tools.defer_loading",)


@pytest.mark.parametrize("upstream", [C, M])
def test_tools_that_come_with_an_item_are_there_from_the_start(upstream: Wire) -> None:
    items = [
        {"role": "user", "content": "q"},
        {"type": "additional_tools", "role": "developer", "tools": [function(R, "a"), function(R, "late")]},
        {"type": "tool_search_call", "arguments": {}, "call_id": "c", "execution": "client"},
        {"type": "tool_search_output", "call_id": "c", "tools": [function(R, "found"), {"type": "mcp"}]},
        {"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "server_label": "s", "output": "o"},
        {"role": "user", "content": "and now?"},
    ]
    made, warnings = sent(R, upstream, PLAIN, input=items, tools=[function(R, "a")])
    assert names(upstream, made) == ["a", "late", "found"]
    assert "and now?" in json.dumps(made["messages"])
    assert warnings == ("input.tool_search_call", "input.mcp_call", "tools.mcp")
