"""A loop of tool calls that Anthropic goes on with: thinking with a budget wants the thinking back that began it."""

from typing import Any

from tidegate.gateway.dialects.faults import Notes

_Json = dict[str, Any]
_CLEARS = "clear_thinking"


def without_lost_thinking(body: _Json, notes: Notes) -> _Json:
    """An Anthropic request that asks for no thinking where the provider would refuse to think: results come back
    for calls whose thinking was left out. The same object when there was nothing to change.
    """
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or not _lacks_thinking(body):
        return body
    notes.drop("thinking")
    written = {name: value for name, value in body.items() if name != "thinking"}
    management = written.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    if isinstance(management, dict) and isinstance(edits, list):
        kept = [edit for edit in edits if not _clears_thinking(edit)]
        written["context_management"] = management | {"edits": kept}
    return written


def _lacks_thinking(body: _Json) -> bool:
    messages = body.get("messages")
    turns = messages if isinstance(messages, list) else []
    if "tool_result" not in _kinds(turns[-1] if turns else None):
        return False
    calling = next((_kinds(turn) for turn in reversed(turns) if _is_assistant(turn)), [])
    return "tool_use" in calling and calling[0] not in ("thinking", "redacted_thinking")


def _kinds(turn: Any) -> list[Any]:
    """The types of a turn's blocks."""
    content = turn.get("content") if isinstance(turn, dict) else None
    blocks = content if isinstance(content, list) else []
    return [block.get("type") if isinstance(block, dict) else None for block in blocks]


def _is_assistant(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") == "assistant"


def _clears_thinking(edit: Any) -> bool:
    return isinstance(edit, dict) and str(edit.get("type")).startswith(_CLEARS)
