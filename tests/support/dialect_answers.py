"""Answers as plain data, and how a provider of each dialect would say them: whole, or as a stream. Shares no code with the gateway."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Wire = Literal["openai", "anthropic", "openai-responses"]
CHAT: Wire = "openai"
MESSAGES: Wire = "anthropic"
RESPONSES: Wire = "openai-responses"
WIRES: tuple[Wire, ...] = (CHAT, MESSAGES, RESPONSES)


@dataclass(frozen=True)
class Said:
    """One block: `kind` text, refusal, thinking (with a proof: the signature or the sealed text), or tool."""

    kind: str
    text: str
    proof: str = ""
    call_id: str = ""
    name: str = ""


@dataclass(frozen=True)
class Spec:
    """What a provider answers. Usage in disjoint classes."""

    id: str
    model: str
    blocks: tuple[Said, ...]
    stop: str  # end, length, tool_use, refusal
    uncached: int
    cached: int
    written: int
    output: int
    reasoning: int
    tier: str | None = None
    """The word of its dialect for how it was served; `fast` is a speed at Anthropic."""


def _beside(spec: Spec) -> dict[str, Any]:
    """What OpenAI's dialects tell of the tier."""
    return {} if spec.tier is None else {"service_tier": spec.tier}


def _chat_usage(spec: Spec) -> dict[str, Any]:
    prompt = spec.uncached + spec.cached + spec.written
    return {
        "prompt_tokens": prompt,
        "completion_tokens": spec.output,
        "total_tokens": prompt + spec.output,
        "prompt_tokens_details": {"cached_tokens": spec.cached, "cache_write_tokens": spec.written},
        "completion_tokens_details": {"reasoning_tokens": spec.reasoning},
    }


def _responses_usage(spec: Spec) -> dict[str, Any]:
    prompt = spec.uncached + spec.cached + spec.written
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": spec.cached, "cache_write_tokens": spec.written},
        "output_tokens": spec.output,
        "output_tokens_details": {"reasoning_tokens": spec.reasoning},
        "total_tokens": prompt + spec.output,
    }


def _messages_usage(spec: Spec) -> dict[str, Any]:
    return {
        "input_tokens": spec.uncached,
        "cache_read_input_tokens": spec.cached,
        "cache_creation_input_tokens": spec.written,
        "output_tokens": spec.output,
        **({"service_tier": "standard", "speed": "fast"} if spec.tier == "fast" else _beside(spec)),
    }


_CHAT_STOP = {"end": "stop", "length": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
_MESSAGES_STOP = {"end": "end_turn", "length": "max_tokens", "tool_use": "tool_use", "refusal": "refusal"}
_INCOMPLETE = {"length": "max_output_tokens", "refusal": "content_filter"}


def whole(wire: str, spec: Spec) -> dict[str, Any]:
    """The answer to a request without `stream`."""
    return {CHAT: _chat_whole, MESSAGES: _messages_whole, RESPONSES: _responses_whole}[wire](spec)


def _chat_whole(spec: Spec) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for said in spec.blocks:
        if said.kind == "text":
            message["content"] = (message["content"] or "") + said.text
        elif said.kind == "thinking":
            message["reasoning_content"] = message.get("reasoning_content", "") + said.text
        elif said.kind == "refusal":
            message["refusal"] = message.get("refusal", "") + said.text
        else:
            function = {"name": said.name, "arguments": said.text}
            calls = message.setdefault("tool_calls", [])
            calls.append({"id": said.call_id, "type": "function", "function": function})
    return {
        "id": spec.id,
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": spec.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _CHAT_STOP[spec.stop]}],
        **_beside(spec),
        "usage": _chat_usage(spec),
    }


def _messages_block(said: Said) -> dict[str, Any]:
    if said.kind == "tool":
        return {
            "type": "tool_use",
            "id": said.call_id,
            "name": said.name,
            "input": json.loads(said.text or "{}"),
        }
    if said.kind == "thinking" and not said.text:
        return {"type": "redacted_thinking", "data": said.proof}
    if said.kind == "thinking":
        return {"type": "thinking", "thinking": said.text, "signature": said.proof}
    return {"type": "text", "text": said.text}


def _messages_whole(spec: Spec) -> dict[str, Any]:
    return {
        "id": spec.id,
        "type": "message",
        "role": "assistant",
        "model": spec.model,
        "content": [_messages_block(said) for said in spec.blocks],
        "stop_reason": _MESSAGES_STOP[spec.stop],
        "stop_sequence": None,
        "usage": _messages_usage(spec),
    }


def _responses_item(said: Said, number: int) -> dict[str, Any]:
    if said.kind == "tool":
        return {
            "id": f"fc_{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": said.call_id,
            "name": said.name,
            "arguments": said.text,
        }
    if said.kind == "thinking":
        summary = [{"type": "summary_text", "text": said.text}] if said.text else []
        item = {"id": f"rs_{number}", "type": "reasoning", "summary": summary}
        return item | ({"encrypted_content": said.proof} if said.proof else {})
    part = {"type": "refusal", "refusal": said.text}
    if said.kind == "text":
        part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _responses_whole(spec: Spec, status: str = "") -> dict[str, Any]:
    reason = _INCOMPLETE.get(spec.stop)
    done = not status
    return {
        "id": spec.id,
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status or ("incomplete" if reason else "completed"),
        "error": None,
        "incomplete_details": {"reason": reason} if reason and done else None,
        "model": spec.model,
        "output": [_responses_item(said, n) for n, said in enumerate(spec.blocks)] if done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **(_beside(spec) if done else {"service_tier": "auto"}),
        "usage": _responses_usage(spec) if done else None,
    }


def pieces(text: str, random: Random) -> list[str]:
    """The text in parts as a provider would stream it."""
    found = []
    while text:
        size = random.randint(1, max(1, min(12, len(text))))
        found.append(text[:size])
        text = text[size:]
    return found


def stream(wire: str, spec: Spec, random: Random) -> bytes:
    """The answer to a request with `stream`."""
    return {CHAT: _chat_stream, MESSAGES: _messages_stream, RESPONSES: _responses_stream}[wire](spec, random)


def event(data: dict[str, Any], name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _chat_stream(spec: Spec, random: Random) -> bytes:
    """Parallel calls may come mixed; usage in the last chunk with a choice, or in one of its own."""
    frame = {
        "id": spec.id,
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": spec.model,
        **_beside(spec),
    }

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        return event(frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})

    out = [chunk({"role": "assistant", "content": ""})]
    field = {
        "text": "content",
        "refusal": "refusal",
        "thinking": random.choice(["reasoning_content", "reasoning"]),
    }
    for said in spec.blocks:
        if said.kind != "tool":
            out += [chunk({field[said.kind]: text}) for text in pieces(said.text, random)]
    calls: list[list[dict[str, Any]]] = []
    tools = [said for said in spec.blocks if said.kind == "tool"]
    for index, said in enumerate(tools):
        head = {"index": index, "id": said.call_id, "type": "function"}
        first = head | {"function": {"name": said.name, "arguments": ""}}
        rest = [{"index": index, "function": {"arguments": text}} for text in pieces(said.text, random)]
        calls.append([first, *rest])
    if random.random() < 0.5:  # one after the other
        out += [chunk({"tool_calls": [delta]}) for call in calls for delta in call]
    else:
        out += [chunk({"tool_calls": [call.pop(0)]}) for call in calls]
        while any(calls):
            out.append(chunk({"tool_calls": [random.choice([call for call in calls if call]).pop(0)]}))
    finish = _CHAT_STOP[spec.stop]
    if random.random() < 0.3:
        out.append(chunk({}, finish, usage=_chat_usage(spec)))
    else:
        out += [chunk({}, finish), event(frame | {"choices": [], "usage": _chat_usage(spec)})]
    return b"".join(out) + b"data: [DONE]\n\n"


def _messages_stream(spec: Spec, random: Random) -> bytes:
    def send(kind: str, **data: Any) -> bytes:
        return event({"type": kind, **data}, kind)

    start = _messages_whole(spec) | {"content": [], "stop_reason": None}
    start["usage"] = _messages_usage(spec) | {"output_tokens": 1}
    out = [send("message_start", message=start), send("ping")]
    for index, said in enumerate(spec.blocks):
        block = _messages_block(said)
        deltas: list[dict[str, Any]] = []
        if said.kind == "tool":
            block |= {"input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": text}
                for text in ["", *pieces(said.text, random)]
            ]
        elif block["type"] == "thinking":
            block |= {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": text} for text in pieces(said.text, random)]
            deltas.append({"type": "signature_delta", "signature": said.proof})
        elif block["type"] == "text":
            block |= {"text": ""}
            deltas = [{"type": "text_delta", "text": text} for text in pieces(said.text, random)]
        out.append(send("content_block_start", index=index, content_block=block))
        out += [send("content_block_delta", index=index, delta=delta) for delta in deltas]
        out.append(send("content_block_stop", index=index))
    delta = {"stop_reason": _MESSAGES_STOP[spec.stop], "stop_sequence": None}
    out += [send("message_delta", delta=delta, usage={"output_tokens": spec.output}), send("message_stop")]
    return b"".join(out)


def _responses_stream(spec: Spec, random: Random) -> bytes:
    out: list[bytes] = []

    def send(kind: str, **data: Any) -> None:
        out.append(event({"type": kind, "sequence_number": len(out), **data}, kind))

    for kind in ("response.created", "response.in_progress"):
        send(kind, response=_responses_whole(spec, "in_progress"))
    for index, said in enumerate(spec.blocks):
        item = _responses_item(said, index)
        place = {"item_id": item["id"], "output_index": index}
        if said.kind == "tool":
            send("response.output_item.added", output_index=index, item=item | {"arguments": ""})
            for text in pieces(said.text, random):
                send("response.function_call_arguments.delta", **place, delta=text)
            send("response.function_call_arguments.done", **place, arguments=said.text)
        elif said.kind == "thinking":
            opened = {name: value for name, value in item.items() if name != "encrypted_content"}
            send("response.output_item.added", output_index=index, item=opened | {"summary": []})
            for text in pieces(said.text, random):
                send("response.reasoning_summary_text.delta", **place, summary_index=0, delta=text)
        else:
            part = item["content"][0]
            field = "text" if said.kind == "text" else "refusal"
            kind = "output_text" if said.kind == "text" else "refusal"
            send("response.output_item.added", output_index=index, item=item | {"content": []})
            send("response.content_part.added", **place, content_index=0, part=part | {field: ""})
            for text in pieces(said.text, random):
                send(f"response.{kind}.delta", **place, content_index=0, delta=text)
            send("response.content_part.done", **place, content_index=0, part=part)
        send("response.output_item.done", output_index=index, item=item)
    final = _responses_whole(spec)
    send(f"response.{final['status']}", response=final)
    return b"".join(out)
