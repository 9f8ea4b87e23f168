"""A whole chat completion <-> the content model."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway import tiers
from tidegate.gateway.dialects import chat_reasoning, stops, usage_shape
from tidegate.gateway.dialects.blocks import Answer, AnswerBlock, Refusal, Text, Thinking, ToolCall
from tidegate.gateway.dialects.fields import Fields, answer_fields

UNKNOWN = Tokens()
"""The upstream reported no usage: then none is told, rather than nothing at all used."""


def read(body: dict[str, Any], tokens: Tokens, fallback_id: str) -> Answer:
    """The first choice. Raises AnswerMalformed."""
    top = answer_fields(body, "")
    choice = next(top.each("choices"), None)
    message = choice.inner("message") if choice else None
    if choice is None or message is None:
        raise top.wrong("choices", "holds no message")
    blocks: list[AnswerBlock] = [*chat_reasoning.blocks_of(message), *content_blocks(message)]
    refusal = message.text("refusal")
    if refusal:
        blocks.append(Refusal(refusal))
    answer_id = top.text("id") or fallback_id
    blocks += [_call(call, answer_id, at) for at, call in enumerate(message.each("tool_calls"))]
    return Answer(
        id=answer_id,
        model=top.text("model") or "",
        created_s=_seconds(top.number("created")),
        blocks=tuple(blocks),
        stop=stops.settled_for(stops.FROM_CHAT.get(choice.text("finish_reason") or "", "end"), blocks),
        tokens=tokens,
    )


def _seconds(value: float | None) -> int | None:
    return None if value is None else int(value)


def content_blocks(message: Fields) -> list[Text | Thinking]:
    """Content of a message or a delta: a string, or the list of parts that some vendors send."""
    content = message.raw("content")
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        raise message.wrong("content", "must be a string or a list of parts")
    blocks: list[Text | Thinking] = []
    for part in message.each("content"):
        if part.text("type") == "thinking":
            blocks.append(Thinking("".join(inner.text("text") or "" for inner in part.each("thinking"))))
        elif text := part.text("text"):
            blocks.append(Text(text))
    return blocks


def missing_call_id(answer_id: str, index: int) -> str:
    """An id for a tool call that came without one, not to be met again in the same conversation."""
    return f"call_{answer_id}_{index}"


def _call(call: Fields, answer_id: str, index: int) -> ToolCall:
    is_custom = call.text("type") == "custom"
    inner = call.inner("custom" if is_custom else "function")
    if inner is None:
        raise call.wrong("function", "is missing")
    text = inner.text("input" if is_custom else "arguments") or ""
    call_id = call.text("id") or missing_call_id(answer_id, index)
    return ToolCall(call_id, inner.needed_text("name"), text, is_custom)


def write(answer: Answer) -> dict[str, Any]:
    """All text in one string, all thinking in another, calls behind them: the dialect keeps no other order."""
    texts = [block.text for block in answer.blocks if isinstance(block, Text)]
    refusals = [block.text for block in answer.blocks if isinstance(block, Refusal)]
    thinking = [block for block in answer.blocks if isinstance(block, Thinking)]
    calls = [_written_call(block) for block in answer.blocks if isinstance(block, ToolCall)]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) or None,
        "refusal": "".join(refusals) or None,
    }
    if text := "".join(block.text for block in thinking):
        message["reasoning_content"] = text
    details = [chat_reasoning.detail(block, index) for index, block in enumerate(thinking)]
    if kept := [entry for entry in details if entry is not None]:
        message["reasoning_details"] = kept
    if calls:
        message["tool_calls"] = calls
    finish = stops.TO_CHAT[answer.stop]
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": answer.created_s or 0,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        **tiers.for_openai(answer.service_tier),
        "usage": None if answer.tokens == UNKNOWN else usage_shape.to_chat(answer.tokens),
    }


def _written_call(call: ToolCall) -> dict[str, Any]:
    if call.is_custom:
        custom = {"name": call.name, "input": call.arguments}
        return {"id": call.id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}
