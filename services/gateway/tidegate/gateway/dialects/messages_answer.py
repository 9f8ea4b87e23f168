"""A whole Anthropic message <-> the content model."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway.dialects import seals, stops, usage_shape
from tidegate.gateway.dialects.arguments import to_shown_object
from tidegate.gateway.dialects.blocks import (
    EMPTY,
    Answer,
    AnswerBlock,
    Refusal,
    Stop,
    Text,
    Thinking,
    ToolCall,
)
from tidegate.gateway.dialects.fields import Fields, answer_fields
from tidegate.gateway.dialects.json_text import compact


def read(body: dict[str, Any], tokens: Tokens) -> Answer:
    """Raises AnswerMalformed. Blocks of the provider's own tools are left out."""
    top = answer_fields(body, "")
    if not isinstance(body.get("content"), list):
        raise top.wrong("content", "must be a list of blocks")
    found = [_block(item) for item in top.each("content")]
    blocks = [block for block in found if block is not None and block not in EMPTY]
    return Answer(
        id=top.text("id") or "",
        model=top.text("model") or "",
        blocks=tuple(blocks),
        stop=stops.settled_for(stops.FROM_MESSAGES.get(top.text("stop_reason") or "", "end"), blocks),
        stop_sequence=top.text("stop_sequence"),
        tokens=tokens,
    )


def _block(item: Fields) -> AnswerBlock | None:
    kind = item.needed_text("type")
    if kind == "text":
        return Text(item.needed_text("text"))
    if kind == "thinking":
        return seals.from_signature(item.text("thinking") or "", item.text("signature") or "")
    if kind == "redacted_thinking":
        return Thinking(redacted=item.needed_text("data"))
    if kind == "tool_use":
        arguments = compact(item.json("input") or {})
        return ToolCall(item.needed_text("id"), item.needed_text("name"), arguments)
    return None


def write(answer: Answer) -> dict[str, Any]:
    """The message as plain data."""
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [_written(block) for block in answer.blocks],
        "stop_reason": stop_reason(answer.stop, any(isinstance(block, Refusal) for block in answer.blocks)),
        "stop_sequence": answer.stop_sequence,
        "usage": usage_shape.to_messages(answer.tokens, answer.service_tier),
    }


def stop_reason(stop: Stop, has_refusal: bool) -> str:
    """The dialect has no refusal content: its words are text, and the reason says what they are."""
    return stops.TO_MESSAGES["refusal" if stop == "end" and has_refusal else stop]


def _written(block: AnswerBlock) -> dict[str, Any]:
    if isinstance(block, Text | Refusal):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolCall):
        arguments = to_shown_object(block.arguments)
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments}
    if block.redacted is not None:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": seals.as_signature(block)}
