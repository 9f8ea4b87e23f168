"""Providers route a prompt to where its prefix is cached by a key: one per tenant and session, the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from support.fake_provider import Call, FakeProvider, answer, gateway_over, route, target
from support.rig import KEY, Rig
from tidegate.gateway.credentials import key_digest

OTHER = "tg_another-tenants-key-for-tests-0000000"
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "m",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}],
    "usage": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
}
COMPLETION: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}
QUIRK = "quirks = { cache_key = true }"


def config(url: str) -> str:
    return "".join(
        [
            target("sealed", url, "openai-responses"),
            target("chat", url, "openai"),
            target("keyed", url, "openai", QUIRK),
            *(route(each, each) for each in ("sealed", "chat", "keyed")),
            f'[[tenants]]\nid = "other"\n[[keys]]\nid = "k2"\ntenant = "other"\ndigest = "{key_digest(OTHER)}"\n',
        ]
    )


def provider(call: Call) -> bytes:
    return answer(RESPONSE if call.path.startswith("/v1/responses") else COMPLETION)


async def key_of(rig: Rig, fake: FakeProvider, path: str, key: str, **body: Any) -> str | None:
    """The key that the provider is told."""
    if path != "/v1/responses":
        body.setdefault("messages", [{"role": "user", "content": "hi"}])
    async with httpx.AsyncClient() as client:
        got = await client.post(f"{rig.url}{path}", json=body, headers={"authorization": f"Bearer {key}"})
    assert got.status_code == 200, got.text
    told: str | None = fake.calls[-1].json.get("prompt_cache_key")
    return told


@pytest.mark.parametrize(("model", "is_told"), [("sealed", True), ("keyed", True), ("chat", False)])
async def test_a_client_without_keys_gets_one_of_its_tenant_and_session(
    tmp_path: Path, model: str, is_told: bool
) -> None:
    """Only where the provider surely takes it; the same in the next turn, another for another session or tenant."""
    asked: dict[str, Any] = {"model": model, "max_tokens": 5, "metadata": {"user_id": "u_session_1"}}
    async with gateway_over(tmp_path, config, provider) as (rig, fake):
        one = await key_of(rig, fake, "/v1/messages", KEY, **asked)
        assert (one is not None) is is_told
        more = [{"role": role, "content": "x"} for role in ("user", "assistant", "user")]
        assert await key_of(rig, fake, "/v1/messages", KEY, **asked, messages=more) == one
        if is_told:
            later = asked | {"metadata": {"user_id": "u_session_2"}}
            others = [
                await key_of(rig, fake, "/v1/messages", KEY, **later),
                await key_of(rig, fake, "/v1/messages", OTHER, **asked),
            ]
            assert len({one, *others}) == 3


async def test_a_request_that_is_its_own_session_gets_no_key(tmp_path: Path) -> None:
    """A fresh key each time would keep the provider from ever finding what it cached."""
    said = [{"role": "assistant", "content": "go on"}]
    async with gateway_over(tmp_path, config, provider) as (rig, fake):
        assert (
            await key_of(rig, fake, "/v1/messages", KEY, model="sealed", max_tokens=5, messages=said) is None
        )


async def test_equal_keys_of_two_tenants_are_told_apart_across_dialects(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config, provider) as (rig, fake):
        asked: dict[str, Any] = {"model": "sealed", "prompt_cache_key": "shared-name"}
        mine = await key_of(rig, fake, "/v1/chat/completions", KEY, **asked)
        theirs = await key_of(rig, fake, "/v1/chat/completions", OTHER, **asked)
        assert mine is not None
        assert theirs is not None
        assert len({mine, theirs, "shared-name"}) == 3
        # The client's own key says what belongs together, whatever the session; and so in either dialect.
        other = asked | {"messages": [{"role": "user", "content": "another session"}]}
        assert await key_of(rig, fake, "/v1/chat/completions", KEY, **other) == mine
        asked = {"model": "chat", "prompt_cache_key": "shared-name", "input": "hi"}
        assert await key_of(rig, fake, "/v1/responses", KEY, **asked) == mine


async def test_within_one_dialect_the_clients_key_is_told_as_it_is(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config, provider) as (rig, fake):
        for key in (KEY, OTHER):
            for model in ("chat", "keyed"):
                asked: dict[str, Any] = {"model": model, "prompt_cache_key": "mine"}
                assert await key_of(rig, fake, "/v1/chat/completions", key, **asked) == "mine"
        assert await key_of(rig, fake, "/v1/chat/completions", KEY, model="keyed") is None
