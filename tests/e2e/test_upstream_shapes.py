"""Every way in which a provider may write a stream: each client reads the same answer, and the ledger is the invoice."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.dialect_rig import CHATS, billed
from support.fake_provider import route, settings_with
from support.rig import KEY, PRICES, Rig, provider, running_rig
from tidegate.simulator.faults import parse
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start
from tidegate.simulator.shape_catalogue import CHOICES, SHAPES, USAGE_PLACES

USER: Any = [{"role": "user", "content": "How high is the tide? " * 20}]
LOOK: dict[str, Any] = {"type": "object", "properties": {"where": {"type": "string"}}}
PARTS = [
    {"kind": "reasoning", "text": "Le né, le 月, the 🌊 of it."},
    {"text": "I look “twice”."},
    {"kind": "tool", "name": "look", "arguments": {"where": 'né 日.txt "b" \\ \n'}},
    {"kind": "tool", "name": "wait", "arguments": {}},
]
ALL = [
    *(kind for kind in SHAPES if kind not in CHOICES),
    *(f"{kind};{name}={word}" for kind, (name, words) in CHOICES.items() for word in words),
    "comments;every=3;place=inside",
    "huge_line;bytes=70000;kind=data",
]
SDK_LOST = {
    "openai": {
        "repeated_names",
        "tool_index;kind=duplicate",
        "tool_index;kind=gap",
        "tool_index;kind=missing",
    },
    "anthropic": {"bom", "usage_at;where=null", "usage_at;where=start"},
    "openai-responses": set[str](),
}
"""What the SDK cannot read when it gets the provider's own bytes: the gateway forwards them as they are."""
UNTOLD = {"usage_at;where=null", "usage_at;where=late"}
"""Nothing is told before the end of the stream: the settlement is an estimate, and says so."""
Said = tuple[str, list[tuple[str, Any]], Any]


@contextlib.asynccontextmanager
async def rig_to(upstream: str, folder: Path) -> AsyncIterator[tuple[Rig, RunningSimulator]]:
    model = {"name": "m", "script": "work", **PRICES}
    scripts = [{"name": "work", "turns": [{"parts": PARTS}]}]
    simulator = await start(
        load({"providers": [provider("one", models=[model], scripts=scripts, tokens_per_event=2)]})
    )
    prices = "\n".join(f'{name} = "{price / 1e9:g}"' for name, price in PRICES.items())
    try:
        config = (
            f'[[targets]]\nid = "only"\ndialect = "{upstream}"\nbase_url = "{simulator.base_url("one")}"\nmodel = "m"\n'
            f'secret = "env:SIM_KEY"\nallow_private = true\nforward_headers = ["x-sim-shape"]\n'
            f"[[targets.prices]]\n{prices}\n" + route("to", "only")
        )
        async with running_rig(folder, settings=settings_with(config)) as rig:
            yield rig, simulator
    finally:
        await simulator.stop()


async def chat(url: str, headers: dict[str, str]) -> Said:
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": LOOK}} for name in ("look", "wait")
    ]
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, default_headers=headers) as client,
        client.chat.completions.stream(
            model="to", messages=USER, tools=tools, max_completion_tokens=500
        ) as stream,
    ):
        choice = (await stream.get_final_completion()).choices[0]
    calls = [
        (call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []
    ]
    return choice.message.content or "", calls, choice.finish_reason


async def message(url: str, headers: dict[str, str]) -> Said:
    tools: Any = [{"name": name, "input_schema": LOOK} for name in ("look", "wait")]
    async with (
        AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0, default_headers=headers) as client,
        client.messages.stream(model="to", messages=USER, tools=tools, max_tokens=500) as stream,
    ):
        answer = await stream.get_final_message()
    calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
    return "".join(block.text for block in answer.content if block.type == "text"), calls, answer.stop_reason


async def response(url: str, headers: dict[str, str]) -> Said:
    tools: Any = [
        {"type": "function", "name": name, "parameters": LOOK, "strict": False} for name in ("look", "wait")
    ]
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, default_headers=headers) as client,
        client.responses.stream(model="to", input=USER, tools=tools, store=False) as stream,
    ):
        answer = await stream.get_final_response()
    calls = [
        (item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"
    ]
    return answer.output_text, calls, answer.status


CLIENTS = {"openai": chat, "anthropic": message, "openai-responses": response}


def shapes_of(upstream: str, client: str) -> list[str]:
    places = USAGE_PLACES[{"openai-responses": "responses"}.get(upstream, upstream)]
    fitting = [
        shape for shape in ALL if not shape.startswith("usage_at") or parse(shape).text("where") in places
    ]
    return [shape for shape in fitting if client != upstream or shape not in SDK_LOST[upstream]]


@pytest.mark.nightly
@pytest.mark.parametrize("client", CHATS)
@pytest.mark.parametrize("upstream", CHATS)
async def test_however_a_stream_is_written_the_answer_is_the_same_and_the_ledger_is_the_invoice(
    tmp_path: Path, upstream: str, client: str
) -> None:
    wrong: dict[str, Any] = {}
    async with rig_to(upstream, tmp_path) as (rig, simulator):
        plain = await CLIENTS[client](rig.url, {})
        assert [name for name, _ in plain[1]] == ["look", "wait"]
        for number, shape in enumerate(shapes_of(upstream, client), start=2):
            told, due = rig.ledger(), billed(simulator)
            try:
                found: Any = await CLIENTS[client](rig.url, {"x-sim-shape": shape})
            except Exception as error:
                found = repr(error)
            await rig.wait_event("RequestFinished", number)
            basis = rig.data("UsageSettled")[-1].basis
            if found != plain:
                wrong[shape] = found
            elif basis != ("estimated" if shape in UNTOLD else "reported"):
                wrong[shape] = basis
            elif basis == "reported" and rig.ledger() - told != billed(simulator) - due:
                wrong[shape] = (rig.ledger() - told, billed(simulator) - due)
    assert wrong == {}
