"""The content model -> an Anthropic messages request, in a fixed order of names."""

from typing import Any

from tidegate.gateway.dialects import closed_schema, messages_thinking
from tidegate.gateway.dialects.arguments import CUSTOM_SCHEMA
from tidegate.gateway.dialects.blocks import Message, OutputFormat, Request, Text, Tool
from tidegate.gateway.dialects.chat_turns import has_mark
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.messages_turns import Turns, is_blank, marked
from tidegate.gateway.dialects.names import ToolNames
from tidegate.gateway.dialects.quirks import Quirks
from tidegate.gateway.dialects.tool_choices import narrowed, note_grammar, with_type

MAX_NAME_CHARACTERS = 128
_TIERS = {"auto": "auto", "default": "standard_only"}
_MAX_TEMPERATURE = 1.0
_UNSAID = ("frequency_penalty", "presence_penalty", "seed")


def write(request: Request, model: str, quirks: Quirks, names: ToolNames, notes: Notes) -> dict[str, Any]:
    """Raises RequestRefused."""
    request = narrowed(request)
    system = tuple(text for text in request.system if not is_blank(text.text))
    messages = request.messages
    if not messages:
        system, messages = (), (Message("user", system),)
        notes.drop("messages.role.system")
    turns = Turns(quirks, names, notes).write(messages)
    if not turns:
        raise RequestRefused("messages", "must say something")
    thinking = messages_thinking.of(request, quirks, notes)
    body: dict[str, Any] = {"model": model, "max_tokens": thinking.max_tokens}
    if request.tools:
        body["tools"] = [_tool(tool, quirks, names, notes) for tool in request.tools]
    if system:
        body["system"] = [marked({"type": "text", "text": text.text}, text.cache) for text in system]
    body["messages"] = turns
    config = thinking.output_config | _format(request.output, quirks, notes)
    fields: dict[str, Any] = {
        "tool_choice": _choice(request, names),
        "thinking": thinking.thinking,
        "output_config": config or None,
        "stop_sequences": list(request.stop) or None,
        **_sampling(request, thinking.is_on, notes),
        "metadata": None if request.user is None else {"user_id": request.user},
        "service_tier": _TIERS.get(request.service_tier or ""),
        "cache_control": _auto_cache(request, system, quirks),
        "stream": request.stream or None,
    }
    _note_unsaid(request, notes)
    return body | {name: value for name, value in fields.items() if value is not None}


def _tool(tool: Tool, quirks: Quirks, names: ToolNames, notes: Notes) -> dict[str, Any]:
    written: dict[str, Any] = {"name": names.out(tool.name)}
    if tool.description is not None:
        written["description"] = tool.description
    note_grammar(tool, notes)
    schema = CUSTOM_SCHEMA if tool.is_custom else with_type(tool.schema)
    if tool.strict and not quirks.no_strict_tools:
        written["input_schema"] = _closed(schema, "tools.strict", notes)
        written["strict"] = True
    else:
        written["input_schema"] = schema
    return marked(written, tool.cache)


def _choice(request: Request, names: ToolNames) -> dict[str, Any] | None:
    choice, one_at_a_time = request.tool_choice, request.parallel_tools is False
    if not request.tools or (choice is None and not one_at_a_time):
        return None
    if choice is None or choice.kind == "auto":
        written: dict[str, Any] = {"type": "auto"}
    elif choice.kind == "none":
        return {"type": "none"}
    elif choice.kind == "required":
        written = {"type": "any"}
    else:
        written = {"type": "tool", "name": names.out(choice.name)}
    return written | ({"disable_parallel_tool_use": True} if one_at_a_time else {})


def _closed(schema: dict[str, Any], field: str, notes: Notes) -> dict[str, Any]:
    made = closed_schema.closed(schema, field)
    if made is not schema:
        notes.drop(f"{field}.schema")
    return made


def _format(output: OutputFormat | None, quirks: Quirks, notes: Notes) -> dict[str, Any]:
    if output is None:
        return {}
    if output.schema is None:
        raise RequestRefused("response_format", "the upstream has no JSON mode without a schema")
    if quirks.no_structured_output:
        raise RequestRefused("response_format", "the target takes no JSON schema for its answers")
    schema = _closed(output.schema, "response_format", notes)
    if output.description is not None and "description" in schema:
        notes.drop("response_format.description")
    elif output.description is not None:
        schema = schema | {"description": output.description}
    return {"format": {"type": "json_schema", "schema": schema}}


def _sampling(request: Request, thinks: bool, notes: Notes) -> dict[str, Any]:
    """Thinking leaves no choice of temperature; it goes to 1 only, where OpenAI's goes to 2."""
    sampling = request.sampling
    temperature, top_p, top_k = sampling.temperature, sampling.top_p, sampling.top_k
    if temperature is not None and temperature > _MAX_TEMPERATURE:
        notes.drop("temperature.above_1")
        temperature = _MAX_TEMPERATURE
    if thinks:
        for name, value in (("temperature", temperature), ("top_p", top_p), ("top_k", top_k)):
            if value not in {None, 1}:
                notes.drop(name)
        return {}
    return {"temperature": temperature, "top_p": top_p, "top_k": top_k}


def _auto_cache(request: Request, system: tuple[Text, ...], quirks: Quirks) -> dict[str, Any] | None:
    if request.cache is not None or not quirks.auto_cache:
        return request.cache
    blocks = [*system, *(block for message in request.messages for block in message.blocks)]
    has_marks = any(map(has_mark, blocks)) or any(tool.cache is not None for tool in request.tools)
    return None if has_marks else {"type": "ephemeral"}


def _note_unsaid(request: Request, notes: Notes) -> None:
    for name in _UNSAID:
        if getattr(request.sampling, name) is not None:
            notes.drop(name)
    if request.verbosity is not None:
        notes.drop("verbosity")
    if request.metadata:
        notes.drop("metadata")
    if request.cache_key is not None:
        notes.drop("prompt_cache_key")
    if request.cache_retention is not None:
        notes.drop("prompt_cache_retention")
    if request.service_tier is not None and request.service_tier not in _TIERS:
        notes.drop("service_tier")
