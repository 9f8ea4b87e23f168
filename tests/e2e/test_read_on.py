"""Nobody waits for it any more, but it is billed: an answer is read to its end where the config says so, for its bill."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.fake_provider import (
    FakeProvider,
    answer,
    gateway_over,
    route,
    settings_with,
    sse,
    target,
)
from support.rawserver import RawServer
from support.rig import KEY, PATIENCE_S, Rig, running_rig
from tidegate.gateway.exchange import Exchange

USED = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
CHOICE: dict[str, Any] = {
    "index": 0,
    "finish_reason": "stop",
    "message": {"role": "assistant", "content": "high"},
}
WHOLE = answer({"object": "chat.completion", "model": "real", "choices": [CHOICE], "usage": USED})
VECTORS = answer({"object": "list", "model": "real", "data": [{"embedding": [0.5]}], "usage": USED})
STREAM = sse(
    {"choices": [{"index": 0, "delta": {"content": "hi"}}]},
    {"choices": [{"index": 0, "delta": {"content": "gh"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": USED},
    "data: [DONE]\n\n",
)
FLAT = (
    '[[pools]]\nid = "p"\nbilling = "flat"\n'
    '[[pools.windows]]\nid = "w"\nunit = "tokens"\nlimit = 1000000\nduration_s = 3600\n'
)
SETTINGS = [None, "cancel", "finish_whole", "finish"]
READ_ON = {
    "whole": {None, "finish_whole", "finish"},
    "vectors": {None, "finish_whole", "finish"},
    "stream": {"finish"},
}
"""By kind of answer, the settings that have it read to its end; in a flat pool the default does not."""


class Leaver:
    """A client that asks, is noticed by the provider, and goes."""

    def __init__(self, rig: Rig, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig = rig
        self.provider = provider
        provider.wait = asyncio.Event()
        worker: Any = rig.role.worker
        handle = worker.handle
        self.exchanges: list[Exchange] = []

        async def noted(exchange: Exchange, endpoint: Any) -> None:
            self.exchanges.append(exchange)
            await handle(exchange, endpoint)

        monkeypatch.setattr(worker, "handle", noted)

    async def leave(self, kind: str = "whole", *, calls: int = 1) -> Exchange:
        """Asked, seen upstream (unless `calls` says that it is not), and gone without an answer."""
        body: dict[str, Any] = {"model": "r", "input": "hi"}
        if kind != "vectors":
            body = {"model": "r", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
            body["stream"] = kind == "stream"
        path = "/v1/embeddings" if kind == "vectors" else "/v1/chat/completions"
        seen = len(self.exchanges)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
            headers = {"authorization": f"Bearer {KEY}"}
            asking = asyncio.ensure_future(client.post(self.rig.url + path, json=body, headers=headers))
            await self.rig.wait_event("AttemptStarted", seen + 1)
            async with asyncio.timeout(PATIENCE_S):
                while len(self.provider.calls) < calls:
                    await asyncio.sleep(0.002)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        async with asyncio.timeout(PATIENCE_S):
            while self.exchanges[-1].gone is None:
                await asyncio.sleep(0.002)
        return self.exchanges[-1]

    def let_answer(self) -> None:
        assert self.provider.wait is not None
        self.provider.wait.set()


def config(url: str, *, dialect: str = "openai", setting: str | None = None, flat: bool = False) -> str:
    extra = "" if setting is None else f'when_abandoned = "{setting}"\n'
    extra += 'pool = "p"\n' if flat else ""
    return (FLAT if flat else "") + target("a", url, dialect, extra) + route("r", "a")


@pytest.mark.parametrize("kind", READ_ON)
@pytest.mark.parametrize("flat", [False, True])
async def test_an_answer_is_read_on_for_its_bill_where_the_config_or_the_way_of_billing_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, flat: bool
) -> None:
    reply = {"whole": WHOLE, "vectors": VECTORS, "stream": STREAM}[kind]
    dialect = "openai-embeddings" if kind == "vectors" else "openai"
    for setting in SETTINGS:
        made = {"dialect": dialect, "setting": setting, "flat": flat}
        async with gateway_over(
            tmp_path / str(setting),
            lambda url, made=made: config(url, **made),  # type: ignore[misc]
            lambda _: reply,
        ) as (rig, provider):
            leaver = Leaver(rig, provider, monkeypatch)
            await leaver.leave(kind)
            leaver.let_answer()
            (finished,) = await rig.wait_event("RequestFinished")
            assert (finished.outcome, finished.attempts) == ("cancelled", 1)
            (end,) = rig.data("UsageSettled")
            reads_on = setting in READ_ON[kind] and not (flat and setting is None)
            assert (end.basis, end.outcome) == (
                ("reported", "completed") if reads_on else ("estimated", "cancelled")
            ), setting
            if reads_on:
                output = 0 if kind == "vectors" else 5
                assert (end.tokens.input_uncached, end.tokens.output) == (7, output)
                assert end.cost_nanousd == (0 if flat else 7 * 3_000 + output * 15_000)
            assert rig.in_flight() == 0


@pytest.mark.parametrize(
    "odd",
    [
        answer({"error": {"message": "slow down"}}, status="429 Too Many"),
        answer({"error": {"message": "away"}}, status="503 Away"),
        answer({"detail": "no answer"}),
        answer(b"no json"),
    ],
)
async def test_what_fails_for_nobody_is_not_tried_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: bytes
) -> None:
    def two(url: str) -> str:
        return target("a", url, "openai") + target("b", url, "openai") + route("r", "a", "b")

    async with gateway_over(tmp_path, two, lambda _: odd) as (rig, provider):
        leaver = Leaver(rig, provider, monkeypatch)
        await leaver.leave()
        leaver.let_answer()
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts, len(provider.calls)) == ("cancelled", 1, 1)
        assert len(rig.data("UsageSettled")) == 1


async def test_a_drain_that_ends_does_not_wait_for_an_answer_that_nobody_awaits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_over(tmp_path, config, lambda _: WHOLE) as (rig, provider):
        leaver = Leaver(rig, provider, monkeypatch)
        exchange = await leaver.leave()
        assert rig.data("UsageSettled") == []
        exchange.cancel("draining")
        (finished,) = await rig.wait_event("RequestFinished")
        assert finished.outcome == "cancelled"
        (end,) = rig.data("UsageSettled")
        assert (end.basis, end.outcome) == ("estimated", "cancelled")


async def test_a_request_that_still_waits_for_a_connection_is_not_sent_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = FakeProvider(lambda _: WHOLE)
    async with RawServer(provider.script) as server:
        plain = settings_with(config(server.url))
        narrow = msgspec.structs.replace(plain.gateway, upstream_connections=1)
        settings = msgspec.structs.replace(plain, gateway=narrow)
        async with running_rig(tmp_path, settings=settings) as rig:
            leaver = Leaver(rig, provider, monkeypatch)
            await leaver.leave()
            await leaver.leave()
            await rig.wait_event("RequestFinished")
            leaver.let_answer()
            finished = await rig.wait_event("RequestFinished", 2)
            assert [each.outcome for each in finished] == ["cancelled"] * 2
            assert len(provider.calls) == 1
            assert {end.basis: end.cost_nanousd for end in rig.data("UsageSettled")} == {
                "none": 0,
                "reported": 7 * 3_000 + 5 * 15_000,
            }
