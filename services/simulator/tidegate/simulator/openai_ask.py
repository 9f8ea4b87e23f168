"""Reads the body of `POST /v1/chat/completions`."""

from collections.abc import Iterator
from typing import Any

from tidegate.simulator.ask import (
    Ask,
    compact,
    flag,
    invalid,
    messages,
    objects,
    placeholder,
    positive,
    read_json,
    split_model,
    texts,
)

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def read(body: bytes) -> Ask:
    """Body bytes to Ask. Raises Refusal 400 that names the field."""
    fields = read_json(body)
    model, name, fault = split_model(fields)
    if fields.get("n") not in (None, 1):
        raise invalid("'n' above 1 is not supported by this model", "n")
    stream = flag(fields, "stream")
    tools = objects(fields, "tools")
    return Ask(
        model=model,
        name=name,
        fault=fault,
        stream=stream,
        show_usage=not stream or _include_usage(fields),
        output_cap=positive(fields, "max_completion_tokens") or positive(fields, "max_tokens"),
        prompt=b"".join(_segments(tools, messages(fields, ROLES))),
        marks=(),
        tools=tuple(_tool_name(tool) for tool in tools),
    )


def _include_usage(fields: dict[str, Any]) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise invalid("'stream_options' must be an object", "stream_options")
    return flag(options, "include_usage")


def _tool_name(tool: dict[str, Any]) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise invalid("every tool needs function.name", "tools")
    return name


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
            yield compact(call.get("function"))


def _part(part: Any, place: int) -> bytes:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise invalid(f"messages[{place}].content has a part without a type", "messages")
    if part["type"] in ("text", "refusal"):
        text = part.get(part["type"])
        if not isinstance(text, str):
            raise invalid(f"messages[{place}].content has a {part['type']} part without text", "messages")
        return text.encode("utf-8", "surrogatepass")
    return placeholder(part)
