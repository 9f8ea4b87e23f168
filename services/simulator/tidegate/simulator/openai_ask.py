"""Reads the body of `POST /v1/chat/completions`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.simulator.ask import (
    Ask,
    compact,
    flag,
    messages,
    objects,
    placeholder,
    positive,
    read_json,
    split_model,
    spoken,
    texts,
    tier,
    words,
)
from tidegate.simulator.refusal import invalid
from tidegate.simulator.transcript import Talk, Transcript, Words

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_WORDS = Words(
    unanswered="An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {id}",
    unexpected="Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'.",
    duplicate="",
    param="messages",
)


def read(body: bytes) -> Ask:
    """Body bytes to Ask. Raises Refusal 400 that names the field."""
    fields = read_json(body)
    model, name, fault = split_model(fields)
    if fields.get("n") not in (None, 1):
        raise invalid("'n' above 1 is not supported by this model", "n")
    stream = flag(fields, "stream")
    tools = objects(fields, "tools")
    conversation = messages(fields, ROLES)
    return Ask(
        model=model,
        name=name,
        fault=fault,
        stream=stream,
        show_usage=not stream or _include_usage(fields),
        output_cap=positive(fields, "max_completion_tokens") or positive(fields, "max_tokens"),
        prompt=b"".join(_segments(tools, conversation)),
        marks=(),
        tools=tuple(_tool(tool)[0] for tool in tools),
        schemas=dict(_tool(tool) for tool in tools),
        customs=frozenset(_tool(tool)[0] for tool in tools if tool.get("type") == "custom"),
        talk=_talk(conversation),
        form=_form(fields.get("response_format")),
        stops=words(fields, "stop"),
        logprobs=flag(fields, "logprobs"),
        fields=frozenset(fields),
        roles=frozenset(message["role"] for message in conversation),
        service_tier=tier(fields),
        searches=fields.get("web_search_options") is not None,
    )


def _include_usage(fields: dict[str, Any]) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise invalid("'stream_options' must be an object", "stream_options")
    return flag(options, "include_usage")


def _tool(tool: dict[str, Any]) -> tuple[str, Any]:
    """The name of a tool and the schema of its arguments."""
    function = tool.get("custom" if tool.get("type") == "custom" else "function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str):
        raise invalid("every tool needs function.name", "tools")
    return name, function.get("parameters")


def _form(wanted: Any) -> Mapping[str, Any] | None:
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_object", "json_schema"):
        return None
    holder = wanted.get("json_schema")
    schema = holder.get("schema") if isinstance(holder, dict) else None
    return schema if isinstance(schema, dict) else {}


def _talk(conversation: list[dict[str, Any]]) -> Talk:
    script = Transcript(_WORDS, ordered=True)
    for place, message in enumerate(conversation):
        where = f"messages[{place}]"
        if message["role"] == "assistant":
            script.between(where)
            script.assistant(where)
            for call in objects(message, "tool_calls"):
                script.call(str(call.get("id")), where)
        elif message["role"] == "tool":
            script.result(str(message.get("tool_call_id")), spoken(message.get("content")), where)
        else:
            script.user(where)
    return script.talk(f"messages[{len(conversation)}]")


def _segments(tools: list[dict[str, Any]], conversation: list[dict[str, Any]]) -> Iterator[bytes]:
    if tools:
        yield compact(tools)
    for place, message in enumerate(conversation):
        content = message.get("content")
        if isinstance(content, list):
            for part in content:
                yield _part(part, place)
        else:
            yield from texts(content, f"messages[{place}]")
        for call in objects(message, "tool_calls"):
            yield compact(call.get("custom" if call.get("type") == "custom" else "function"))


def _part(part: Any, place: int) -> bytes:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise invalid(f"messages[{place}].content has a part without a type", "messages")
    if part["type"] in ("text", "refusal"):
        text = part.get(part["type"])
        if not isinstance(text, str):
            raise invalid(f"messages[{place}].content has a {part['type']} part without text", "messages")
        return text.encode("utf-8", "surrogatepass")
    return placeholder(part)
