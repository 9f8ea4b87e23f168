"""Input items of responses -> blocks: one message per turn."""

from typing import Any, get_args

import msgspec

from tidegate.gateway.dialects import seals
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
from tidegate.gateway.dialects.faults import STORED_FILE, Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.media import document_from_file, image_from_url
from tidegate.gateway.dialects.names import join_namespace
from tidegate.gateway.dialects.openai_options import ALWAYS, cache_mark, leave_item

_ROLES: tuple[Role, ...] = get_args(Role)
_LEFT_OUT = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
    "tool_search_call",
)
"""Records of the provider's own tools: what they brought is in the text that follows."""
WITH_TOOLS = ("additional_tools", "tool_search_output")
"""Items that bring tools into the conversation."""
_OF_ITEMS: dict[str, Any] = dict.fromkeys(("type", "id", "status"), ALWAYS)
"""What an item says of itself: nothing another vendor could use."""
_NOTHING_ADDED: dict[str, Any] = {"annotations": [], "logprobs": []}
_TEXT_PARTS = ("input_text", "output_text", "text")


def read(top: Fields, notes: Notes) -> list[Message]:
    """Neighbouring items of the assistant are one turn."""
    value = top.raw("input")
    if isinstance(value, str):
        return [Message("user", (Text(value),))]
    if not top.list("input"):
        raise top.wrong("input", "must be a string or a list with at least one item")
    messages: list[Message] = []
    for item in top.each("input"):
        message = _item(item, notes)
        if message is None:
            continue
        leave_item(item, "input", notes, _OF_ITEMS)
        if messages and message.role == messages[-1].role == "assistant":
            message = Message("assistant", messages.pop().blocks + message.blocks)
        messages.append(message)
    return messages


def _item(item: Fields, notes: Notes) -> Message | None:
    kind = item.text("type") or "message"
    if kind in WITH_TOOLS:
        return None
    if kind in _LEFT_OUT:
        notes.drop(f"input.{kind}")
        return None
    return _message(item, kind, notes)


def _message(item: Fields, kind: str, notes: Notes) -> Message:
    if kind == "message":
        for role in _ROLES:
            if item.raw("role") == role:
                return Message(role, tuple(content(item, "content", notes)))
        raise item.wrong("role", f"must be one of {', '.join(_ROLES)}")
    if kind == "reasoning":
        encrypted, item_id = item.text("encrypted_content"), item.text("id")
        _leave_reasoning(item, notes)
        return Message("assistant", (seals.from_encrypted(reasoning_text(item), encrypted, item_id),))
    if kind in {"function_call", "custom_tool_call"}:
        return Message("assistant", (call(item, kind),))
    if kind in {"function_call_output", "custom_tool_call_output"}:
        parts = content(item, "output", notes)
        kept = tuple(block for block in parts if isinstance(block, Text | Image | Document))
        if len(kept) < len(parts):
            raise item.wrong("output", "cannot hold a refusal")
        is_custom = kind == "custom_tool_call_output"
        return Message("user", (ToolResult(item.needed_text("call_id"), kept, is_custom=is_custom),))
    raise item.wrong("type", "is an item that cannot be translated")


def call(item: Fields, kind: str) -> ToolCall:
    """A function call, or the call of a custom tool."""
    name = join_namespace(item.text("namespace"), item.needed_text("name"))
    if kind == "custom_tool_call":
        return ToolCall(item.needed_text("call_id"), name, item.text("input") or "", is_custom=True)
    return ToolCall(item.needed_text("call_id"), name, item.text("arguments") or "")


def reasoning_text(item: Fields) -> str:
    """Readable reasoning: the parts of the summary, or else of the content, with a blank line between."""
    summary = [part.text("text") or "" for part in item.each("summary")]
    whole = [part.text("text") or "" for part in item.each("content")]
    return "\n\n".join(summary or whole)


def _leave_reasoning(item: Fields, notes: Notes) -> None:
    if item.list("summary") and item.list("content"):
        notes.drop("input.reasoning.content")
    for name in ("summary", "content"):
        for part in item.each(name):
            part.text("text")
            leave_item(part, f"input.{name}", notes, _OF_ITEMS)


def content(owner: Fields, name: str, notes: Notes) -> list[Block]:
    """A string or a list of parts under `name`."""
    value = owner.raw(name)
    if value is None:
        return []
    if isinstance(value, str):
        return [Text(value)] if value else []
    return [_part(part, notes) for part in owner.each(name)]


def _part(part: Fields, notes: Notes) -> Block:
    kind = part.needed_text("type")
    mark = cache_mark(part)
    block: Block
    if kind in _TEXT_PARTS:
        block = Text(part.needed_text("text"), mark)
    elif kind == "refusal":
        block = Refusal(part.needed_text("refusal"))
    elif kind == "input_image":
        url = part.text("image_url")
        if url is None:
            raise part.wrong("file_id", STORED_FILE)
        block = msgspec.structs.replace(image_from_url(url, part.text("detail")), cache=mark)
    elif kind == "input_file":
        block = msgspec.structs.replace(document_from_file(part), cache=mark)
    else:
        raise part.wrong("type", "is a kind of content that cannot be translated")
    leave_item(part, "input.content", notes, _NOTHING_ADDED)
    return block
