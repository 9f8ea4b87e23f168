"""Why an answer ended, in each dialect's words."""

from collections.abc import Iterable

from tidegate.gateway.dialects.blocks import AnswerBlock, Stop, ToolCall

FROM_CHAT: dict[str, Stop] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""Other words of other vendors count as an ordinary end."""
TO_CHAT: dict[Stop, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "context_full": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "pause": "stop",
}
FROM_MESSAGES: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "stop_sequence",
    "max_tokens": "length",
    "model_context_window_exceeded": "context_full",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "pause_turn": "pause",
}
TO_MESSAGES: dict[Stop, str] = {stop: word for word, stop in FROM_MESSAGES.items()}
INCOMPLETE: dict[Stop, str] = {
    "length": "max_output_tokens",
    "context_full": "max_output_tokens",
    "refusal": "content_filter",
}
"""Responses: why an answer is `incomplete`; every other stop is `completed`."""
FROM_INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}


def settled(stop: Stop, *, has_calls: bool) -> Stop:
    """The stop that fits the content: clients act on tool calls only when the answer says that it ended there.

    Some vendors end with `stop` after tool calls, or with `tool_calls` where none came.
    """
    if has_calls and stop in {"end", "stop_sequence"}:
        return "tool_use"
    return "end" if stop == "tool_use" and not has_calls else stop


def settled_for(stop: Stop, blocks: Iterable[AnswerBlock]) -> Stop:
    """As `settled`, for the blocks of a whole answer."""
    return settled(stop, has_calls=any(isinstance(block, ToolCall) for block in blocks))
