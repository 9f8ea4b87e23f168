"""A stream that ends without its usage is charged near what the provider bills, however many tokens an event holds."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.dialect_rig import CHATS, dialect_rig
from support.rig import KEY, PATIENCE_S, Rig
from tidegate.simulator.server import RunningSimulator

PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "openai-responses": "/v1/responses"}
ENDINGS = ("cut", "left", "without usage")
WORDS = "How high is the tide?"


def body(client: str, upstream: str) -> dict[str, Any]:
    request: dict[str, Any] = {"model": f"to-{upstream}", "stream": True}
    if client == "openai-responses":
        return {**request, "input": WORDS}
    return {**request, "messages": [{"role": "user", "content": WORDS}], "max_tokens": 8_000}


async def ask(rig: Rig, client: str, upstream: str, ending: str, tokens_per_event: int) -> None:
    """Three events of content and a half, or as many as tell something of single tokens; then the stream ends."""
    tokens = max(40, 3 * tokens_per_event)
    headers = {"authorization": f"Bearer {KEY}", "x-sim-output-tokens": str(tokens + tokens_per_event)}
    if ending != "left":
        headers["x-sim-fault"] = f"cut;after_tokens={tokens}" if ending == "cut" else "hidden_usage"
    async with (
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
        http.stream("POST", rig.url + PATHS[client], json=body(client, upstream), headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        events = size = 0
        async for part in answer.aiter_bytes():
            events, size = events + part.count(b"data:"), size + len(part)
            if ending == "left" and (size > 9_000 if tokens_per_event > 1 else events > 25):
                break


def lines(simulator: RunningSimulator) -> dict[str, int]:
    """The provider's bill by attempt, nano-dollars."""
    (bill,) = simulator.invoices().values()
    return {line["attempt"]: line["cost_nanousd"] for line in bill["lines"]}


@pytest.mark.parametrize("tokens_per_event", [1, 1_000])
async def test_a_stream_without_usage_is_charged_near_its_bill(tmp_path: Path, tokens_per_event: int) -> None:
    pace = {"ttft_ms": 0, "tokens_per_s": 200 * tokens_per_event**0.5}
    asked = list(product(CHATS, CHATS, ENDINGS))
    async with dialect_rig(tmp_path, tokens_per_event=tokens_per_event, latency=pace) as (rig, simulator):
        await asyncio.gather(*(ask(rig, *each, tokens_per_event) for each in asked))
        settled = await rig.wait_event("UsageSettled", len(asked))
        async with asyncio.timeout(PATIENCE_S):
            while len(billed := lines(simulator)) < len(asked):
                await asyncio.sleep(0.01)
        assert [(data.basis, data.tokens.output) for data in settled] == [("estimated", None)] * len(asked)
        ratios = [(data.cost_nanousd / billed[data.attempt], data.target, data.outcome) for data in settled]
        assert [each for each in ratios if not 1 / 1.5 < each[0] < 1.5] == []
