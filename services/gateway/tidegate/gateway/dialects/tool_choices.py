"""Rules about tools that hold whatever the upstream speaks."""

from typing import Any, Literal

import msgspec

from tidegate.gateway.dialects.blocks import Request, Tool, ToolChoice
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.names import split_namespace

Kind = Literal["auto", "none", "required", "named"]


def checked(request: Request) -> Request:
    """The request with a choice that can be made. Raises RequestRefused.

    A tool may have been left out because no other vendor has it: then nobody may be forced to call it.
    """
    choice = request.tool_choice
    if choice is None or choice.kind in {"auto", "none"}:
        if choice is not None and choice.allowed is not None and request.tools:
            return _allowed(request, choice.kind, choice.allowed)
        return request if request.tools else msgspec.structs.replace(request, tool_choice=None)
    if not request.tools:
        raise RequestRefused("tool_choice", "demands a call, and no tool can be translated")
    if choice.kind == "required":
        return request if choice.allowed is None else _allowed(request, choice.kind, choice.allowed)
    names = [tool.name for tool in request.tools]
    named = [name for name in names if choice.name in {name, split_namespace(name)[1]}]
    if not named:
        raise RequestRefused("tool_choice", "names a tool that is not there or cannot be translated")
    return msgspec.structs.replace(request, tool_choice=ToolChoice("named", named[0]))


def _allowed(request: Request, kind: Kind, wanted: tuple[str, ...]) -> Request:
    """What may be called, by the names of the tools that are there."""
    names = tuple(
        tool.name
        for tool in request.tools
        if not {tool.name, split_namespace(tool.name)[1]}.isdisjoint(wanted)
    )
    if not names and kind == "required":
        raise RequestRefused("tool_choice", "names no tool that is there or can be translated")
    choice = ToolChoice(kind, allowed=names) if names else ToolChoice("none")
    return msgspec.structs.replace(request, tool_choice=choice)


def narrowed(request: Request) -> Request:
    """The same for those who cannot choose among some of the tools: they are shown no others."""
    choice = request.tool_choice
    if choice is None or choice.allowed is None:
        return request
    tools = tuple(tool for tool in request.tools if tool.name in choice.allowed)
    return msgspec.structs.replace(request, tools=tools, tool_choice=ToolChoice(choice.kind))


def is_strict(schema: Any) -> bool:
    """Does a schema follow the rules of OpenAI's strict mode: nothing optional, nothing additional?

    Anthropic's strict schemas may have optional properties; OpenAI refuses such requests.
    """
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        required = schema.get("required")
        names = set(properties) if isinstance(properties, dict) else set()
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if not names <= {name for name in required if isinstance(name, str)}:
            return False
    inner = [value for name, value in schema.items() if name not in {"properties", "const", "enum"}]
    return all(map(is_strict, inner)) and (
        not isinstance(properties, dict) or all(map(is_strict, properties.values()))
    )


def note_grammar(tool: Tool, notes: Notes) -> None:
    """A function has no place for the grammar of a custom tool's text; that it is text goes without saying."""
    if tool.format is not None and tool.format != {"type": "text"}:
        notes.drop("tools.format")


def with_type(schema: dict[str, Any] | None) -> dict[str, Any]:
    """A tool's schema as all vendors take it: an object that says so."""
    if not schema:
        return {"type": "object", "properties": {}}
    return schema if "type" in schema else {"type": "object", **schema}
