"""An upstream that closes an idle connection just as we write on it costs the client nothing but a second try."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from support.fake_provider import route, settings_with, sse, target
from support.rawserver import Peer, RawServer, response
from support.rig import KEY, running_rig

AUTH = {"authorization": f"Bearer {KEY}"}
ASKED = {"model": "r", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
CHAT = {
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "high"}}],
    "usage": USAGE,
}
CHUNK = {
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "finish_reason": "stop", "delta": {"content": "high"}}],
    "usage": USAGE,
}


def reply(request: bytes) -> bytes:
    if b'"stream":true' in request.replace(b" ", b""):
        return sse(CHUNK, "data: [DONE]\n\n")
    return response(json.dumps(CHAT).encode(), b"content-type: application/json")


async def once(peer: Peer) -> None:
    """Serves one request of a connection and ends at the next, unheard."""
    await peer.send(reply(await peer.request()))
    await peer.request()


async def never(peer: Peer) -> None:
    await peer.request()


@pytest.mark.parametrize("stream", [False, True])
async def test_the_client_is_served_by_a_second_attempt_on_a_new_connection(
    tmp_path: Path, stream: bool
) -> None:
    async with (
        RawServer(once) as server,
        running_rig(
            tmp_path, settings=settings_with(target("a", server.url, "openai") + route("r", "a"))
        ) as rig,
        httpx.AsyncClient(trust_env=False, timeout=30) as client,
    ):
        for _ in range(4):
            told = await client.post(
                f"{rig.url}/v1/chat/completions", json={**ASKED, "stream": stream}, headers=AUTH
            )
            assert told.status_code == 200
            assert "high" in told.text
        finished = await rig.wait_event("RequestFinished", 4)
        assert [one.attempts for one in finished] == [1, 2, 2, 2]
        assert {one.outcome for one in finished} == {"completed"}
        failed = rig.data("AttemptFailed")
        assert [(one.rule, one.evidence) for one in failed] == [("upstream_connection_stale", False)] * 3
        settled = rig.data("UsageSettled")
        assert len(settled) == len(rig.data("AttemptStarted")) == 7
        # The server may have read it and may bill it: unknown, so no attempt is called free.
        assert sorted(one.basis for one in settled) == ["estimated"] * 3 + ["reported"] * 4


async def test_a_second_connection_that_ends_so_is_the_target_s_fault(tmp_path: Path) -> None:
    async with (
        RawServer(once, never) as server,
        running_rig(
            tmp_path, settings=settings_with(target("a", server.url, "openai") + route("r", "a"))
        ) as rig,
        httpx.AsyncClient(trust_env=False, timeout=30) as client,
    ):
        statuses = [
            (await client.post(f"{rig.url}/v1/chat/completions", json=ASKED, headers=AUTH)).status_code
            for _ in range(2)
        ]
        assert statuses == [200, 502]
        await rig.wait_event("RequestFinished", 2)
        failed = rig.data("AttemptFailed")
        assert [(one.rule, one.evidence) for one in failed] == [
            ("upstream_connection_stale", False),
            ("upstream_connection_lost", True),
        ]


async def test_a_route_of_one_attempt_makes_no_second(tmp_path: Path) -> None:
    async with (
        RawServer(once) as server,
        running_rig(
            tmp_path,
            settings=settings_with(
                target("a", server.url, "openai") + route("r", "a", extra="max_attempts = 1")
            ),
        ) as rig,
        httpx.AsyncClient(trust_env=False, timeout=30) as client,
    ):
        for status in (200, 502):
            told = await client.post(f"{rig.url}/v1/chat/completions", json=ASKED, headers=AUTH)
            assert told.status_code == status
        (_, last) = await rig.wait_event("RequestFinished", 2)
        assert last.attempts == 1
