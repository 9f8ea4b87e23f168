"""A whole responses object <-> the content model."""

from collections.abc import Mapping
from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway import tiers
from tidegate.gateway.dialects import responses_items, seals, stops, usage_shape
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
from tidegate.gateway.dialects.chat_answer import UNKNOWN
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields, answer_fields
from tidegate.gateway.dialects.names import split_namespace

_UNSAID: dict[str, Any] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "max_output_tokens": None,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
    "store": False,
}
"""Fields of the answer that repeat the request, with the dialect's defaults."""
ECHOED = tuple(_UNSAID)


def read(body: dict[str, Any], tokens: Tokens) -> Answer:
    """Raises AnswerMalformed."""
    top = answer_fields(body, "")
    if not isinstance(body.get("output"), list):
        raise top.wrong("output", "must be a list of items")
    if top.text("status") == "failed":
        raise top.wrong("status", "is failed")
    found = [block for item in top.each("output") for block in blocks_of(item)]
    blocks = [block for block in found if block not in EMPTY]
    created = top.number("created_at")
    return Answer(
        id=top.text("id") or "",
        model=top.text("model") or "",
        created_s=None if created is None else int(created),
        blocks=tuple(blocks),
        stop=stops.settled_for(stop_of(top), blocks),
        tokens=tokens,
    )


def stop_of(top: Fields) -> Stop:
    """Why a response ended, from its `incomplete_details`."""
    details = top.inner("incomplete_details")
    reason = details.text("reason") if details else None
    return "end" if reason is None else stops.FROM_INCOMPLETE.get(reason, "length")


def blocks_of(item: Fields) -> list[AnswerBlock]:
    """The blocks of an output item, empty ones too; none for the provider's own tools."""
    kind = item.text("type")
    if kind == "message":
        parts = responses_items.content(item, "content", Notes())
        return [part for part in parts if isinstance(part, Text | Refusal)]
    if kind == "reasoning":
        text = responses_items.reasoning_text(item)
        return [seals.from_encrypted(text, item.text("encrypted_content"), item.text("id"))]
    if kind in {"function_call", "custom_tool_call"}:
        return [responses_items.call(item, kind)]
    return []


def item_id(answer_id: str, block: AnswerBlock, index: int) -> str:
    """An item's id, made from the answer's: the same for the same place, in a stream and in a whole answer."""
    return f"{_PREFIX[type(block)]}{seals.OUR_ID}{answer_id}_{index}"


_PREFIX: dict[type, str] = {Text: "msg", Refusal: "msg", Thinking: "rs", ToolCall: "fc"}


def item(block: AnswerBlock, answer_id: str, index: int, status: str = "completed") -> dict[str, Any]:
    """The output item of a block."""
    made: dict[str, Any] = {"id": item_id(answer_id, block, index)}
    if isinstance(block, Text | Refusal):
        return made | {
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [part(block)],
        }
    if isinstance(block, Thinking):
        summary = [{"type": "summary_text", "text": block.text}] if block.text else []
        made |= {"type": "reasoning", "summary": summary}
        return made | {"encrypted_content": seals.as_encrypted(block)}
    namespace, name = split_namespace(block.name)
    if block.is_custom:
        made |= {"type": "custom_tool_call", "status": status, "call_id": block.id, "name": name}
        made |= {"input": block.arguments}
    else:
        made |= {"type": "function_call", "status": status, "call_id": block.id, "name": name}
        made |= {"arguments": block.arguments or "{}"}
    return made if namespace is None else made | {"namespace": namespace}


def part(block: Text | Refusal) -> dict[str, Any]:
    """The content part of a block of words."""
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text}
    return {"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}


def write(answer: Answer, echo: Mapping[str, Any]) -> dict[str, Any]:
    """The whole object; `echo` holds what the client asked for."""
    output = [item(block, answer.id, index) for index, block in enumerate(answer.blocks)]
    reason = stops.INCOMPLETE.get(answer.stop)
    return shell(
        answer.id,
        answer.model,
        answer.created_s or 0,
        echo,
        status="completed" if reason is None else "incomplete",
        incomplete_details=None if reason is None else {"reason": reason},
        output=output,
        tokens=answer.tokens,
        tier=answer.service_tier,
    )


def shell(
    answer_id: str,
    model: str,
    created_s: int,
    echo: Mapping[str, Any],
    *,
    status: str,
    output: list[dict[str, Any]],
    incomplete_details: dict[str, Any] | None = None,
    tokens: Tokens | None = None,
    tier: str | None = None,
) -> dict[str, Any]:
    """A response object in any state."""
    return {
        "id": answer_id,
        "object": "response",
        "created_at": created_s,
        "status": status,
        "error": None,
        "incomplete_details": incomplete_details,
        "model": model,
        "output": output,
        **{name: echo.get(name, value) for name, value in _UNSAID.items()},
        **tiers.for_openai(tier),
        "usage": None if tokens is None or tokens == UNKNOWN else usage_shape.to_responses(tokens),
    }
