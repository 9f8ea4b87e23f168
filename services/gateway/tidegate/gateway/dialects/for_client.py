"""Between upstream and client: names of tools as the client knows them, free text where it expects free text."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.events.money import Tokens
from tidegate.gateway.dialects.arguments import as_custom
from tidegate.gateway.dialects.blocks import Answer, AnswerBlock, Stop, Thinking, ToolCall
from tidegate.gateway.dialects.sink import BlockSink, Head
from tidegate.gateway.usage_rules import UsageRules


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer's translation must know of its request.

    `created_s` (Unix seconds), `answer_id` and `model` are used where the upstream gives none. `tool_names` maps
    upstream tool names back to the client's; `custom_tools` are the client's tools that were sent as functions
    and take free text. `echo` holds fields the client's dialect repeats in its answers. `usage_rules`: which usage
    fields this vendor reports; None = what its dialect has.
    """

    model: str = ""
    answer_id: str = ""
    created_s: int = 0
    wants_usage: bool = True
    tool_names: Mapping[str, str] = {}
    custom_tools: frozenset[str] = frozenset()
    echo: Mapping[str, Any] = {}
    usage_rules: UsageRules | None = None


def restored(answer: Answer, context: Context) -> Answer:
    """A whole answer for the client."""
    return msgspec.structs.replace(
        answer,
        id=answer.id or context.answer_id,
        model=answer.model or context.model,
        created_s=context.created_s if answer.created_s is None else answer.created_s,
        blocks=tuple(_restored_block(block, context) for block in answer.blocks),
    )


def _restored_block(block: AnswerBlock, context: Context) -> AnswerBlock:
    if not isinstance(block, ToolCall):
        return block
    name = context.tool_names.get(block.name, block.name)
    if name in context.custom_tools and not block.is_custom:
        return ToolCall(block.id, name, as_custom(block.arguments), is_custom=True)
    return ToolCall(block.id, name, block.arguments, block.is_custom)


class Restoring:
    """The same for a stream. Free text of a custom tool is passed on when it is whole."""

    __slots__ = ("_context", "_has_begun", "_held", "_sink", "pieces")

    def __init__(self, sink: BlockSink, context: Context) -> None:
        self._sink = sink
        self._context = context
        self._has_begun = False
        self._held: list[str] | None = None
        self.pieces = 0
        """How many pieces of content came so far; sealed thinking counts as one."""

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        """See BlockSink; only the first time counts."""
        if self._has_begun:
            return
        self._has_begun = True
        context = self._context
        seconds = context.created_s if created_s is None else created_s
        self._sink.begin(answer_id or context.answer_id, model or context.model, seconds, tier)

    def open(self, head: Head) -> None:
        """See BlockSink."""
        self.begin("", "", None)
        if head.kind == "tool":
            name = self._context.tool_names.get(head.name, head.name)
            if name in self._context.custom_tools and not head.is_custom:
                self._held = []
                head = Head("tool", head.call_id, name, is_custom=True)
            elif name != head.name:
                head = Head("tool", head.call_id, name, head.is_custom)
        self.pieces += head.redacted is not None
        self._sink.open(head)

    def piece(self, text: str) -> None:
        """See BlockSink."""
        self.pieces += 1
        if self._held is None:
            self._sink.piece(text)
        else:
            self._held.append(text)

    def close(self, proof: Thinking | None) -> None:
        """See BlockSink."""
        if self._held is not None:
            text = as_custom("".join(self._held))
            self._held = None
            if text:
                self._sink.piece(text)
        self._sink.close(proof)

    def end(self, stop: Stop, stop_sequence: str | None, tokens: Tokens, tier: str | None = None) -> None:
        """See BlockSink."""
        self.begin("", "", None)
        self._sink.end(stop, stop_sequence, tokens, tier)
