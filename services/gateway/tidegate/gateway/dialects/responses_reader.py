"""A responses request -> the content model."""

from collections.abc import Iterator
from typing import Any

from tidegate.gateway.dialects import instructions, openai_options, responses_items
from tidegate.gateway.dialects.blocks import OutputFormat, Reasoning, Request, Text, Tool
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.names import join_namespace

_ELSEWHERE = "cannot be translated: the upstream speaks another dialect"
STORED = {
    "previous_response_id": "nothing is stored here: send the whole conversation as `input`",
    "conversation": "nothing is stored here: send the whole conversation as `input`",
}
"""Fields that name a state some provider keeps: refused whatever the upstream speaks."""
_REFUSED = STORED | {
    "prompt": "names a template stored at one provider",
    "background": _ELSEWHERE,
    "moderation": _ELSEWHERE,
}
_HARMLESS: dict[str, Any] = {
    "store": False,
    "truncation": "disabled",
    "background": False,
    "top_logprobs": 0,
}
_OF_TOOL_ITEMS: dict[str, Any] = dict.fromkeys(
    ("id", "status", "role", "call_id", "execution"), openai_options.ALWAYS
)
"""What an item that brings tools says of itself: nothing another vendor could use."""
_ENCRYPTED = "reasoning.encrypted_content"


def read(body: dict[str, Any], notes: Notes) -> Request:
    """Raises RequestRefused."""
    top = Fields(body, "")
    openai_options.refuse(top, _REFUSED)
    _note_cache_options(top, notes)
    system, messages = instructions.split(responses_items.read(top, notes), notes)
    if words := top.text("instructions"):
        system = (Text(words), *system)
    form, verbosity = _text(top)
    for kind in top.list("include"):
        if kind != _ENCRYPTED:
            notes.drop(f"include.{kind}")
    top.raw("model")
    openai_options.stream_options(top)
    request = Request(
        system=system,
        messages=messages,
        tools=_all_tools(top, notes),
        tool_choice=openai_options.tool_choice(top, notes, inner_name=False),
        parallel_tools=top.flag("parallel_tool_calls"),
        output=form,
        verbosity=verbosity,
        sampling=openai_options.sampling(top),
        max_output_tokens=openai_options.output_limit(top, "max_output_tokens"),
        reasoning=_reasoning(top, notes),
        user=openai_options.user(top),
        metadata=top.json("metadata"),
        cache_key=top.text("prompt_cache_key"),
        cache_retention=top.text("prompt_cache_retention"),
        service_tier=top.text("service_tier"),
        stream=bool(top.flag("stream")),
    )
    openai_options.leave(top, notes, _HARMLESS)
    return request


def _note_cache_options(top: Fields, notes: Notes) -> None:
    options = top.json("prompt_cache_options")
    if options is not None and options.get("prewarm"):
        raise top.wrong("prompt_cache_options.prewarm", "wants no answer: no other dialect can be asked so")
    if options is not None:
        notes.drop("prompt_cache_options")


def _all_tools(top: Fields, notes: Notes) -> tuple[Tool, ...]:
    """Those of the request, then those that came with an item: elsewhere every tool is there from the start."""
    found: dict[str, Tool] = {}
    later: list[Fields] = []
    if isinstance(top.raw("input"), list):
        later = [item for item in top.each("input") if item.raw("type") in responses_items.WITH_TOOLS]
    for owner in (top, *later):
        for tool in [tool for item in owner.each("tools") for tool in _tools(item, notes)]:
            found.setdefault(tool.name, tool)
    for item in later:
        openai_options.leave_item(item, "input", notes, _OF_TOOL_ITEMS)
    return tuple(found.values())


def _tools(item: Fields, notes: Notes, namespace: str | None = None) -> Iterator[Tool]:
    kind = item.needed_text("type")
    if kind == "namespace":
        for inner in item.each("tools"):
            yield from _tools(inner, notes, item.needed_text("name"))
        openai_options.leave_item(item, "tools.namespace", notes)
        return
    if kind not in {"function", "custom"}:
        notes.drop(f"tools.{kind}")
        return
    tool = openai_options.function(item) if kind == "function" else openai_options.custom(item)
    openai_options.leave_item(item, "tools", notes)
    yield Tool(
        join_namespace(namespace, tool.name),
        tool.description,
        tool.schema,
        tool.strict,
        tool.is_custom,
        tool.format,
    )


def _text(top: Fields) -> tuple[OutputFormat | None, str | None]:
    text = top.inner("text")
    if text is None:
        return None, None
    verbosity, form = text.text("verbosity"), text.inner("format")
    kind = form.needed_text("type") if form else "text"
    if form is None or kind == "text":
        return None, verbosity
    if kind == "json_object":
        return OutputFormat(), verbosity
    if kind == "json_schema":
        return openai_options.json_schema(form), verbosity
    raise form.wrong("type", "must be text, json_object or json_schema")


def _reasoning(top: Fields, notes: Notes) -> Reasoning | None:
    reasoning = top.inner("reasoning")
    if reasoning is None:
        return None
    effort = openai_options.effort(reasoning, "effort")
    summary = reasoning.text("summary") or reasoning.text("generate_summary")
    for name in reasoning.unread():
        notes.drop(f"reasoning.{name}")
    return None if effort is None and summary is None else Reasoning(effort, summary=summary)
