"""Reads the body of `POST /v1/responses`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.simulator.ask import (
    Ask,
    compact,
    echoed,
    flag,
    is_search,
    objects,
    placeholder,
    positive,
    read_json,
    split_model,
    tier,
)
from tidegate.simulator.refusal import invalid
from tidegate.simulator.responses_talk import told
from tidegate.simulator.stored import AnswerStore

ROLES = frozenset({"system", "developer", "user", "assistant"})
ENCRYPTED = "reasoning.encrypted_content"
ECHOED = (
    "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id",
    "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "store", "temperature", "text",
    "tool_choice", "tools", "top_p", "truncation", "user",
)  # fmt: skip
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}


def read(body: bytes, store: AnswerStore) -> Ask:
    """Body bytes to Ask, with what went before an earlier answer put in front. Raises Refusal 400."""
    fields = read_json(body)
    model, name, fault = split_model(fields)
    tools = objects(fields, "tools")
    previous = fields.get("previous_response_id")
    earlier = store.items(str(previous)) if previous is not None else []
    items = [*earlier, *_items(fields)]
    named = [tool for tool in tools if isinstance(tool.get("name"), str)]
    return Ask(
        model=model,
        name=name,
        fault=fault,
        stream=flag(fields, "stream"),
        show_usage=True,
        output_cap=positive(fields, "max_output_tokens"),
        prompt=b"".join(_segments(tools, fields.get("instructions"), items)),
        marks=(),
        tools=tuple(tool["name"] for tool in named),
        schemas={tool["name"]: tool.get("parameters") for tool in named},
        customs=frozenset(tool["name"] for tool in named if tool.get("type") == "custom"),
        talk=told(items),
        form=_form(fields.get("text")),
        logprobs="message.output_text.logprobs" in _include(fields),
        fields=frozenset(fields),
        roles=frozenset(str(item.get("role")) for item in items if "role" in item),
        service_tier=tier(fields),
        searches=any(map(is_search, tools)),
        echo={**echoed(fields, ECHOED), "include": _include(fields), "items": items},
    )


def _items(fields: dict[str, Any]) -> list[dict[str, Any]]:
    given = fields.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    items = objects(fields, "input")
    if not items and fields.get("previous_response_id") is None:
        raise invalid("One of 'input' or 'previous_response_id' must be provided.", "input")
    return [{"type": "message", **item} if "role" in item else item for item in items]


def _include(fields: dict[str, Any]) -> list[str]:
    wanted = fields.get("include") or []
    if not isinstance(wanted, list) or not all(isinstance(entry, str) for entry in wanted):
        raise invalid("'include' must be a list of strings", "include")
    return wanted


def _form(text: Any) -> Mapping[str, Any] | None:
    wanted = text.get("format") if isinstance(text, dict) else None
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_object", "json_schema"):
        return None
    schema = wanted.get("schema")
    return schema if isinstance(schema, dict) else {}


def _segments(tools: list[dict[str, Any]], instructions: Any, items: list[dict[str, Any]]) -> Iterator[bytes]:
    if tools:
        yield compact(tools)
    if isinstance(instructions, str):
        yield _encoded(instructions)
    for place, item in enumerate(items):
        yield from _item(item, f"input[{place}]")


def _item(item: dict[str, Any], where: str) -> Iterator[bytes]:
    kind = item.get("type")
    if kind == "message":
        if item.get("role") not in ROLES:
            raise invalid(f"{where}.role must be one of {', '.join(sorted(ROLES))}", "input")
        yield from _content(item.get("content"), where)
    elif kind in _CALLS:
        yield compact({"name": item.get("name"), _CALLS[kind]: item.get(_CALLS[kind])})
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield from _content(item.get("output"), where)
    elif kind == "reasoning":
        for part in objects(item, "summary"):
            yield _encoded(str(part.get("text", "")))
    elif isinstance(kind, str):
        yield placeholder(item)
    else:
        raise invalid(f"{where} needs a type", "input")


def _content(content: Any, where: str) -> Iterator[bytes]:
    if isinstance(content, str):
        yield _encoded(content)
        return
    if not isinstance(content, list):
        raise invalid(f"{where}.content must be a string or a list of parts", "input")
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise invalid(f"{where}.content has a part without a type", "input")
        field = _TEXTS.get(part["type"])
        yield placeholder(part) if field is None else _encoded(str(part.get(field, "")))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
