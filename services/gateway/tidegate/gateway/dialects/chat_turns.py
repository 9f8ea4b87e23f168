"""Blocks -> messages of chat completions."""

from collections.abc import Iterable
from typing import Any

from tidegate.gateway.dialects import chat_reasoning
from tidegate.gateway.dialects.arguments import as_function
from tidegate.gateway.dialects.blocks import (
    Block,
    Document,
    Image,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.media import document_as_file, document_as_text, image_url
from tidegate.gateway.dialects.names import ToolNames, short_id
from tidegate.gateway.dialects.quirks import Quirks

_SEE_BELOW = "The result is in the next message."


class Turns:
    """Writes the messages of one request."""

    __slots__ = ("_begun", "_names", "_notes", "_quirks")

    def __init__(self, quirks: Quirks, names: ToolNames, notes: Notes) -> None:
        self._quirks = quirks
        self._names = names
        self._notes = notes
        self._begun = False

    def write(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        """Raises RequestRefused for content the dialect cannot hold."""
        return [written for message in messages for written in self._message(message)]

    def _message(self, message: Message) -> list[dict[str, Any]]:
        if not self._quirks.cache_control and any(has_mark(block) for block in message.blocks):
            self._notes.drop("cache_control")
        if message.role in {"system", "developer"}:
            return self._instructions(message)
        self._begun = True
        if message.role == "assistant":
            return self._assistant(message)
        results = [block for block in message.blocks if isinstance(block, ToolResult)]
        beside: list[Block] = [
            part for result in results for part in result.content if not isinstance(part, Text)
        ]
        said = [block for block in message.blocks if not isinstance(block, ToolResult)]
        written = [self._result(result) for result in results]
        if beside or said:
            written.append({"role": "user", "content": self._content([*beside, *said])})
        return written

    def _instructions(self, message: Message) -> list[dict[str, Any]]:
        role = "system" if self._quirks.no_developer_role else message.role
        if self._quirks.no_system_role or (self._quirks.system_first_only and self._begun):
            self._notes.drop("messages.role.system")
            role = "user"
        if not message.blocks:
            return []
        if self._keeps_marks(message.blocks):
            return [{"role": role, "content": self._content(list(message.blocks))}]
        text = "\n\n".join(block.text for block in message.blocks if isinstance(block, Text))
        return [{"role": role, "content": text}]

    def _keeps_marks(self, blocks: Iterable[Block]) -> bool:
        return self._quirks.cache_control and any(map(has_mark, blocks))

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        if any(isinstance(block, Image | Document | ToolResult) for block in message.blocks):
            raise RequestRefused("messages.content", "the upstream takes only words from the assistant")
        said = [
            Text(block.text) if isinstance(block, Refusal) else block
            for block in message.blocks
            if isinstance(block, Text | Refusal)
        ]
        calls = [self._call(block) for block in message.blocks if isinstance(block, ToolCall)]
        written: dict[str, Any] = {"role": "assistant"}
        if self._keeps_marks(said):
            written["content"] = [self._part(block) for block in said]
        elif said or not calls:
            written["content"] = "".join(block.text for block in said)
        else:
            written["content"] = None
        written |= self._thinking([block for block in message.blocks if isinstance(block, Thinking)])
        if calls:
            written["tool_calls"] = calls
        return [written]

    def _thinking(self, blocks: list[Thinking]) -> dict[str, Any]:
        written: dict[str, Any] = {}
        text = "".join(block.text for block in blocks)
        if text and self._quirks.reasoning_field:
            written[self._quirks.reasoning_field] = text
        details = [
            entry
            for index, block in enumerate(blocks)
            if (entry := chat_reasoning.detail(block, index)) is not None
        ]
        if details and self._quirks.reasoning_details:
            written["reasoning_details"] = details
        if blocks and not written:
            self._notes.drop("thinking")
        return written

    def _call(self, call: ToolCall) -> dict[str, Any]:
        call_id = self._id(call.id)
        if call.is_custom and not self._quirks.no_custom_tools:
            custom = {"name": self._names.out(call.name), "input": call.arguments}
            return {"id": call_id, "type": "custom", "custom": custom}
        arguments = as_function(call.arguments) if call.is_custom else call.arguments or "{}"
        function = {"name": self._names.out(call.name), "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function}

    def _id(self, call_id: str) -> str:
        return short_id(call_id) if self._quirks.short_tool_ids else call_id

    def _result(self, result: ToolResult) -> dict[str, Any]:
        if result.is_error:
            self._notes.drop("tool_result.is_error")
        texts = [part.text for part in result.content if isinstance(part, Text)]
        text = "".join(texts) or (_SEE_BELOW if len(texts) < len(result.content) else "")
        content: str | list[dict[str, Any]] = text
        if result.cache is not None and self._quirks.cache_control:
            content = [self._part(Text(text, result.cache))]
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": content}

    def _content(self, blocks: list[Block]) -> str | list[dict[str, Any]]:
        parts = [self._part(block) for block in blocks]
        plain = [part["text"] for part in parts if part.keys() == {"type", "text"}]
        if len(plain) == len(parts) == 1:
            return str(plain[0])
        if not self._quirks.content_as_text:
            return parts
        if len(plain) < len(parts):
            raise RequestRefused("messages.content", "the target takes text only")
        return "\n\n".join(plain)

    def _part(self, block: Block) -> dict[str, Any]:
        part: dict[str, Any]
        if isinstance(block, Text):
            part = {"type": "text", "text": block.text}
        elif isinstance(block, Image):
            image = {"url": image_url(block)}
            part = {
                "type": "image_url",
                "image_url": image | ({"detail": block.detail} if block.detail else {}),
            }
        elif isinstance(block, Document) and block.text is not None:
            part = {"type": "text", "text": document_as_text(block)}
        elif isinstance(block, Document) and block.url is None:
            part = {"type": "file", "file": document_as_file(block)}
        else:
            raise RequestRefused("messages.content", "the upstream takes no such content from a user")
        if block.cache is not None and self._quirks.cache_control:
            part["cache_control"] = block.cache
        return part


def has_mark(block: Block) -> bool:
    """Does a cache mark stand on this block, or within it?"""
    if isinstance(block, ToolResult) and any(map(has_mark, block.content)):
        return True
    return getattr(block, "cache", None) is not None
