"""What chat completions and responses say in the same words: tools, sampling, identity; read from either."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tidegate.gateway.dialects.blocks import CacheMark, Effort, OutputFormat, Sampling, Tool, ToolChoice
from tidegate.gateway.dialects.effort import ORDER
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields


def sampling(top: Fields) -> Sampling:
    """Numbers that steer the choice of tokens."""
    return Sampling(
        temperature=top.number("temperature"),
        top_p=top.number("top_p"),
        top_k=top.integer("top_k"),
        frequency_penalty=top.number("frequency_penalty"),
        presence_penalty=top.number("presence_penalty"),
        seed=top.integer("seed"),
    )


def output_limit(top: Fields, name: str) -> int | None:
    """A bound on the answer's tokens. Vendors that take 0 mean by it that no answer is wanted: nothing another
    dialect can ask for."""
    limit = top.integer(name)
    if limit is not None and limit < 1:
        raise top.wrong(name, "must be at least 1 where the upstream speaks another dialect")
    return limit


def stream_options(top: Fields) -> None:
    """How a stream is padded, and whether it ends with usage, concerns the client's side alone."""
    options = top.inner("stream_options")
    if options is not None:
        options.raw("include_usage")
        options.raw("include_obfuscation")


def user(top: Fields) -> str | None:
    """The end user's pseudonym."""
    old, new = top.text("user"), top.text("safety_identifier")
    return new or old


def effort(fields: Fields, name: str) -> Effort | None:
    """A word of reasoning effort."""
    word = fields.text(name)
    for known in ORDER:
        if word == known:
            return known
    if word is not None:
        raise fields.wrong(name, f"must be one of {', '.join(ORDER)}")
    return None


def cache_mark(part: Fields) -> CacheMark | None:
    """Where a reusable prefix ends: Anthropic's mark, which many vendors take, or OpenAI's own, which lasts longer."""
    mark, breakpoint_ = part.json("cache_control"), part.json("prompt_cache_breakpoint")
    return mark if mark is not None or breakpoint_ is None else {"type": "ephemeral", "ttl": "1h"}


def function(fields: Fields, mark: dict[str, Any] | None = None) -> Tool:
    """A function tool."""
    return Tool(
        fields.needed_text("name"),
        fields.text("description"),
        fields.json("parameters"),
        fields.flag("strict"),
        cache=mark,
    )


def custom(fields: Fields) -> Tool:
    """A tool that takes free text. Chat completions put the grammar one level deeper than responses."""
    form = fields.json("format")
    if form is not None and isinstance(form.get("grammar"), dict):
        form = {name: form[name] for name in form if name != "grammar"} | form["grammar"]
    return Tool(
        fields.needed_text("name"),
        fields.text("description"),
        is_custom=True,
        format=form,
    )


def json_schema(fields: Fields) -> OutputFormat:
    """A `json_schema` object."""
    schema = fields.json("schema")
    if schema is None:
        raise fields.wrong("schema", "is missing")
    return OutputFormat(
        schema, fields.text("name") or "answer", fields.text("description"), fields.flag("strict")
    )


def tool_choice(top: Fields, notes: Notes, inner_name: bool) -> ToolChoice | None:
    """`tool_choice` as a word or an object; chat completions nest the name below the tool's type."""
    value = top.raw("tool_choice")
    if isinstance(value, str):
        if value in {"auto", "none", "required"}:
            return ToolChoice(value)  # type: ignore[arg-type]
        raise top.wrong("tool_choice", "must be auto, none, required or an object")
    choice = top.inner("tool_choice")
    if choice is None:
        return None
    kind = choice.needed_text("type")
    if kind in {"function", "custom"}:
        named = choice.inner(kind) if inner_name else choice
        return ToolChoice("named", named.needed_text("name") if named else "")
    if kind == "allowed_tools":
        among = choice.inner(kind) if inner_name else choice
        if among is None:
            raise choice.wrong(kind, "is missing")
        return _allowed(among, notes, inner_name)
    raise choice.wrong("type", "is a choice that cannot be translated")


def _allowed(choice: Fields, notes: Notes, inner_name: bool) -> ToolChoice:
    """A choice among some of the tools. The provider's own are none that could be called elsewhere."""
    mode = choice.needed_text("mode")
    if mode not in {"auto", "required"}:
        raise choice.wrong("mode", "must be auto or required")
    names: list[str] = []
    for entry in choice.each("tools"):
        kind = entry.needed_text("type")
        if kind in {"function", "custom"}:
            named = entry.inner(kind) if inner_name else entry
            names.append(named.needed_text("name") if named else "")
        leave_item(entry, "tool_choice.tools", notes)
    return ToolChoice(mode, allowed=tuple(names))  # type: ignore[arg-type]


def leave(top: Fields, notes: Notes, harmless: dict[str, Any]) -> None:
    """Note every field that nobody read, also inside the others; those whose value changes nothing are passed over
    in silence."""
    for name in top.unread():
        if name not in harmless or top.raw(name) != harmless[name]:
            notes.drop(name)
    for name in top.unread_inside():
        notes.drop(name)


ALWAYS = object()
"""A harmless field's value when any is."""


def leave_item(
    item: Fields, kind: str, notes: Notes, harmless: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Note what nobody read of an object in a list, by the list's name and its own; not where its value is the
    `harmless` one."""
    for name in item.unread():
        value = harmless.get(name)
        if value is None or (value is not ALWAYS and value != item.raw(name)):
            notes.drop(f"{kind}.{name}")
    for full in item.unread_inside():
        notes.drop(f"{kind}.{full.rpartition('.')[2]}")


def refuse(top: Fields, reasons: dict[str, str]) -> None:
    """Refuse fields that would change the meaning if they were dropped; empty and false ones change nothing."""
    for name, reason in reasons.items():
        if top.raw(name):
            raise top.wrong(name, reason)
