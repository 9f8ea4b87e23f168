"""One simulated provider behind the gateway in every dialect, and the official SDKs brought to one plain form."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import msgspec
import openai
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.dialect_rig import CHATS
from support.fake_provider import route, settings_with
from support.rig import KEY, PRICES, Rig, provider, running_rig
from tidegate.analytics.ledger import Ledger
from tidegate.analytics.reconcile import Reconciliation, plan
from tidegate.events.config import Settings
from tidegate.events.signals import UsageSettled
from tidegate.runtime.billing import Bills
from tidegate.simulator.invoice import Line
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

PAIRS = [(client, upstream) for client in CHATS for upstream in CHATS]
STEERING = '["x-sim-fault", "x-sim-shape", "x-sim-output-tokens", "x-sim-tool", "x-sim-web-searches"]'
QUIRKS = {
    "openai": "[targets.quirks]\nreasoning_details = true\ncache_control = true\n",
    "anthropic": "[targets.quirks]\nauto_cache = true\n",
    "openai-responses": "",
}
"""Chat: a vendor that takes the fields of others; Anthropic: caches also for clients that cannot ask for it."""
_TLS = ssl.create_default_context()
"""Never used; one for all clients, as making it takes longer than a request."""
TOOL: dict[str, Any] = {"type": "object", "properties": {"where": {"type": "string"}}}


class LeapingClock:
    """The system's clocks, whose wall time can be moved forward: one for a gateway and a simulator."""

    def __init__(self) -> None:
        self._ahead_ns = 0

    def wall_ns(self) -> int:
        return time.time_ns() + self._ahead_ns

    def mono_ns(self) -> int:
        return time.monotonic_ns()

    def now_s(self) -> float:
        return self.wall_ns() / 1e9

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(max(duration_s, 0.0))

    def leap_s(self, by_s: int) -> None:
        self._ahead_ns += by_s * 1_000_000_000


class Heard(NamedTuple):
    """An answer: text, calls as (name, arguments), its end, tokens as (all input, cache read, output), its tier."""

    text: str
    calls: list[tuple[str, Any]]
    ended: Any
    tokens: tuple[int, int, int]
    tier: str | None = None


def priced(tokens: dict[str, int] | None = None) -> str:
    """Prices of a target, nano-dollars per million tokens."""
    prices = PRICES if tokens is None else tokens
    lines = "".join(f'{name} = "{price / 1e9:g}"\n' for name, price in prices.items())
    return f"[[targets.prices]]\n{lines}" if lines else ""


@contextlib.asynccontextmanager
async def report_rig(
    folder: Path,
    *,
    prices: dict[str, int] | None = None,
    more_prices: str = "",
    model: dict[str, Any] | None = None,
    clock: LeapingClock | None = None,
    target: str = "",
    **changes: Any,
) -> AsyncIterator[tuple[Rig, RunningSimulator]]:
    """Targets `only-<dialect>` and routes `to-<dialect>`; `changes` are the provider's, `model` its model's.

    `more_prices` is TOML behind the plain prices of each target, `target` its own fields; `clock` that of both sides.
    """
    offered = {"name": "m", **PRICES, **(model or {})}
    simulator = await start(
        load({"providers": [provider("one", models=[offered], keep_requests=100, **changes)]}), clock
    )
    try:
        settings = report_settings(simulator, priced(prices) + more_prices, target)
        async with running_rig(folder, settings=settings, clock=clock) as rig:
            yield rig, simulator
    finally:
        await simulator.stop()


def report_settings(simulator: RunningSimulator, prices: str, target: str = "") -> Settings:
    """A target and a route for each dialect; `prices` is the TOML of each target's, `target` of its own fields."""
    return settings_with(
        "".join(
            f'[[targets]]\nid = "only-{dialect}"\ndialect = "{dialect}"\nbase_url = "{simulator.base_url("one")}"\n'
            f'model = "m"\nsecret = "env:SIM_KEY"\nallow_private = true\nforward_headers = {STEERING}\n'
            + target
            + QUIRKS[dialect]
            + prices
            + route(f"to-{dialect}", f"only-{dialect}")
            for dialect in CHATS
        )
    )


def lines(simulator: RunningSimulator) -> list[Line]:
    """What the provider noted of each request, in order."""
    return simulator.engines["one"].log.lines


def bodies(simulator: RunningSimulator) -> list[Any]:
    """The bodies that it was sent."""
    return [json.loads(request["body"]) for request in simulator.engines["one"].log.requests]


async def with_bills(rig: Rig) -> Reconciliation:
    """The ledger beside the provider's bill: what was reported, and what a bill corrects of the estimates."""
    ledger = Ledger()
    for envelope, data in rig.events():
        ledger.fold(envelope, data)
    settings = rig.machine.settings
    bills = await Bills(settings.targets, rig.machine.clock).fetch()
    return plan(ledger, bills, routing=settings.routing())


def unpriced(rig: Rig) -> Ledger:
    """The ledger as it were, had no target had a price."""
    ledger = Ledger()
    for envelope, data in rig.events("AttemptStarted", "UsageSettled"):
        is_end = isinstance(data, UsageSettled)
        without = msgspec.structs.replace(data, cost_nanousd=None, price=None) if is_end else data
        ledger.fold(envelope, without)
    return ledger


async def ask(
    rig: Rig,
    client: str,
    upstream: str,
    turns: str | Sequence[Any],
    *,
    stream: bool = True,
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> tuple[Heard, list[Any]]:
    """The answer as the SDK of the client's dialect gives it, and the items that stand for it in the next turn."""
    common = {"api_key": KEY, "max_retries": 0, "default_headers": headers or {}, "timeout": 90}
    asked = {"model": f"to-{upstream}", **fields}
    if client == "anthropic":
        own = anthropic.DefaultAsyncHttpxClient(verify=_TLS, trust_env=False)
        async with AsyncAnthropic(base_url=rig.url, http_client=own, **common) as sdk:
            return await _messages(sdk, asked, turns, stream=stream)
    http = openai.DefaultAsyncHttpxClient(verify=_TLS, trust_env=False)
    async with AsyncOpenAI(base_url=f"{rig.url}/v1", http_client=http, **common) as sdk:
        talk = _chat if client == "openai" else _responses
        return await talk(sdk, asked, turns, stream=stream)


def cached(client: str, words: str) -> list[Any]:
    """One turn of a user; the clients that must ask for caching do."""
    content = [{"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}]
    return [{"role": "user", "content": content if client == "anthropic" else words}]


def thinking(client: str) -> dict[str, Any]:
    """The fields by which a client asks for thoughts."""
    if client == "openai":
        return {"reasoning_effort": "high"}
    if client == "anthropic":
        return {"thinking": {"type": "adaptive"}}
    return {"reasoning": {"effort": "high"}}


def _turns(turns: str | Sequence[Any]) -> list[Any]:
    return [{"role": "user", "content": turns}] if isinstance(turns, str) else list(turns)


async def _chat(
    sdk: AsyncOpenAI, asked: dict[str, Any], turns: str | Sequence[Any], *, stream: bool
) -> tuple[Heard, list[Any]]:
    tools = [{"type": "function", "function": {"name": n, "parameters": TOOL}} for n in ("look", "wait")]
    body: dict[str, Any] = {"tools": tools, "max_completion_tokens": 500, "messages": _turns(turns)} | asked
    if stream:
        async with sdk.chat.completions.stream(**body, stream_options={"include_usage": True}) as events:
            whole: Any = await events.get_final_completion()
    else:
        whole = await sdk.chat.completions.create(**body)
    (choice,) = whole.choices
    calls = [
        (call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []
    ]
    used, tokens = whole.usage, (-1, -1, -1)
    if used is not None:
        details = used.prompt_tokens_details
        cached = 0 if details is None else details.cached_tokens or 0
        tokens = (used.prompt_tokens, cached, used.completion_tokens)
    turn = choice.message.model_dump(exclude_none=True)
    text = choice.message.content or ""
    return Heard(text, calls, choice.finish_reason, tokens, whole.service_tier), [turn]


async def _messages(
    sdk: AsyncAnthropic, asked: dict[str, Any], turns: str | Sequence[Any], *, stream: bool
) -> tuple[Heard, list[Any]]:
    tools = [{"name": name, "input_schema": TOOL} for name in ("look", "wait")]
    body: dict[str, Any] = {"tools": tools, "max_tokens": 500, "messages": _turns(turns)} | asked
    if stream:
        async with sdk.messages.stream(**body) as events:
            whole: Any = await events.get_final_message()
    else:
        whole = await sdk.messages.create(**body)
    calls = [(block.name, block.input) for block in whole.content if block.type == "tool_use"]
    text = "".join(block.text for block in whole.content if block.type == "text")
    used = whole.usage
    read, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
    tokens = (used.input_tokens + read + written, read, used.output_tokens)
    content = [
        {key: value for key, value in block.model_dump(exclude_none=True).items() if key != "parsed_output"}
        for block in whole.content
    ]
    heard = Heard(text, calls, whole.stop_reason, tokens, used.service_tier)
    return heard, [{"role": "assistant", "content": content}]


async def _responses(
    sdk: AsyncOpenAI, asked: dict[str, Any], turns: str | Sequence[Any], *, stream: bool
) -> tuple[Heard, list[Any]]:
    tools = [
        {"type": "function", "name": name, "parameters": TOOL, "strict": False} for name in ("look", "wait")
    ]
    wanted: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    body: dict[str, Any] = {"tools": tools, "input": turns, "max_output_tokens": 500} | wanted | asked
    if stream:
        async with sdk.responses.stream(**body) as events:
            whole: Any = await events.get_final_response()
    else:
        whole = await sdk.responses.create(**body)
    calls = [(item.name, json.loads(item.arguments)) for item in whole.output if item.type == "function_call"]
    used, tokens = whole.usage, (-1, -1, -1)
    if used is not None:
        tokens = (used.input_tokens, used.input_tokens_details.cached_tokens, used.output_tokens)
    items = [
        {
            key: value
            for key, value in item.model_dump(exclude_none=True).items()
            if key not in {"status", "parsed_arguments"}
        }
        for item in whole.output
    ]
    for item in items:
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return Heard(whole.output_text, calls, whole.status, tokens, whole.service_tier), items
