"""The content model -> a responses request, in a fixed order of names; nothing is stored at the provider."""

from typing import Any

from tidegate.gateway.dialects import effort, responses_turns
from tidegate.gateway.dialects.blocks import Message, OutputFormat, Request, Thinking, Tool, ToolChoice
from tidegate.gateway.dialects.chat_turns import has_mark
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.names import ToolNames
from tidegate.gateway.dialects.quirks import Quirks
from tidegate.gateway.dialects.tool_choices import with_type

MAX_NAME_CHARACTERS = 64
_MIN_OUTPUT_TOKENS = 16
"""OpenAI refuses a smaller bound."""
_UNSAID = ("top_k", "frequency_penalty", "presence_penalty", "seed")


def write(request: Request, model: str, quirks: Quirks, names: ToolNames, notes: Notes) -> dict[str, Any]:
    """Raises RequestRefused."""
    if request.stop:
        raise RequestRefused("stop", "the upstream has no stop sequences")
    system, messages = request.system, request.messages
    if not messages:
        system, messages = (), (Message("system", system),)
    body: dict[str, Any] = {"model": model}
    instructions = "\n\n".join(text.text for text in system)
    if instructions:
        body["instructions"] = instructions
    if request.tools:
        body["tools"] = [_tool(tool, quirks, names) for tool in request.tools]
    body["input"] = responses_turns.Turns(quirks, names, notes).write(messages)
    if not body["input"]:
        raise RequestRefused("messages", "must say something")
    reasoning = _reasoning(request, quirks, notes)
    fields: dict[str, Any] = {
        "tool_choice": _choice(request.tool_choice, request.tools, names),
        "parallel_tool_calls": request.parallel_tools if request.tools else None,
        "text": _text(request, quirks),
        "reasoning": reasoning,
        "include": ["reasoning.encrypted_content"] if _wants_sealed(request, reasoning) else None,
        "max_output_tokens": _max_output_tokens(request, notes),
        "temperature": request.sampling.temperature,
        "top_p": request.sampling.top_p,
        "metadata": request.metadata,
        "safety_identifier": request.user,
        "prompt_cache_key": request.cache_key,
        "prompt_cache_retention": request.cache_retention,
        "service_tier": request.service_tier,
        "store": False,
        "stream": request.stream or None,
    }
    for name in _UNSAID:
        if getattr(request.sampling, name) is not None:
            notes.drop(name)
    has_marks = any(map(has_mark, request.system)) or any(tool.cache is not None for tool in request.tools)
    if has_marks or request.cache is not None:
        notes.drop("cache_control")
    return body | {name: value for name, value in fields.items() if value is not None}


def _tool(tool: Tool, quirks: Quirks, names: ToolNames) -> dict[str, Any]:
    written: dict[str, Any] = {
        "type": "custom" if tool.is_custom else "function",
        "name": names.out(tool.name),
    }
    if tool.description is not None:
        written["description"] = tool.description
    if tool.is_custom:
        return written | ({} if tool.format is None else {"format": tool.format})
    written["parameters"] = with_type(tool.schema)
    # The dialect's default is strict, every other's is not: what was not said must be said here.
    written["strict"] = bool(tool.strict) and not quirks.no_strict_tools
    return written


def _choice(
    choice: ToolChoice | None, tools: tuple[Tool, ...], names: ToolNames
) -> str | dict[str, Any] | None:
    if choice is None:
        return None
    custom = {tool.name for tool in tools if tool.is_custom}

    def entry(name: str) -> dict[str, Any]:
        return {"type": "custom" if name in custom else "function", "name": names.out(name)}

    if choice.allowed is not None:
        return {"type": "allowed_tools", "mode": choice.kind, "tools": list(map(entry, choice.allowed))}
    return entry(choice.name) if choice.kind == "named" else choice.kind


def _text(request: Request, quirks: Quirks) -> dict[str, Any] | None:
    text: dict[str, Any] = {}
    if request.output is not None:
        text["format"] = _format(request.output, quirks)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    return text or None


def _format(output: OutputFormat, quirks: Quirks) -> dict[str, Any]:
    if output.schema is None:
        return {"type": "json_object"}
    if quirks.no_structured_output:
        raise RequestRefused("output format", "the target takes no JSON schema for its answers")
    form: dict[str, Any] = {"type": "json_schema", "name": output.name}
    if output.description is not None:
        form["description"] = output.description
    form["schema"] = output.schema
    if output.strict is not None:
        form["strict"] = output.strict
    return form


def _reasoning(request: Request, quirks: Quirks, notes: Notes) -> dict[str, Any] | None:
    word = effort.of(request.reasoning)
    if request.reasoning is None:
        return None
    if quirks.no_reasoning_effort:
        notes.drop("reasoning")
        return None
    written: dict[str, Any] = {}
    if word is not None:
        written["effort"] = effort.nearest(word, quirks.efforts)
    if request.reasoning.summary is not None and word != "none":
        written["summary"] = request.reasoning.summary
    return written or None


def _wants_sealed(request: Request, reasoning: dict[str, Any] | None) -> bool:
    """Sealed reasoning comes back only on request; models that do not reason refuse to be asked."""
    if reasoning is not None and reasoning.get("effort") != "none":
        return True
    return any(
        isinstance(block, Thinking) and block.encrypted is not None
        for message in request.messages
        for block in message.blocks
    )


def _max_output_tokens(request: Request, notes: Notes) -> int | None:
    limit = request.max_output_tokens
    if limit is not None and limit < _MIN_OUTPUT_TOKENS:
        notes.drop("max_tokens.below_16")
        return _MIN_OUTPUT_TOKENS
    return limit
