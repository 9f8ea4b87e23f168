"""Content blocks of Anthropic messages -> blocks."""

from typing import Any

from tidegate.gateway.dialects import messages_documents, seals
from tidegate.gateway.dialects.blocks import Block, Document, Image, Text, Thinking, ToolCall, ToolResult
from tidegate.gateway.dialects.faults import STORED_FILE, Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.json_text import compact
from tidegate.gateway.dialects.openai_options import leave_item

_BILLING = "x-anthropic-billing-header:"
_LEFT_OUT = ("server_tool_use", "_tool_result", "mcp_tool_use")
_DIRECT = {"caller": {"type": "direct"}}
_NOTHING_ADDED: dict[str, dict[str, Any]] = {
    "text": {"citations": []},
    "image": {"transformations": {}},
    "tool_use": _DIRECT,
    "tool_result": _DIRECT,
}
"""By kind of block, what it says when nothing is out of the ordinary."""
_NOTHING: dict[str, Any] = {}


def read(owner: Fields, name: str, notes: Notes) -> list[Block]:
    """A string or a list of blocks under `name`."""
    content = owner.raw(name)
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        raise owner.wrong(name, "must be a string or a list of blocks")
    return [block for item in owner.each(name) for block in _blocks(item, notes)]


def instructions(owner: Fields, name: str, notes: Notes) -> tuple[Text, ...]:
    """The texts of a system prompt. A line of billing data that changes from call to call is left out: it would
    spoil the prompt cache and no other vendor reads it."""
    blocks = read(owner, name, notes)
    texts = [block for block in blocks if isinstance(block, Text)]
    if len(texts) < len(blocks):
        raise owner.wrong(name, "must hold nothing but text")
    kept = tuple(text for text in texts if not text.text.startswith(_BILLING))
    if len(kept) < len(texts):
        notes.drop("system.billing_header")
    return kept


def _blocks(item: Fields, notes: Notes) -> tuple[Block, ...]:
    """Most are one; a document may be put together of several."""
    kind = item.needed_text("type")
    blocks: tuple[Block, ...]
    if kind == "document":
        blocks = messages_documents.read(item, notes)
    elif kind.endswith(_LEFT_OUT):
        notes.drop(f"messages.content.{kind}")
        return ()
    else:
        blocks = (_block(item, kind, notes),)
    leave_item(item, "messages.content", notes, _NOTHING_ADDED.get(kind, _NOTHING))
    return blocks


def _block(item: Fields, kind: str, notes: Notes) -> Block:
    mark = item.json("cache_control")
    block: Block
    if kind == "text":
        block = Text(item.needed_text("text"), mark)
    elif kind == "thinking":
        block = seals.from_signature(item.needed_text("thinking"), item.text("signature") or "")
    elif kind == "redacted_thinking":
        block = Thinking(redacted=item.needed_text("data"))
    elif kind == "image":
        block = messages_documents.image(item)
    elif kind == "search_result":
        block = _search_result(item, notes)
    elif kind == "tool_reference":
        block = Text(item.needed_text("tool_name"), mark)  # elsewhere every tool is loaded from the start
    elif kind == "tool_use":
        arguments = compact(item.json("input") or {})
        block = ToolCall(item.needed_text("id"), item.needed_text("name"), arguments, cache=mark)
    elif kind == "tool_result":
        block = _result(item, notes)
    else:
        raise _unknown(item, kind)
    return block


def _unknown(item: Fields, kind: str) -> Exception:
    if kind == "container_upload":
        return item.wrong("file_id", STORED_FILE)
    return item.wrong("type", "is a kind of content that cannot be translated")


def _search_result(item: Fields, notes: Notes) -> Text:
    messages_documents.note_citations(item, notes)
    lines = [item.text("title") or "", item.text("source") or ""]
    for part in item.each("content"):
        lines.append(part.text("text") or "")
        part.raw("type")  # the only one there is
        leave_item(part, "messages.content", notes, _NOTHING_ADDED["text"])
    return Text("\n".join(line for line in lines if line), item.json("cache_control"))


def _result(item: Fields, notes: Notes) -> ToolResult:
    blocks = read(item, "content", notes)
    content = tuple(block for block in blocks if isinstance(block, Text | Image | Document))
    if len(content) < len(blocks):
        raise item.wrong("content", "of a tool can hold text, images and documents only")
    return ToolResult(
        item.needed_text("tool_use_id"),
        content,
        bool(item.flag("is_error")),
        cache=item.json("cache_control"),
    )
