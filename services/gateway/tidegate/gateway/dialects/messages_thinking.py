"""Thinking as Anthropic takes it, and where it may not be asked for at all."""

from typing import Any

import msgspec

from tidegate.gateway.dialects import effort
from tidegate.gateway.dialects.blocks import Effort, Message, Request, Thinking, ToolCall, ToolResult
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.quirks import Quirks

_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class ThinkingFields(msgspec.Struct, frozen=True):
    """The fields of a request that depend on each other."""

    max_tokens: int
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] = {}
    is_on: bool = False


def of(request: Request, quirks: Quirks, notes: Notes) -> ThinkingFields:
    """Thinking is left out, with a note, where the dialect forbids it: a forced tool, a tool loop begun without."""
    asked, limit = request.reasoning, request.max_output_tokens
    max_tokens = quirks.default_max_output_tokens if limit is None else limit
    word = effort.of(asked)
    if asked is None or word is None:
        return ThinkingFields(max_tokens)
    if quirks.no_reasoning_effort:
        notes.drop("reasoning")
        return ThinkingFields(max_tokens)
    if word == "none":
        return ThinkingFields(max_tokens, {"type": "disabled"})
    if quirks.thinking == "budget":
        return _with_budget(request, word, max_tokens, notes)
    config = {"effort": effort.nearest(word, quirks.efforts or _EFFORTS)}
    if _must_call(request):
        notes.drop("reasoning")
        return ThinkingFields(max_tokens, output_config=config)
    thinking = {"type": "adaptive"} | ({"display": "summarized"} if asked.summary is not None else {})
    return ThinkingFields(max_tokens, thinking, config, is_on=True)


def _with_budget(request: Request, word: Effort, max_tokens: int, notes: Notes) -> ThinkingFields:
    """Where the client set no limit the budget comes on top of the default."""
    if request.max_output_tokens is None:
        max_tokens += effort.BUDGET_TOKENS[word]
    budget = effort.to_budget(word, max_tokens)
    if budget is None or _must_call(request) or _tool_loop_lacks_thinking(request.messages):
        notes.drop("reasoning")
        return ThinkingFields(max_tokens)
    return ThinkingFields(max_tokens, {"type": "enabled", "budget_tokens": budget}, is_on=True)


def _must_call(request: Request) -> bool:
    choice = request.tool_choice
    return bool(request.tools) and choice is not None and choice.kind in {"required", "named"}


def _tool_loop_lacks_thinking(messages: tuple[Message, ...]) -> bool:
    """With a budget the provider wants the thinking back that led to the calls whose results it gets now."""
    told = next((each for each in reversed(messages) if each.role not in {"system", "developer"}), None)
    if told is None or not any(isinstance(block, ToolResult) for block in told.blocks):
        return False
    calling = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if calling is None or not any(isinstance(block, ToolCall) for block in calling.blocks):
        return False
    return not any(
        isinstance(block, Thinking) and (block.signature is not None or block.redacted is not None)
        for block in calling.blocks
    )
