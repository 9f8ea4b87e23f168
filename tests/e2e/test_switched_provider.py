"""A conversation that changes its provider: what one signed is not shown to another, and the words stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from support.fake_provider import Call, FakeProvider, answer, gateway_over, route, target
from support.rig import KEY, Rig

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
