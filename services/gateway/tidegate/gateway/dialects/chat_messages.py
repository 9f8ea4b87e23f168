"""Messages of chat completions -> blocks."""

from typing import Any

import msgspec

from tidegate.gateway.dialects import chat_reasoning
from tidegate.gateway.dialects.blocks import (
    Block,
    Document,
    Image,
    Message,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.media import document_from_file, image_from_url
from tidegate.gateway.dialects.openai_options import ALWAYS, cache_mark, leave_item

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
_NOTHING_ADDED: dict[str, Any] = {"annotations": []}
_OF_STREAMS = {"index": ALWAYS}
"""Left in calls by clients that put them together from a stream."""


def read(top: Fields, notes: Notes) -> list[Message]:
    """All messages in order; tool answers become tool results in a user message of their own."""
    if not top.list("messages"):
        raise top.wrong("messages", "must hold at least one message")
    return [_message(message, notes) for message in top.each("messages")]


def _message(message: Fields, notes: Notes) -> Message:
    role = message.needed_text("role")
    if role == "tool":
        result = ToolResult(message.needed_text("tool_call_id"), _result(message, notes))
        leave_item(message, "messages", notes)
        return Message("user", (result,))
    if role not in _ROLES:
        raise message.wrong("role", "is none that can be translated")
    blocks = _content(message, notes)
    if role == "assistant":
        blocks = [*chat_reasoning.told(message, notes), *blocks, *_said_by_assistant(message, notes)]
    leave_item(message, "messages", notes, _NOTHING_ADDED)
    return Message(_ROLES[role], tuple(blocks))


def _result(message: Fields, notes: Notes) -> tuple[Text | Image | Document, ...]:
    blocks = _content(message, notes)
    kept = tuple(block for block in blocks if isinstance(block, Text | Image | Document))
    if len(kept) < len(blocks):
        raise message.wrong("content", "of a tool cannot hold a refusal")
    return kept


def _content(message: Fields, notes: Notes) -> list[Block]:
    content = message.raw("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        raise message.wrong("content", "must be a string or a list of parts")
    return [_part(part, notes) for part in message.each("content")]


def _part(part: Fields, notes: Notes) -> Block:
    kind = part.needed_text("type")
    mark = cache_mark(part)
    block: Block
    if kind == "text":
        block = Text(part.needed_text("text"), mark)
    elif kind == "refusal":
        block = Refusal(part.needed_text("refusal"))
    elif kind == "image_url" and (image := part.inner("image_url")):
        block = image_from_url(image.needed_text("url"), image.text("detail"))
        block = msgspec.structs.replace(block, cache=mark)
    elif kind == "file" and (file := part.inner("file")):
        block = msgspec.structs.replace(document_from_file(file), cache=mark)
    else:
        raise part.wrong("type", "is a kind of content that cannot be translated")
    leave_item(part, "messages.content", notes)
    return block


def _said_by_assistant(message: Fields, notes: Notes) -> list[Block]:
    if message.raw("function_call") is not None:
        raise message.wrong("function_call", "is outdated: use tool_calls")
    if message.raw("audio") is not None:
        raise message.wrong("audio", "cannot be translated")
    refusal = message.text("refusal")
    blocks: list[Block] = [Refusal(refusal)] if refusal else []
    return blocks + [_call(call, notes) for call in message.each("tool_calls")]


def _call(call: Fields, notes: Notes) -> ToolCall:
    call_id, is_custom = call.needed_text("id"), call.text("type") == "custom"
    kind = "custom" if is_custom else "function"
    made = call.inner(kind)
    if made is None:
        raise call.wrong(kind, "is missing")
    arguments = made.text("input" if is_custom else "arguments") or ""
    found = ToolCall(call_id, made.needed_text("name"), arguments, is_custom=is_custom)
    leave_item(call, "messages.tool_calls", notes, _OF_STREAMS)
    return found
