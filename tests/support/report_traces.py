"""What a request leaves behind: its bodies' seals and marks, and the tokens of one whose client went away."""

from __future__ import annotations

from typing import Any

import httpx

from support.rig import KEY, PATIENCE_S, Rig
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.simulator.invoice import Line

PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "openai-responses": "/v1/responses"}
CONTENT = {
    "openai": b'"content":"',
    "anthropic": b"content_block_delta",
    "openai-responses": b"response.output_text.delta",
}
SEAL_NAMES = ("signature", "data", "encrypted_content")


async def leave(
    rig: Rig, client: str, upstream: str, events: int, *, words: str, stream: bool = True, **fields: Any
) -> None:
    """Ask, and be gone after so many pieces of content; 0 is as soon as anything came."""
    turns: dict[str, Any] = (
        {"input": words}
        if client == "openai-responses"
        else {"messages": [{"role": "user", "content": words}]}
    )
    turns |= {"max_tokens": 500} if client == "anthropic" else {}
    asked = {"model": f"to-{upstream}", "stream": stream, **turns, **fields}
    headers = {"authorization": f"Bearer {KEY}", "x-sim-output-tokens": "400"}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
        http.stream("POST", rig.url + PATHS[client], json=asked, headers=headers) as answer,
    ):
        seen = b""
        async for data in answer.aiter_raw():
            seen += data
            if seen.count(CONTENT[client]) >= events:
                return


def produced(end: Any) -> float:
    """Output tokens that a settlement was priced with."""
    known = end.tokens.input_uncached is not None
    tokens = end.tokens if known else Tokens(input_uncached=end.input_estimate)
    rest = end.cost_nanousd - cost_nanousd(Tokens(**{**_classes(tokens), "output": 0}), end.price)
    return rest * 1_000_000 / end.price.output


def _classes(tokens: Tokens) -> dict[str, Any]:
    return {
        name: getattr(tokens, name)
        for name in ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
    }


def seals(value: Any) -> list[str]:
    """Every opaque text in a body, in order."""
    if isinstance(value, list):
        return [seal for item in value for seal in seals(item)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in SEAL_NAMES if isinstance(value.get(name), str) and len(value[name]) > 40]
    return own + [seal for item in value.values() for seal in seals(item)]


def input_of(line: Line) -> int:
    """All input tokens of a request, whatever their class."""
    tokens = line.tokens
    return int(tokens.input_uncached + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h)


def unmarked(value: Any) -> Any:
    """Without the cache marks: a mark moves on with the conversation, and is no part of the prefix."""
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return value
