"""A conversation that changes its provider: what one signed is not shown to another, and the words stay."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from support.fake_provider import Call, FakeProvider, answer, gateway_over, route, settings_with, target
from support.report_rig import priced
from support.report_traces import seals
from support.rig import KEY, PRICES, Rig, provider, running_rig
from tidegate.events.config import Settings
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

TOOLS = [{"name": "look", "input_schema": {"type": "object"}}]


def config(url: str) -> str:
    return (
        target("a", url, "anthropic", 'provider = "first"')
        + target("b", url, "anthropic", 'provider = "second"')
        + route("r", "a", "b")
    )


def turn(name: str) -> list[dict[str, Any]]:
    thought = {"type": "thinking", "thinking": f"thought of {name}", "signature": f"signed by {name}"}
    return [thought, {"type": "text", "text": f"words of {name}"}]


class Providers:
    """Both targets in one: each answers under its own name; the first can be switched off."""

    def __init__(self) -> None:
        self.first_is_down = False

    def __call__(self, call: Call) -> bytes:
        name = call.json["model"]
        if name == "real-a" and self.first_is_down:
            return answer(
                {"type": "error", "error": {"type": "api_error", "message": "x"}}, status="503 Down"
            )
        return answer(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": name,
                "content": turn(name),
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 7, "output_tokens": 2},
            }
        )


async def say(rig: Rig, turns: list[dict[str, Any]]) -> httpx.Response:
    headers = {"x-api-key": KEY, "x-tidegate-session": "talk"}
    turns.append({"role": "user", "content": "go on"})
    async with httpx.AsyncClient(timeout=20) as client:
        got = await client.post(
            f"{rig.url}/v1/messages",
            content=json.dumps({"model": "r", "max_tokens": 9, "messages": turns}, indent=1),
            headers=headers,
        )
    assert got.status_code == 200, got.text
    turns.append({"role": "assistant", "content": got.json()["content"]})
    return got


def signed_by(fake: FakeProvider) -> list[str]:
    """Whose signatures the last call held."""
    messages = fake.calls[-1].json["messages"]
    blocks = [block for each in messages if isinstance(each["content"], list) for block in each["content"]]
    return [block["signature"].removeprefix("signed by real-") for block in blocks if "signature" in block]


async def test_each_provider_sees_only_what_it_signed_itself_and_all_the_words(tmp_path: Path) -> None:
    providers, turns = Providers(), list[dict[str, Any]]()
    async with gateway_over(tmp_path, config, providers) as (rig, fake):
        await say(rig, turns)
        quiet = await say(rig, turns)
        assert signed_by(fake) == ["a"]
        assert "x-tidegate-warnings" not in quiet.headers
        assert b"\n " in fake.calls[-1].body, "one provider: the client's own bytes"
        providers.first_is_down = True
        switched = await say(rig, turns)
        assert switched.headers["x-tidegate-target"] == "b"
        assert switched.headers["x-tidegate-warnings"] == "left out: thinking"
        assert signed_by(fake) == []
        assert "words of real-a" in str(fake.calls[-1].json)
        again = await say(rig, turns)
        assert again.headers["x-tidegate-target"] == "b"
        assert signed_by(fake) == ["b"]


THOUGHTS: dict[str, Any] = {
    "scripts": [
        {
            "name": "talk",
            "turns": [
                {"parts": [{"kind": "reasoning", "text": f"thought {turn}"}, {"text": f"word {turn}"}]}
                for turn in range(6)
            ],
        }
    ],
    "models": [{"name": "m", **PRICES, "script": "talk"}],
}
"""Simulated providers refuse thoughts that they have not signed and items that they have not sealed."""


@contextlib.asynccontextmanager
async def two_providers(dialect: str, *, extra: str = "", **second: Any) -> AsyncIterator[Two]:
    """Two that both speak this dialect, and a route to each of them; `second` is of the second one alone."""
    simulator = await start(
        load(
            {
                "providers": [
                    provider("one", **THOUGHTS),
                    provider("two", keep_requests=9, **THOUGHTS, **second),
                ]
            }
        )
    )
    try:
        yield Two(
            simulator,
            settings_with(
                "".join(
                    f'[[targets]]\nid = "{name}"\ndialect = "{dialect}"\nmodel = "m"\nsecret = "env:SIM_KEY"\n'
                    f'base_url = "{simulator.base_url(name)}"\nallow_private = true\n{priced()}'
                    + route(f"to-{name}", name, extra=extra)
                    for name in ("one", "two")
                )
            ),
        )
    finally:
        await simulator.stop()


class Two(NamedTuple):
    """Both providers, and a config for gateways in front of them."""

    simulator: RunningSimulator
    settings: Settings

    def billed(self) -> int:
        """What both ask for, nano-dollars."""
        return sum(int(bill["total_nanousd"]) for bill in self.simulator.invoices().values())


class Talk:
    """A conversation in one client dialect."""

    def __init__(self, rig: Rig, client: str, session: str = "talk") -> None:
        self.rig, self.client, self.session = rig, client, session
        self.items: list[Any] = []

    async def ask(self, name: str, *, stream: bool = False) -> httpx.Headers:
        """Go on by this route; an answer that is refused fails the test."""
        self.items.append({"role": "user", "content": "go on"})
        headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}", "x-tidegate-session": self.session}
        messages = self.client == "anthropic"
        body: dict[str, Any] = {"model": name, "stream": stream}
        if messages:
            body |= {"max_tokens": 99, "messages": self.items, "thinking": {"type": "adaptive"}}
        else:
            wanted = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
            body |= {"input": self.items, "store": False, **wanted}
        path = "/v1/messages" if messages else "/v1/responses"
        async with httpx.AsyncClient(timeout=20) as client:
            got = await client.post(self.rig.url + path, json=body, headers=headers)
        assert got.status_code == 200, got.text
        self.items += _said_in_stream(self.client, got.text) if stream else _said(self.client, got.json())
        return got.headers


def _said(client: str, answer: dict[str, Any]) -> list[Any]:
    if client == "anthropic":
        return [{"role": "assistant", "content": answer["content"]}]
    return list(answer["output"])


def _said_in_stream(client: str, text: str) -> list[Any]:
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if client != "anthropic":
        return list(events[-1]["response"]["output"])
    blocks: list[Any] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = {name: value for name, value in event["delta"].items() if name != "type"}
            for name, value in delta.items():
                blocks[-1][name] = blocks[-1].get(name, "") + value
    return [{"role": "assistant", "content": blocks}]


CLIENTS = pytest.mark.parametrize(
    ("client", "dialect"),
    [
        ("anthropic", "anthropic"),
        ("openai-responses", "openai-responses"),
        ("openai-responses", "anthropic"),
        ("anthropic", "openai-responses"),
    ],
)


@CLIENTS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_is_never_shown_what_another_signed_where_this_was_seen(
    tmp_path: Path, client: str, dialect: str, stream: bool
) -> None:
    """Two conversations under one session, a history whose beginning was cut off, a change of the route."""
    async with (
        two_providers(dialect) as providers,
        running_rig(tmp_path, settings=providers.settings) as rig,
    ):
        first, second = Talk(rig, client), Talk(rig, client)
        heads = [
            await first.ask("to-one", stream=stream),
            await second.ask("to-two", stream=stream),
            await first.ask("to-one", stream=stream),
            await first.ask("to-two", stream=stream),
            await second.ask("to-one", stream=stream),
            await first.ask("to-two", stream=stream),
        ]
        del first.items[: len(first.items) // 2]
        first.session = "another"
        heads += [await first.ask("to-one", stream=stream), await first.ask("to-two", stream=stream)]
        assert [head["x-tidegate-attempts"] for head in heads] == ["1"] * 8
        assert "x-tidegate-warnings" not in heads[2]
        assert "left out" in heads[3]["x-tidegate-warnings"]
        await rig.wait_event("RequestFinished", 8)
        assert rig.ledger() == providers.billed() > 0


@CLIENTS
async def test_what_no_worker_here_has_seen_is_taken_out_when_a_provider_refuses_it(
    tmp_path: Path, client: str, dialect: str
) -> None:
    """The first gateway stands for another worker, or for one before it was started anew."""
    async with two_providers(dialect) as providers:
        async with running_rig(tmp_path / "before", settings=providers.settings) as rig:
            before = Talk(rig, client)
            for _ in range(2):
                await before.ask("to-one")
            paid = rig.ledger()
        async with running_rig(tmp_path / "after", settings=providers.settings) as rig:
            talk = Talk(rig, client)
            talk.items = before.items
            untouched = await talk.ask("to-one")
            assert untouched["x-tidegate-attempts"] == "1"
            assert "x-tidegate-warnings" not in untouched
            mended = await talk.ask("to-two", stream=True)
            assert mended["x-tidegate-target"] == "two"
            assert mended["x-tidegate-attempts"] == "2"
            assert "left out" in mended["x-tidegate-warnings"]
            again = await talk.ask("to-two")
            assert again["x-tidegate-attempts"] == "1", "a history is refused once"
            told = providers.simulator.engines["two"].log.requests[-1]["body"]
            assert "word 2" in told
            assert seals(json.loads(told)) != [], "its own thoughts stay"
            await rig.wait_event("RequestFinished", 3)
            assert paid + rig.ledger() == providers.billed() > 0


async def test_a_refused_history_takes_no_attempt_from_the_route(tmp_path: Path) -> None:
    """The only attempt that the route allows is one that the provider answers."""
    async with two_providers("anthropic", extra="max_attempts = 1") as providers:
        async with running_rig(tmp_path / "before", settings=providers.settings) as rig:
            before = Talk(rig, "anthropic")
            await before.ask("to-one")
        async with running_rig(tmp_path / "after", settings=providers.settings) as rig:
            talk = Talk(rig, "anthropic")
            talk.items = before.items
            assert (await talk.ask("to-two"))["x-tidegate-attempts"] == "2"


async def test_a_history_that_is_refused_without_any_proof_is_not_sent_again_and_again(
    tmp_path: Path,
) -> None:
    faults = [{"kind": "400", "params": {"message": "Invalid `signature` in `thinking` block"}}]
    async with (
        two_providers("anthropic", faults=faults) as providers,
        running_rig(tmp_path, settings=providers.settings) as rig,
    ):
        talk = Talk(rig, "anthropic")
        await talk.ask("to-one")
        with pytest.raises(AssertionError, match="signature"):
            await talk.ask("to-two")
        assert len(providers.simulator.engines["two"].log.requests) == 1
