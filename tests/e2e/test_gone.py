"""Nobody waits any more: whatever the chain is doing then, nothing new is dialed, paid or called a success."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.bursts import connected, send, status
from support.fake_provider import answer, gateway_over, route, target
from support.rig import PATIENCE_S, Rig
from tidegate.gateway.exchange import Exchange

LATER = answer(
    {"error": {"message": "slow down", "type": "rate_limit_error"}},
    {"retry-after-ms": "1900"},
    status="429 Too Many",
)


def config(url: str) -> str:
    return target("a", url, "openai") + route("r", "a")


def note_exchanges(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    """Every request as the listener knows it, in order."""
    worker: Any = rig.role.worker
    handle, seen = worker.handle, []

    async def noted(exchange: Exchange, endpoint: Any) -> None:
        seen.append(exchange)
        await handle(exchange, endpoint)

    monkeypatch.setattr(worker, "handle", noted)
    return seen


async def first_failure(rig: Rig) -> None:
    await rig.wait_event("AttemptFailed")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_while_a_retry_is_held_back_gets_no_further_attempt(
    tmp_path: Path, *, stream: bool
) -> None:
    async with gateway_over(tmp_path, config, lambda _: LATER) as (rig, provider):
        (client,) = await connected(rig, 1)
        send(client, stream=stream)
        await first_failure(rig)
        client[1].close()
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("cancelled", 1)
        assert len(provider.calls) == 1
        assert [data.cost_nanousd for data in rig.data("UsageSettled")] == [0]


async def test_a_drain_that_ends_while_a_retry_is_held_back_tells_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_over(tmp_path, config, lambda _: LATER) as (rig, provider):
        exchanges = note_exchanges(rig, monkeypatch)
        (client,) = await connected(rig, 1)
        send(client)
        await first_failure(rig)
        exchanges[0].cancel("draining")
        assert await status(client) == 503
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts, finished.code) == ("cancelled", 1, "draining")
        assert len(provider.calls) == 1


async def test_a_drain_that_ended_before_the_body_came_dials_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_over(tmp_path, config, lambda _: LATER) as (rig, provider):
        exchanges = note_exchanges(rig, monkeypatch)
        (client,) = await connected(rig, 1)
        whole: list[bytes] = []
        send((client[0], _Recorder(whole)), stream=False)  # type: ignore[arg-type]
        client[1].write(whole[0][:-10])
        async with asyncio.timeout(PATIENCE_S):
            while not exchanges:
                await asyncio.sleep(0.005)
        exchanges[0].cancel("draining")
        client[1].write(whole[0][-10:])
        assert await status(client) == 503
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("cancelled", 0)
        assert provider.calls == []
        assert rig.data("AttemptStarted") == []


class _Recorder:
    """Takes the bytes of a request instead of a connection."""

    def __init__(self, into: list[bytes]) -> None:
        self.write = into.append
