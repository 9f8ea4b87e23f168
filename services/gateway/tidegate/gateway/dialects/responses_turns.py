"""Blocks -> input items of responses."""

from typing import Any

from tidegate.gateway.dialects.blocks import (
    Document,
    Image,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tidegate.gateway.dialects.chat_turns import has_mark
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.media import document_as_file, document_as_text, image_url
from tidegate.gateway.dialects.names import ToolNames, fitted_id
from tidegate.gateway.dialects.quirks import Quirks


class Turns:
    """Writes the items of one request."""

    __slots__ = ("_names", "_notes", "_quirks")

    def __init__(self, quirks: Quirks, names: ToolNames, notes: Notes) -> None:
        self._quirks = quirks
        self._names = names
        self._notes = notes

    def write(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        """Neighbouring parts of one message share an item; everything else is an item of its own, in order."""
        items: list[dict[str, Any]] = []
        for message in messages:
            if any(has_mark(block) for block in message.blocks):
                self._notes.drop("cache_control")
            parts: list[dict[str, Any]] = []
            for block in message.blocks:
                if isinstance(block, Thinking | ToolCall | ToolResult):
                    items += self._message(message, parts)
                    parts = []
                    items += self._item(block)
                elif message.role == "assistant":
                    items += self._said(block)
                else:
                    parts.append(self._part(block))
            items += self._message(message, parts)
        return items

    def _said(self, block: Text | Refusal | Image | Document) -> list[dict[str, Any]]:
        """Words of the assistant as a plain string: parts would need the id of an item of this provider."""
        if isinstance(block, Image | Document):
            raise RequestRefused("messages.content", "the upstream takes only words from the assistant")
        return [{"type": "message", "role": "assistant", "content": block.text}] if block.text else []

    def _message(self, message: Message, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not parts:
            return []
        role: str = message.role
        if role == "developer" and self._quirks.no_developer_role:
            role = "system"
        return [{"type": "message", "role": role, "content": parts}]

    def _item(self, block: Thinking | ToolCall | ToolResult) -> list[dict[str, Any]]:
        if isinstance(block, Thinking):
            return self._thinking(block)
        if isinstance(block, ToolCall):
            return [self._call(block)]
        if block.is_error:
            self._notes.drop("tool_result.is_error")
        texts = [part.text for part in block.content if isinstance(part, Text)]
        output: str | list[dict[str, Any]] = "".join(texts)
        if len(texts) < len(block.content):
            output = [self._part(part) for part in block.content]
        kind = "custom_tool_call_output" if block.is_custom else "function_call_output"
        return [{"type": kind, "call_id": fitted_id(block.call_id), "output": output}]

    def _thinking(self, block: Thinking) -> list[dict[str, Any]]:
        if block.encrypted is None:
            self._notes.drop("thinking")
            return []
        item: dict[str, Any] = {"type": "reasoning"}
        if block.id is not None:
            item["id"] = block.id
        item["summary"] = [{"type": "summary_text", "text": block.text}] if block.text else []
        return [item | {"encrypted_content": block.encrypted}]

    def _call(self, call: ToolCall) -> dict[str, Any]:
        item: dict[str, Any] = {
            "type": "custom_tool_call" if call.is_custom else "function_call",
            "call_id": fitted_id(call.id),
            "name": self._names.out(call.name),
        }
        if call.is_custom:
            return item | {"input": call.arguments}
        return item | {"arguments": call.arguments or "{}"}

    def _part(self, block: Text | Refusal | Image | Document) -> dict[str, Any]:
        if isinstance(block, Text | Refusal):
            return {"type": "input_text", "text": block.text}
        if isinstance(block, Image):
            return {"type": "input_image", "image_url": image_url(block), "detail": block.detail or "auto"}
        if block.text is not None:
            return {"type": "input_text", "text": document_as_text(block)}
        if block.url is not None:
            if block.title is not None:
                self._notes.drop("messages.content.title")
            return {"type": "input_file", "file_url": block.url}
        return {"type": "input_file", **document_as_file(block)}
