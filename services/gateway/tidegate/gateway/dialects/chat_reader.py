"""A chat completions request -> the content model."""

from typing import Any

from tidegate.gateway.dialects import chat_messages, instructions, openai_options
from tidegate.gateway.dialects.blocks import OutputFormat, Reasoning, Request, Tool
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields

_REFUSED = {
    "functions": "is outdated: use tools",
    "function_call": "is outdated: use tool_choice",
    "audio": "cannot be translated: the upstream speaks another dialect",
    "moderation": "cannot be translated: the upstream speaks another dialect",
    "logit_bias": "names tokens of one vendor; the upstream is another's",
}
_HARMLESS: dict[str, Any] = {
    "logprobs": False,
    "store": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "functions": [],
}


def read(body: dict[str, Any], notes: Notes) -> Request:
    """Raises RequestRefused."""
    top = Fields(body, "")
    openai_options.refuse(top, _REFUSED)
    if top.raw("web_search_options") is not None:  # an empty object asks for a search, too
        raise top.wrong("web_search_options", "cannot be translated: the upstream speaks another dialect")
    if (top.integer("n") or 1) != 1:
        raise top.wrong("n", "more than one answer cannot be asked from an upstream of another dialect")
    if any(kind != "text" for kind in top.list("modalities")):
        raise top.wrong("modalities", "only text can be translated")
    system, messages = instructions.split(chat_messages.read(top, notes), notes)
    effort = openai_options.effort(top, "reasoning_effort")
    openai_options.stream_options(top)
    top.raw("model")
    request = Request(
        system=system,
        messages=messages,
        tools=tuple(tool for item in top.each("tools") if (tool := _tool(item, notes))),
        tool_choice=openai_options.tool_choice(top, notes, inner_name=True),
        parallel_tools=top.flag("parallel_tool_calls"),
        output=_output(top),
        verbosity=top.text("verbosity"),
        sampling=openai_options.sampling(top),
        max_output_tokens=_max_output_tokens(top),
        stop=_stop(top),
        reasoning=None if effort is None else Reasoning(effort),
        user=openai_options.user(top),
        metadata=top.json("metadata"),
        cache_key=top.text("prompt_cache_key"),
        cache_retention=top.text("prompt_cache_retention"),
        service_tier=top.text("service_tier"),
        stream=bool(top.flag("stream")),
    )
    openai_options.leave(top, notes, _HARMLESS)
    return request


def _max_output_tokens(top: Fields) -> int | None:
    old = openai_options.output_limit(top, "max_tokens")
    new = openai_options.output_limit(top, "max_completion_tokens")
    return old if new is None else new


def _stop(top: Fields) -> tuple[str, ...]:
    value = top.raw("stop")
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise top.wrong("stop", "must be a string or a list of strings")


def _tool(item: Fields, notes: Notes) -> Tool | None:
    kind = item.text("type") or "function"
    if kind in {"function", "custom"}:
        inner = item.inner(kind)
        if inner is None:
            raise item.wrong(kind, "is missing")
        mark = item.json("cache_control")
        tool = openai_options.custom(inner) if kind == "custom" else openai_options.function(inner, mark)
        openai_options.leave_item(item, "tools", notes)
        return tool
    notes.drop(f"tools.{kind}")
    return None


def _output(top: Fields) -> OutputFormat | None:
    form = top.inner("response_format")
    kind = form.needed_text("type") if form else "text"
    if form is None or kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat()
    schema = form.inner("json_schema") if kind == "json_schema" else None
    if schema is None:
        raise form.wrong("type", "must be text, json_object or json_schema")
    return openai_options.json_schema(schema)
