"""What only we ran out of is told as such, and closes no target."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from support.fake_provider import FakeProvider, answer, route, target
from support.rawserver import RawServer
from support.rig import KEY, PATIENCE_S, Rig, running_rig
from tidegate.gateway.credentials import key_digest
from tidegate.gateway.outbound import dial
from tidegate.gateway.outbound.faults import PoolExhausted
from tidegate.runtime.settings import parse_settings

ANSWER = {
    "model": "real",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "high"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}
CLIENTS = 5


@contextlib.asynccontextmanager
async def one_connection(folder: Path) -> AsyncIterator[tuple[Rig, FakeProvider]]:
    """A gateway that may open one connection to the origin that both of its targets have."""
    provider = FakeProvider(lambda _: answer(ANSWER), wait=asyncio.Event())
    async with RawServer(provider.script) as server:
        deadlines = "[targets.deadlines]\nconnect_s = 0.1"
        text = (
            'data_dir = "data"\n[gateway]\nport = 0\nupstream_connections = 1\n[[tenants]]\nid = "acme"\n'
            f'[[keys]]\nid = "k1"\ntenant = "acme"\ndigest = "{key_digest(KEY)}"\n'
            + target("a", server.url, "openai", deadlines)
            + target("b", server.url, "openai", deadlines)
            + route("r", "a", "b")
        )
        async with running_rig(folder, settings=parse_settings(text)) as rig:
            yield rig, provider


async def ask(rig: Rig) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.post(
            f"{rig.url}/v1/chat/completions",
            json={"model": "r", "messages": [{"role": "user", "content": "hi"}]},
            headers={"authorization": f"Bearer {KEY}"},
        )


async def test_our_own_full_pool_is_overload_and_no_evidence_against_a_target(tmp_path: Path) -> None:
    async with one_connection(tmp_path) as (rig, provider):
        assert provider.wait is not None
        first = asyncio.ensure_future(ask(rig))
        async with asyncio.timeout(PATIENCE_S):
            while not provider.calls:
                await asyncio.sleep(0.005)
        others = await asyncio.gather(*(ask(rig) for _ in range(CLIENTS)))
        for told in others:
            assert (told.status_code, told.json()["error"]["code"]) == (503, "overloaded")
            assert told.headers["retry-after"] == "1"
        provider.wait.set()
        assert (await first).status_code == 200
        again = await ask(rig)
        assert (again.status_code, again.headers["x-tidegate-target"]) == (200, "a")
        await rig.wait_event("RequestFinished", CLIENTS + 2)
        assert {(data.rule, data.evidence) for data in rig.data("AttemptFailed")} == {
            ("upstream_pool_exhausted", False)
        }
        unbilled = [data for data in rig.data("UsageSettled") if data.outcome == "failed"]
        assert {(data.basis, data.cost_nanousd, data.evidence) for data in unbilled} == {("none", 0, False)}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_machine_without_sockets_left_says_so_and_not_that_the_target_is_down(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def fails(address: str, port: int) -> None:
        raise OSError(number, "too many")

    monkeypatch.setattr(dial, "_connect", fails)
    until = asyncio.get_running_loop().time() + PATIENCE_S
    with pytest.raises(PoolExhausted, match=errno.errorcode[number]):
        await dial._connect_any(["127.0.0.1", "127.0.0.2"], 9, until)


async def test_a_worker_may_open_as_many_sockets_as_the_machine_grants(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_024, most), most))
    async with one_connection(tmp_path):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
