"""Conversations made from a seed: what a client asks in its dialect, and what the provider will answer."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from support.dialect_answers import CHAT, MESSAGES, RESPONSES, Said, Spec

_WORDS = [
    "tide",
    "gate",
    "river",
    "rain",
    "東京",
    "naïve",
    "café",
    "🌊",
    "👩\u200d🔬",
    "quota",
    '"quoted"',
    "back\\slash",
    "line\nbreak",
    "tab\there",
    "data:",
    "[DONE]",
    "event:",
    "message_stop",
    '{"usage":',
    "null}",
    "ü",
    "×",
    "0",
    "1.5",
    "null",
    "true",
]
_TIERS: dict[str, tuple[str | None, ...]] = {
    CHAT: (None, "default", "flex", "priority"),
    MESSAGES: (None, "standard", "priority", "batch", "fast"),
    RESPONSES: (None, "default", "flex", "priority"),
}
_TOOLS = ("get_weather", "search-docs", "write_file", "mcp__files__read")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def words(random: Random, most: int = 24) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(random.randint(1, most)))


def arguments(random: Random) -> str:
    value: Any = {}
    for _ in range(random.randint(0, 3)):
        value[random.choice(("city", "path", "days", "unit", "deep"))] = random.choice(
            (
                words(random, 3),
                random.randint(-5, 5),
                None,
                [1, words(random, 2)],
                {"inner": words(random, 2)},
            )
        )
    return json.dumps(value, ensure_ascii=random.random() < 0.5)


def spec(random: Random, upstream: str) -> Spec:
    """An answer that this dialect's providers could give."""
    blocks: list[Said] = []
    if random.random() < 0.5:
        proof = "" if upstream == CHAT else random.randbytes(24).hex()
        blocks.append(Said("thinking", words(random), proof))
        if upstream == MESSAGES and random.random() < 0.3:
            blocks.append(Said("thinking", "", random.randbytes(16).hex()))
    if random.random() < 0.85:
        blocks.append(Said("text", words(random, 60)))
    calls = random.choice((0, 0, 0, 1, 1, 2, 3))
    for number in range(calls):
        call_id = f"{'toolu' if upstream == MESSAGES else 'call'}_{random.randbytes(6).hex()}{number}"
        blocks.append(Said("tool", arguments(random), call_id=call_id, name=random.choice(_TOOLS)))
    stop = "tool_use" if calls else random.choice(("end", "end", "end", "length", "refusal"))
    if not calls and upstream != MESSAGES and random.random() < 0.1:
        blocks = [Said("refusal", words(random))]
        stop = "end"
    if not blocks:
        blocks.append(Said("text", words(random)))
    output = random.randint(1, 900)
    return Spec(
        id=f"{'msg' if upstream == MESSAGES else 'resp'}_{random.randbytes(8).hex()}",
        model="upstream-model-1",
        blocks=tuple(blocks),
        stop=stop,
        uncached=random.randint(0, 5000),
        cached=random.choice((0, random.randint(1, 9000))),
        written=random.choice((0, random.randint(1, 9000))),
        output=output,
        reasoning=0 if upstream == MESSAGES else random.randint(0, output),
        tier=random.choice(_TIERS[upstream]),
    )


def _schema() -> dict[str, Any]:
    return {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def asked(random: Random, client: str) -> dict[str, Any]:
    """What the client's SDK is called with, but for `stream`: a conversation of several turns."""
    make = {CHAT: _chat, MESSAGES: _messages}.get(client, _responses)
    return {"model": "route", **make(random)}


def _chat(random: Random) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if random.random() < 0.7:
        messages.append({"role": random.choice(("system", "developer")), "content": words(random)})
    for _ in range(random.randint(0, 3)):
        messages.append({"role": "user", "content": words(random)})
        if random.random() < 0.5:
            ids = [f"call_{random.randbytes(4).hex()}" for _ in range(random.randint(1, 2))]
            calls = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": random.choice(_TOOLS), "arguments": arguments(random)},
                }
                for call_id in ids
            ]
            messages.append(
                {"role": "assistant", "content": random.choice((None, words(random))), "tool_calls": calls}
            )
            messages += [
                {"role": "tool", "tool_call_id": call_id, "content": words(random)} for call_id in ids
            ]
        messages.append({"role": "assistant", "content": words(random)})
    last: Any = words(random)
    if random.random() < 0.3:
        last = [
            {"type": "text", "text": words(random)},
            {
                "type": "image_url",
                "image_url": {
                    "url": random.choice(("https://pictures.test/1.png", f"data:image/png;base64,{PNG}"))
                },
            },
        ]
    messages.append({"role": "user", "content": last})
    body: dict[str, Any] = {"messages": messages}
    if random.random() < 0.6:
        tool = {"name": random.choice(_TOOLS), "description": words(random), "parameters": _schema()}
        body["tools"] = [{"type": "function", "function": tool}]
        body["tool_choice"] = random.choice(
            (
                *("auto", "required", "none", {"type": "function", "function": {"name": tool["name"]}}),
                {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "auto",
                        "tools": [{"type": "function", "function": {"name": tool["name"]}}],
                    },
                },
            )
        )
        body["parallel_tool_calls"] = random.choice((True, False))
    if random.random() < 0.3:
        body["reasoning_effort"] = random.choice(("minimal", "low", "medium", "high"))
    if random.random() < 0.3:
        body["temperature"] = random.choice((0, 0.5, 1, 1.7))
    if random.random() < 0.3:
        body["max_completion_tokens"] = random.randint(1, 4000)
    if random.random() < 0.2:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "place", "schema": _schema(), "strict": True},
        }
    return body


def _messages(random: Random) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for _ in range(random.randint(0, 3)):
        messages.append({"role": "user", "content": words(random)})
        if random.random() < 0.5:
            ids = [f"toolu_{random.randbytes(4).hex()}" for _ in range(random.randint(1, 2))]
            content: list[dict[str, Any]] = []
            if random.random() < 0.5:
                content.append(
                    {"type": "thinking", "thinking": words(random), "signature": random.randbytes(20).hex()}
                )
            content += [
                {
                    "type": "tool_use",
                    "id": call_id,
                    "name": random.choice(_TOOLS),
                    "input": json.loads(arguments(random)),
                }
                for call_id in ids
            ]
            messages.append({"role": "assistant", "content": content})
            results: list[dict[str, Any]] = [
                {
                    "type": "tool_result",
                    "tool_use_id": call_id,
                    "content": [{"type": "text", "text": words(random)}],
                }
                for call_id in ids
            ]
            messages.append({"role": "user", "content": [*results, {"type": "text", "text": words(random)}]})
        messages.append({"role": "assistant", "content": words(random)})
    content = [{"type": "text", "text": words(random), "cache_control": {"type": "ephemeral"}}]
    if random.random() < 0.3:
        content.append(
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        )
    if random.random() < 0.3:
        content.insert(random.randint(0, len(content)), _document(random))
    messages.append({"role": "user", "content": content})
    body: dict[str, Any] = {"max_tokens": random.randint(1, 20_000), "messages": messages}
    if random.random() < 0.7:
        body["system"] = random.choice(
            (words(random), [{"type": "text", "text": words(random), "cache_control": {"type": "ephemeral"}}])
        )
    if random.random() < 0.6:
        name = random.choice(_TOOLS)
        body["tools"] = [{"name": name, "description": words(random), "input_schema": _schema()}]
        body["tool_choice"] = random.choice(
            ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": name}, {"type": "none"})
        )
    if random.random() < 0.3:
        body["thinking"] = random.choice(({"type": "adaptive"}, {"type": "disabled"}))
    return body


def _document(random: Random) -> dict[str, Any]:
    """A text, or texts and pictures."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    parts = [
        random.choice((picture, {"type": "text", "text": words(random)})) for _ in range(random.randint(1, 4))
    ]
    source = random.choice(
        (
            {"type": "text", "media_type": "text/plain", "data": words(random)},
            {"type": "content", "content": words(random)},
            {"type": "content", "content": parts},
            {"type": "content", "content": parts},
        )
    )
    document: dict[str, Any] = {"type": "document", "source": source}
    for name in ("title", "context"):
        if random.random() < 0.5:
            document[name] = words(random, 4)
    return document


def _responses(random: Random) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for _ in range(random.randint(0, 3)):
        items.append({"role": "user", "content": words(random)})
        if random.random() < 0.5:
            number = random.randbytes(4).hex()
            items.append(
                {
                    "type": "reasoning",
                    "id": f"rs_{number}",
                    "summary": [{"type": "summary_text", "text": words(random)}],
                    "encrypted_content": random.randbytes(20).hex(),
                }
            )
            items.append(
                {
                    "type": "function_call",
                    "call_id": f"call_{number}",
                    "name": random.choice(_TOOLS),
                    "arguments": arguments(random),
                }
            )
            items.append(
                {"type": "function_call_output", "call_id": f"call_{number}", "output": words(random)}
            )
        said = {"type": "output_text", "text": words(random), "annotations": []}
        items.append(
            {
                "type": "message",
                "role": "assistant",
                "id": f"msg_{random.randbytes(4).hex()}",
                "status": "completed",
                "content": [said],
            }
        )
    last: list[dict[str, Any]] = [{"type": "input_text", "text": words(random)}]
    if random.random() < 0.3:
        last.append({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"})
    items.append({"type": "message", "role": "user", "content": last})
    body: dict[str, Any] = {"input": random.choice((items, items, words(random))), "store": False}
    if random.random() < 0.7:
        body["instructions"] = words(random)
    if random.random() < 0.6:
        tool = {
            "type": "function",
            "name": random.choice(_TOOLS),
            "description": words(random),
            "parameters": _schema(),
            "strict": False,
        }
        body["tools"] = [tool]
        body["tool_choice"] = random.choice(
            (
                *("auto", "required", "none", {"type": "function", "name": tool["name"]}),
                {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": tool["name"]}],
                },
            )
        )
    if random.random() < 0.4:
        body["reasoning"] = {"effort": random.choice(("low", "medium", "high")), "summary": "auto"}
        body["include"] = ["reasoning.encrypted_content"]
    if random.random() < 0.3:
        body["max_output_tokens"] = random.randint(16, 4000)
    return body
