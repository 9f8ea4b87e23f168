"""The content model -> a chat completions request, in a fixed order of names."""

from typing import Any

from tidegate.gateway.dialects import chat_turns, effort
from tidegate.gateway.dialects.arguments import CUSTOM_SCHEMA
from tidegate.gateway.dialects.blocks import Message, OutputFormat, Request, Tool, ToolChoice
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.names import ToolNames
from tidegate.gateway.dialects.quirks import Quirks
from tidegate.gateway.dialects.tool_choices import narrowed, note_grammar, with_type

MAX_NAME_CHARACTERS = 64


def write(request: Request, model: str, quirks: Quirks, names: ToolNames, notes: Notes) -> dict[str, Any]:
    """Raises RequestRefused."""
    request = narrowed(request)
    system = (Message("system", request.system),) if request.system else ()
    body: dict[str, Any] = {"model": model}
    if request.tools:
        body["tools"] = [_tool(tool, quirks, names, notes) for tool in request.tools]
    body["messages"] = chat_turns.Turns(quirks, names, notes).write((*system, *request.messages))
    fields: dict[str, Any] = {
        "tool_choice": _choice(request.tool_choice, request.tools, quirks, names),
        "response_format": _format(request.output, quirks),
        quirks.max_tokens_field: request.max_output_tokens,
        "stop": list(request.stop) or None,
        "temperature": request.sampling.temperature,
        "top_p": request.sampling.top_p,
        "frequency_penalty": request.sampling.frequency_penalty,
        "presence_penalty": request.sampling.presence_penalty,
        "seed": request.sampling.seed,
        "verbosity": request.verbosity,
        "metadata": request.metadata,
        "user": request.user,
        "prompt_cache_key": request.cache_key,
        "prompt_cache_retention": request.cache_retention,
        "service_tier": request.service_tier,
        **_reasoning(request, quirks, notes),
        **_parallel(request, quirks, notes),
        **_stream(request, quirks),
    }
    if request.sampling.top_k is not None:
        notes.drop("top_k")
    has_marks = any(tool.cache is not None for tool in request.tools)
    if request.cache is not None or (has_marks and not quirks.cache_control):
        notes.drop("cache_control")
    return body | {name: value for name, value in fields.items() if value is not None}


def _tool(tool: Tool, quirks: Quirks, names: ToolNames, notes: Notes) -> dict[str, Any]:
    if tool.is_custom and not quirks.no_custom_tools:
        custom: dict[str, Any] = {"name": names.out(tool.name)}
        if tool.description is not None:
            custom["description"] = tool.description
        if tool.format is not None:
            custom["format"] = _grammar(tool.format)
        return {"type": "custom", "custom": custom}
    note_grammar(tool, notes)
    function: dict[str, Any] = {"name": names.out(tool.name)}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = CUSTOM_SCHEMA if tool.is_custom else with_type(tool.schema)
    if tool.strict is not None and not quirks.no_strict_tools:
        function["strict"] = tool.strict
    written: dict[str, Any] = {"type": "function", "function": function}
    if tool.cache is not None and quirks.cache_control:
        written["cache_control"] = tool.cache
    return written


def _grammar(form: dict[str, Any]) -> dict[str, Any]:
    if form.get("type") != "grammar":
        return form
    return {"type": "grammar", "grammar": {name: form[name] for name in form if name != "type"}}


def _choice(
    choice: ToolChoice | None, tools: tuple[Tool, ...], quirks: Quirks, names: ToolNames
) -> str | dict[str, Any] | None:
    if choice is None or choice.kind != "named":
        return None if choice is None else choice.kind
    if any(tool.is_custom and tool.name == choice.name for tool in tools) and not quirks.no_custom_tools:
        return {"type": "custom", "custom": {"name": names.out(choice.name)}}
    return {"type": "function", "function": {"name": names.out(choice.name)}}


def _format(output: OutputFormat | None, quirks: Quirks) -> dict[str, Any] | None:
    if output is None:
        return None
    if output.schema is None:
        return {"type": "json_object"}
    if quirks.no_structured_output:
        raise RequestRefused("output format", "the target takes no JSON schema for its answers")
    schema: dict[str, Any] = {"name": output.name}
    if output.description is not None:
        schema["description"] = output.description
    schema["schema"] = output.schema
    if output.strict is not None:
        schema["strict"] = output.strict
    return {"type": "json_schema", "json_schema": schema}


def _reasoning(request: Request, quirks: Quirks, notes: Notes) -> dict[str, Any]:
    word = effort.of(request.reasoning)
    if word is None:
        return {}
    if quirks.no_reasoning_effort:
        notes.drop("reasoning")
        return {}
    return {"reasoning_effort": effort.nearest(word, quirks.efforts)}


def _parallel(request: Request, quirks: Quirks, notes: Notes) -> dict[str, Any]:
    if request.parallel_tools is None or not request.tools:
        return {}
    if quirks.no_parallel_tool_calls:
        if not request.parallel_tools:
            notes.drop("parallel_tool_calls")
        return {}
    return {"parallel_tool_calls": request.parallel_tools}


def _stream(request: Request, quirks: Quirks) -> dict[str, Any]:
    if not request.stream:
        return {}
    if quirks.no_stream_options:
        return {"stream": True}
    return {"stream": True, "stream_options": {"include_usage": True}}
