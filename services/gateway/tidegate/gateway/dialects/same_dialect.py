"""A request that stays in its dialect: every field passes, only what the target declares it cannot take is changed."""

from collections.abc import Callable
from typing import Any

from tidegate.gateway.dialects.blocks import Effort, Sampling, Wire
from tidegate.gateway.dialects.effort import ORDER, nearest
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.names import short_id
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.dialects.responses_reader import STORED

_Json = dict[str, Any]


def write(wire: Wire, body: _Json, model: str, quirks: Quirks, notes: Notes) -> _Json:
    """The body for the target; names keep their order. Raises RequestRefused."""
    written = body | {"model": model}
    if wire == "openai-responses":
        for name, reason in STORED.items():
            if body.get(name):
                raise RequestRefused(name, reason)
    if quirks == PLAIN:
        return written
    if quirks.no_sampling:
        for name in Sampling.__struct_fields__:
            if written.get(name) is not None:
                notes.drop(name)
                written = _without(written, name)
    return _EDITS[wire](written, quirks, notes)


def _edit_chat(body: _Json, quirks: Quirks, notes: Notes) -> _Json:
    other = "max_tokens" if quirks.max_tokens_field == "max_completion_tokens" else "max_completion_tokens"
    if body.get(other) is not None and quirks.max_tokens_field not in body:
        body = {quirks.max_tokens_field if name == other else name: value for name, value in body.items()}
    if quirks.no_stream_options:
        body = _without(body, "stream_options")
    body = _edit_tools(body, quirks, notes)
    if quirks.no_structured_output and _kind(body.get("response_format")) == "json_schema":
        raise RequestRefused("response_format", "the target takes no JSON schema for its answers")
    body = _edit_effort(body, "reasoning_effort", quirks, notes)
    messages = body.get("messages")
    if isinstance(messages, list):
        body = body | {"messages": [_edit_message(message, quirks) for message in messages]}
    return body


def _edit_message(message: Any, quirks: Quirks) -> Any:
    if not isinstance(message, dict):
        return message
    if quirks.no_developer_role and message.get("role") == "developer":
        message = message | {"role": "system"}
    if quirks.short_tool_ids:
        message = _with_short_ids(message)
    if quirks.reasoning_field and message.get("role") == "assistant":
        other = "reasoning" if quirks.reasoning_field == "reasoning_content" else "reasoning_content"
        if message.get(other) and not message.get(quirks.reasoning_field):
            message = {
                quirks.reasoning_field if name == other else name: value
                for name, value in message.items()
                if name != quirks.reasoning_field
            }
    return message


def _with_short_ids(message: _Json) -> _Json:
    if isinstance(message.get("tool_call_id"), str):
        message = message | {"tool_call_id": short_id(message["tool_call_id"])}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message = message | {"tool_calls": [_with_short_id(call) for call in calls]}
    return message


def _with_short_id(call: Any) -> Any:
    if isinstance(call, dict) and isinstance(call.get("id"), str):
        return call | {"id": short_id(call["id"])}
    return call


def _edit_messages(body: _Json, quirks: Quirks, notes: Notes) -> _Json:
    body = _edit_tools(body, quirks, notes)
    if quirks.no_reasoning_effort and body.get("thinking") is not None:
        notes.drop("thinking")
        body = _without(body, "thinking")
    return body


def _edit_responses(body: _Json, quirks: Quirks, notes: Notes) -> _Json:
    body = _edit_tools(body, quirks, notes)
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        body = body | {"reasoning": _edit_effort(reasoning, "effort", quirks, notes)}
    items = body.get("input")
    if isinstance(items, list):
        body = body | {"input": [_edit_message(item, quirks) for item in items]}
    return body


def _edit_tools(body: _Json, quirks: Quirks, notes: Notes) -> _Json:
    if quirks.no_parallel_tool_calls and "parallel_tool_calls" in body:
        if body["parallel_tool_calls"] is False:
            notes.drop("parallel_tool_calls")
        body = _without(body, "parallel_tool_calls")
    tools = body.get("tools")
    if quirks.no_strict_tools and isinstance(tools, list):
        body = body | {"tools": [_without_strict(tool) for tool in tools]}
    return body


def _without_strict(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    function = tool.get("function")
    if isinstance(function, dict):
        return tool | {"function": _without(function, "strict")}
    return _without(tool, "strict")


def _edit_effort(body: _Json, name: str, quirks: Quirks, notes: Notes) -> _Json:
    word = body.get(name)
    if word is None:
        return body
    if quirks.no_reasoning_effort:
        notes.drop(name)
        return _without(body, name)
    known: list[Effort] = [effort for effort in ORDER if effort == word]
    return body | {name: nearest(known[0], quirks.efforts)} if known else body


def _kind(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else None


def _without(body: _Json, name: str) -> _Json:
    return {key: value for key, value in body.items() if key != name}


_EDITS: dict[Wire, Callable[[_Json, Quirks, Notes], _Json]] = {
    "openai": _edit_chat,
    "anthropic": _edit_messages,
    "openai-responses": _edit_responses,
}
