"""Answers that take long are waited for; silence that a request's size explains closes no target for the others."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.rawserver import Peer, RawServer
from support.rig import KEY, Rig, provider, running_rig
from tidegate.events import cooldown
from tidegate.events.causes import STRIKES_TO_CLOSE
from tidegate.gateway.outbound import dial

SHORT_HEAD = "header_s = 0.2\nfirst_token_s = 0.2"
SLOW = {"ttft_ms": 700, "tokens_per_s": 0}
STALLS = [{"kind": "header_stall"}]
FEW_WORDS, MANY_WORDS = "hi", "tides " * 1_000
"""Read within, and beyond, `header_s` at the slowest healthy pace."""


async def ask(rig: Rig, words: str, *, anthropic: bool = False, **fields: Any) -> httpx.Response:
    path = "/v1/messages" if anthropic else "/v1/chat/completions"
    asked = {
        "model": "messages" if anthropic else "chat",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": words}],
        **fields,
    }
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.post(rig.url + path, json=asked, headers={"authorization": f"Bearer {KEY}"})


@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_whole_answer_may_take_longer_than_a_head(tmp_path: Path, *, anthropic: bool) -> None:
    providers = [provider("one", latency=SLOW), provider("two")]
    async with running_rig(tmp_path, providers, deadlines=SHORT_HEAD) as rig:
        told = await ask(rig, FEW_WORDS, anthropic=anthropic)
        assert (told.status_code, told.headers["x-tidegate-attempts"]) == (200, "1")
        assert rig.data("AttemptFailed") == []
        assert rig.ledger() == rig.invoice()


async def test_only_the_routes_deadline_bounds_a_whole_answer_and_closes_nothing(tmp_path: Path) -> None:
    providers = [provider("one", faults=STALLS), provider("two")]
    route = "deadline_s = 0.4"
    async with running_rig(tmp_path, providers, deadlines=SHORT_HEAD, route_options=route) as rig:
        for _ in range(3):
            told = await ask(rig, FEW_WORDS)
            assert (told.status_code, told.json()["error"]["code"]) == (504, "deadline_exceeded")
        assert {data.target for data in rig.data("AttemptStarted")} == {"one-openai"}
        assert rig.data("AttemptFailed") == []


@pytest.mark.parametrize(("words", "evidence"), [(MANY_WORDS, False), (FEW_WORDS, True)])
async def test_silence_closes_a_target_only_where_the_prompts_length_does_not_explain_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, *, evidence: bool
) -> None:
    monkeypatch.setattr(cooldown, "STRIKE_GAP_NS", 0)  # each failure is a strike, without seconds between
    providers = [provider("one", faults=STALLS), provider("two")]
    async with running_rig(tmp_path, providers, deadlines=SHORT_HEAD) as rig:
        asked = STRIKES_TO_CLOSE + 1
        attempts = [(await ask(rig, words, stream=True)).headers["x-tidegate-attempts"] for _ in range(asked)]
        assert attempts == ["2"] * STRIKES_TO_CLOSE + (["1"] if evidence else ["2"])
        await rig.wait_event("RequestFinished", asked)
        failed = rig.data("AttemptFailed")
        assert {(data.target, data.rule, data.evidence) for data in failed} == {
            ("one-openai", "upstream_header_timeout", evidence)
        }
        ends = {data.evidence for data in rig.data("UsageSettled") if data.target == "one-openai"}
        assert ends == {evidence}


async def test_a_peer_that_vanishes_is_noticed_within_a_minute() -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async with RawServer(script) as server:
        sock = await dial._connect("127.0.0.1", server.port)
        with contextlib.closing(sock):
            found = [
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
        assert sock.fileno() == -1
        idle_s, between_s, tries = found
        assert idle_s + between_s * tries <= 60
