"""Blocks -> Anthropic messages: turns alternate, tool results come first in theirs."""

from typing import Any

from tidegate.gateway.dialects.arguments import as_function, to_object, to_shown_object
from tidegate.gateway.dialects.blocks import (
    Block,
    CacheMark,
    Document,
    Image,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tidegate.gateway.dialects.faults import AnswerMalformed, Notes
from tidegate.gateway.dialects.media import document_as_source
from tidegate.gateway.dialects.names import ToolNames, fitted_id
from tidegate.gateway.dialects.pairs import calls_last
from tidegate.gateway.dialects.quirks import Quirks

_NOTHING = "(empty)"
"""What a user said who said nothing: the dialect wants words, and a turn left out would change whose turn it is."""


class Turns:
    """Writes the messages of one request."""

    __slots__ = ("_names", "_notes", "_quirks")

    def __init__(self, quirks: Quirks, names: ToolNames, notes: Notes) -> None:
        self._quirks = quirks
        self._names = names
        self._notes = notes

    def write(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        """Neighbours with the same role become one turn; what is blank is left out, as the dialect demands.

        What becomes of a message does not depend on those after it: the prompt's beginning stays as it was.
        """
        turns: list[dict[str, Any]] = []
        is_owed = False
        for message in messages:
            content = [written for block in _ordered(message) if (written := self._block(block)) is not None]
            role = self._role(message)
            if message.role == "user":
                is_owed = not content and (not turns or turns[-1]["role"] != role)
            if is_owed and (turns or content):
                turns.append({"role": "user", "content": [self._nothing()]})
                is_owed = False
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += content
            elif content:
                turns.append({"role": role, "content": content})
        return turns

    def _role(self, message: Message) -> str:
        if message.role == "assistant":
            return "assistant"
        if message.role != "user" and self._quirks.system_anywhere:
            return "system"
        if message.role != "user":
            self._notes.drop("messages.role.system")
        return "user"

    def _block(self, block: Block) -> dict[str, Any] | None:
        if isinstance(block, Text):
            return self._text(block)
        if isinstance(block, Refusal):
            return self._text(Text(block.text))
        if isinstance(block, Thinking):
            return self._thinking(block)
        if isinstance(block, ToolCall):
            return self._call(block)
        if isinstance(block, ToolResult):
            return self._result(block)
        return self._media(block)

    def _nothing(self) -> dict[str, Any]:
        self._notes.drop("messages.content.blank")
        return {"type": "text", "text": _NOTHING}

    def _text(self, block: Text) -> dict[str, Any] | None:
        if not is_blank(block.text):
            return marked({"type": "text", "text": block.text}, block.cache)
        if block.cache is not None:
            self._notes.drop("cache_control")
        return None

    def _thinking(self, block: Thinking) -> dict[str, Any] | None:
        if block.redacted is not None:
            return {"type": "redacted_thinking", "data": block.redacted}
        if block.signature is not None:
            return {"type": "thinking", "thinking": block.text, "signature": block.signature}
        self._notes.drop("thinking")
        return None

    def _call(self, call: ToolCall) -> dict[str, Any]:
        text = as_function(call.arguments) if call.is_custom else call.arguments
        try:
            arguments = to_object(text)
        except AnswerMalformed:  # what a model once wrote stands in the history for good: it must not end it
            self._notes.drop("tool_calls.arguments")
            arguments = to_shown_object(text)
        written = {"type": "tool_use", "id": fitted_id(call.id), "name": self._names.out(call.name)}
        return marked(written | {"input": arguments}, call.cache)

    def _result(self, result: ToolResult) -> dict[str, Any]:
        written: dict[str, Any] = {"type": "tool_result", "tool_use_id": fitted_id(result.call_id)}
        content = [part for block in result.content if (part := self._block(block)) is not None]
        if content:
            written["content"] = content
        if result.is_error:
            written["is_error"] = True
        return marked(written, result.cache)

    def _media(self, block: Image | Document) -> dict[str, Any]:
        kind = "image" if isinstance(block, Image) else "document"
        if isinstance(block, Image) and block.detail not in {None, "auto"}:
            self._notes.drop("messages.content.detail")
        if isinstance(block, Document):
            source = document_as_source(block)
        elif block.url is not None:
            source = {"type": "url", "url": block.url}
        else:
            source = {"type": "base64", "media_type": block.media_type, "data": block.data}
        written: dict[str, Any] = {"type": kind, "source": source}
        if isinstance(block, Document) and block.title is not None:
            written["title"] = block.title
        if isinstance(block, Document) and block.context is not None:
            written["context"] = block.context
        return marked(written, block.cache)


def is_blank(text: str) -> bool:
    """Text that the dialect refuses as a block: none, or white space alone."""
    return not text or text.isspace()


def _ordered(message: Message) -> tuple[Block, ...]:
    """Results come first in their turn and calls last in theirs."""
    if message.role == "assistant":
        return calls_last(message.blocks)
    return tuple(sorted(message.blocks, key=lambda block: not isinstance(block, ToolResult)))


def marked(written: dict[str, Any], mark: CacheMark | None) -> dict[str, Any]:
    """A block with its cache mark, if it has one."""
    return written if mark is None else written | {"cache_control": mark}
