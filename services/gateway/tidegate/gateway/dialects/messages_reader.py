"""An Anthropic messages request -> the content model."""

from typing import Any

from tidegate.gateway.dialects import instructions, messages_content, messages_tools, openai_options
from tidegate.gateway.dialects.blocks import (
    Message,
    OutputFormat,
    Reasoning,
    Request,
    Role,
    Sampling,
    ToolChoice,
)
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.tool_choices import is_strict

_ELSEWHERE = "cannot be translated: the upstream speaks another dialect"
_REFUSED = {"mcp_servers": _ELSEWHERE, "container": _ELSEWHERE, "inference_geo": _ELSEWHERE}
_HARMLESS: dict[str, Any] = {"mcp_servers": [], "speed": "standard"}
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_TIERS = {"auto": "auto", "standard_only": "default"}


def read(body: dict[str, Any], notes: Notes) -> Request:
    """Raises RequestRefused."""
    top = Fields(body, "")
    openai_options.refuse(top, _REFUSED)
    if not top.list("messages"):
        raise top.wrong("messages", "must hold at least one message")
    config = top.inner("output_config")
    choice, parallel = _choice(top)
    top.raw("model")
    request = Request(
        system=messages_content.instructions(top, "system", notes),
        messages=instructions.worded((_message(message, notes) for message in top.each("messages")), notes),
        tools=tuple(tool for item in top.each("tools") if (tool := messages_tools.read(item, notes))),
        tool_choice=choice,
        parallel_tools=parallel,
        output=_output(top, config),
        sampling=Sampling(
            temperature=top.number("temperature"),
            top_p=top.number("top_p"),
            top_k=top.integer("top_k"),
        ),
        max_output_tokens=openai_options.output_limit(top, "max_tokens"),
        stop=_stop(top),
        reasoning=_reasoning(top, config),
        user=_user(top, notes),
        service_tier=_tier(top, notes),
        cache=top.json("cache_control"),
        stream=bool(top.flag("stream")),
    )
    openai_options.leave(top, notes, _HARMLESS)
    return request


def _tier(top: Fields, notes: Notes) -> str | None:
    word = top.text("service_tier")
    if word is not None and word not in _TIERS:
        notes.drop("service_tier")
    return _TIERS.get(word or "")


def _message(message: Fields, notes: Notes) -> Message:
    role = message.needed_text("role")
    if role not in _ROLES:
        raise message.wrong("role", "must be user, assistant or system")
    blocks = messages_content.read(message, "content", notes)
    openai_options.leave_item(message, "messages", notes)
    return Message(_ROLES[role], tuple(blocks))


def _choice(top: Fields) -> tuple[ToolChoice | None, bool | None]:
    choice = top.inner("tool_choice")
    if choice is None:
        return None, None
    parallel = False if choice.flag("disable_parallel_tool_use") else None
    kind = choice.needed_text("type")
    if kind == "tool":
        return ToolChoice("named", choice.needed_text("name")), parallel
    if kind == "any":
        return ToolChoice("required"), parallel
    if kind in {"auto", "none"}:
        return ToolChoice("auto" if kind == "auto" else "none"), parallel
    raise choice.wrong("type", "must be auto, any, tool or none")


def _output(top: Fields, config: Fields | None) -> OutputFormat | None:
    form = (config.inner("format") if config else None) or top.inner("output_format")
    if form is None:
        return None
    if form.text("type") not in {None, "json_schema"}:
        raise form.wrong("type", "must be json_schema")
    schema = form.json("schema")
    if schema is None:
        raise form.wrong("schema", "is missing")
    return OutputFormat(schema, strict=is_strict(schema))


def _stop(top: Fields) -> tuple[str, ...]:
    words = top.list("stop_sequences")
    if not all(isinstance(word, str) for word in words):
        raise top.wrong("stop_sequences", "must be a list of strings")
    return tuple(words)


def _reasoning(top: Fields, config: Fields | None) -> Reasoning | None:
    """Thinking switched off is the effort `none`; an effort beside it does not switch it on."""
    word = openai_options.effort(config, "effort") if config else None
    thinking = top.inner("thinking")
    if thinking is None:
        return None if word is None else Reasoning(word)
    kind = thinking.needed_text("type")
    if kind == "disabled":
        return Reasoning("none")
    summary = None if thinking.text("display") == "omitted" else "auto"
    if kind == "enabled":
        return Reasoning(word, thinking.integer("budget_tokens"), summary=summary)
    return Reasoning(word, is_adaptive=True, summary=summary)


def _user(top: Fields, notes: Notes) -> str | None:
    metadata = top.inner("metadata")
    if metadata is None:
        return None
    user = metadata.text("user_id")
    for name in metadata.unread():
        notes.drop(f"metadata.{name}")
    return user
