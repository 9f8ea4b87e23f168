"""Reasoning in chat completions: the text fields of several vendors, and `reasoning_details` for what is opaque."""

from typing import Any

from tidegate.gateway.dialects.blocks import Thinking
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.openai_options import ALWAYS, leave_item

ANTHROPIC_FORMAT = "anthropic-claude-v1"
OPENAI_FORMAT = "openai-responses-v1"
TEXT_FIELDS = ("reasoning_content", "reasoning")
"""Where vendors put readable reasoning; an empty one does not hide the other."""
_OF_ENTRIES: dict[str, Any] = dict.fromkeys(("type", "format", "index", "id", "text", "summary"), ALWAYS)
"""What an entry of `reasoning_details` says of itself."""


def text_of(message: Fields) -> str:
    """Readable reasoning of a message or a delta."""
    found = ""
    for name in TEXT_FIELDS:
        value = message.raw(name)
        if not found and isinstance(value, str):
            found = value
    return found


def detail(block: Thinking, index: int) -> dict[str, Any] | None:
    """One entry of `reasoning_details`; None when the block holds nothing but readable text."""
    if block.encrypted is not None:
        entry: dict[str, Any] = {"type": "reasoning.encrypted", "format": OPENAI_FORMAT, "index": index}
        entry |= {"id": block.id, "data": block.encrypted, "summary": block.text}
    elif block.redacted is not None:
        entry = {"type": "reasoning.encrypted", "format": ANTHROPIC_FORMAT, "index": index}
        entry |= {"data": block.redacted}
    elif block.signature is not None:
        entry = {"type": "reasoning.text", "format": ANTHROPIC_FORMAT, "index": index}
        entry |= {"text": block.text, "signature": block.signature}
    else:
        return None
    return entry


def from_detail(entry: Fields) -> Thinking | None:
    """The inverse of `detail`; None for an entry that neither proves nor hides anything."""
    signature, data = entry.text("signature"), entry.text("data")
    if signature:
        return Thinking(entry.text("text") or "", signature)
    if not data:
        return None
    if entry.text("format") == OPENAI_FORMAT:
        return Thinking(entry.text("summary") or "", encrypted=data, id=entry.text("id"))
    return Thinking(redacted=data)


def blocks_of(message: Fields) -> list[Thinking]:
    """All reasoning of an earlier turn: the opaque blocks, or else the readable text."""
    text = text_of(message)
    found = [from_detail(entry) for entry in message.each("reasoning_details")]
    blocks = [block for block in found if block is not None]
    if not blocks and text:
        return [Thinking(text)]
    return blocks


def told(message: Fields, notes: Notes) -> list[Thinking]:
    """As `blocks_of` in a request: what is left of an entry is noted."""
    blocks = blocks_of(message)
    for entry in message.each("reasoning_details"):
        if from_detail(entry) is None:
            notes.drop("messages.reasoning_details")
        leave_item(entry, "messages.reasoning_details", notes, _OF_ENTRIES)
    text = text_of(message)
    if text and not any(block.text for block in blocks):
        blocks.insert(0, Thinking(text))
    return blocks
