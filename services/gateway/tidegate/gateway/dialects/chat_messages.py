"""Messages of chat completions -> blocks."""

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
from tidegate.gateway.dialects.openai_options import cache_mark, leave_item

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}


def read(top: Fields, notes: Notes) -> list[Message]:
    """All messages in order; tool answers become tool results in a user message of their own."""
    if not top.list("messages"):
        raise top.wrong("messages", "must hold at least one message")
    return [_message(message, notes) for message in top.each("messages")]


def _message(message: Fields, notes: Notes) -> Message:
    role = message.needed_text("role")
    if role == "tool":
        result = ToolResult(message.needed_text("tool_call_id"), _result(message, notes))
        _leave(message, notes)
        return Message("user", (result,))
    if role not in _ROLES:
        raise message.wrong("role", "is none that can be translated")
    blocks = _content(message, notes)
    if role == "assistant":
        blocks = [*chat_reasoning.blocks_of(message), *blocks, *_said_by_assistant(message)]
        message.raw("annotations")  # what the provider added to its own text: nothing to send back
    _leave(message, notes)
    return Message(_ROLES[role], tuple(blocks))


def _leave(message: Fields, notes: Notes) -> None:
    for name in message.unread():
        notes.drop(f"messages.{name}")


def _result(message: Fields, notes: Notes) -> tuple[Text | Image | Document, ...]:
    return tuple(block for block in _content(message, notes) if isinstance(block, Text | Image | Document))


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


def _said_by_assistant(message: Fields) -> list[Block]:
    if message.raw("function_call") is not None:
        raise message.wrong("function_call", "is outdated: use tool_calls")
    if message.raw("audio") is not None:
        raise message.wrong("audio", "cannot be translated")
    refusal = message.text("refusal")
    blocks: list[Block] = [Refusal(refusal)] if refusal else []
    return blocks + [_call(call) for call in message.each("tool_calls")]


def _call(call: Fields) -> ToolCall:
    call_id = call.needed_text("id")
    if call.text("type") == "custom":
        custom = call.inner("custom")
        if custom is None:
            raise call.wrong("custom", "is missing")
        return ToolCall(call_id, custom.needed_text("name"), custom.text("input") or "", is_custom=True)
    function = call.inner("function")
    if function is None:
        raise call.wrong("function", "is missing")
    return ToolCall(call_id, function.needed_text("name"), function.text("arguments") or "")
