"""Silence of an upstream and slowness of a client: told in the stream, settled, and held against nobody."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.rig import KEY, Rig, provider, running_rig

AUTH = {"authorization": f"Bearer {KEY}"}
QUIET = "silent_keepalive_s = 0.1"
COMMENT = {"chat": ": keep-alive\n", "messages": 'event: ping\ndata: {"type": "ping"}\n\n'}
PATH = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}
END = {"chat": "data: [DONE]\n\n", "messages": "event: message_stop"}


def ask(route: str) -> dict[str, Any]:
    return {
        "model": route,
        "max_tokens": 100_000,
        "stream": True,
        "messages": [{"role": "user", "content": "Tell me about tides."}],
    }


async def stream(rig: Rig, route: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(rig.url + PATH[route], json=ask(route), headers={**AUTH, **headers})


@pytest.mark.parametrize("route", ["chat", "messages"])
async def test_silent_reasoning_keeps_the_connection_warm_and_names_no_target(
    tmp_path: Path, route: str
) -> None:
    """The head leaves with the first keep-alive, when nobody knows yet which target will have served."""
    slow = provider("one", latency={"ttft_ms": 450, "tokens_per_s": 0})
    async with running_rig(tmp_path, [slow], gateway=QUIET) as rig:
        answer = await stream(rig, route, **{"x-sim-output-tokens": "5"})
        assert answer.status_code == 200
        assert answer.headers["x-tidegate-request-id"]
        assert not {"x-tidegate-target", "x-tidegate-attempts"} & set(answer.headers)
        assert answer.text.startswith(COMMENT[route] * 2)
        assert answer.text.count(END[route]) == 1
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("completed", 1)


@pytest.mark.parametrize("route", ["chat", "messages"])
async def test_after_keep_alives_a_failover_is_still_possible(tmp_path: Path, route: str) -> None:
    stalled = provider("one", faults=[{"kind": "first_token_stall"}])
    async with running_rig(
        tmp_path, [stalled, provider("two")], gateway=QUIET, deadlines="first_token_s = 0.35"
    ) as rig:
        answer = await stream(rig, route, **{"x-sim-output-tokens": "5"})
        assert answer.status_code == 200
        assert answer.text.startswith(COMMENT[route])
        assert answer.text.count(END[route]) == 1
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("completed", 2)
        assert str(finished.target).startswith("two")


@pytest.mark.parametrize("route", ["chat", "messages"])
async def test_after_keep_alives_a_failure_is_one_error_event_without_a_success_marker(
    tmp_path: Path, route: str
) -> None:
    stalled = provider("one", faults=[{"kind": "first_token_stall"}])
    async with running_rig(tmp_path, [stalled], gateway=QUIET, deadlines="first_token_s = 0.35") as rig:
        answer = await stream(rig, route)
        assert answer.status_code == 200
        assert answer.text.startswith(COMMENT[route])
        assert answer.text.count('"code":"upstream_unavailable"') == 1
        assert END[route] not in answer.text
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.code) == ("failed", "upstream_unavailable")


async def test_a_client_that_takes_nothing_ends_its_request_and_feeds_no_breaker(tmp_path: Path) -> None:
    async with running_rig(tmp_path, [provider("one")], gateway="client_stall_s = 0.3") as rig:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", rig.role.port))
        body = httpx.Request("POST", "http://h/", json=ask("chat")).content
        head = (
            f"POST {PATH['chat']} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\n"
            f"x-sim-output-tokens: 90000\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await loop.sock_sendall(client, head.encode() + body)
        (finished,) = await rig.wait_event("RequestFinished")
        client.close()
        assert (finished.outcome, finished.code, finished.status) == ("cancelled", "client_slow", 408)
        (settled,) = rig.data("UsageSettled")
        assert (settled.outcome, settled.evidence) == ("client_slow", False)
        assert settled.basis == "estimated"
        assert rig.data("AttemptFailed") == []
        assert (await stream(rig, "chat", **{"x-sim-output-tokens": "3"})).status_code == 200
