"""Cancellation storms: clients that leave at any moment cost no slot, no socket, and never another's answer."""

import asyncio
import gc
import random
import re
import ssl
from pathlib import Path

import pytest
import trustme

from support.loops import on_both_loops
from support.rawserver import Peer, RawServer, Script
from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.faults import UpstreamError
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.upstream import PreparedTarget, Upstream

TASKS = 200
CAP = 10
CHUNKS = 12

pytestmark = pytest.mark.slow


def echo_watermarks(rng: random.Random, *, faults: bool) -> Script:
    """Answer each request with chunks of its own watermark; now and then break off instead."""

    async def script(peer: Peer) -> None:
        while True:
            mark = (await peer.request()).rpartition(b"\r\n\r\n")[2]
            await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-mark: %b\r\n\r\n" % mark)
            for _ in range(CHUNKS):
                if faults and rng.random() < 0.02:
                    peer.reset() if rng.random() < 0.5 else peer.close()
                    return
                await peer.send(b"%x\r\n%b;\r\n" % (len(mark) + 1, mark))
                await asyncio.sleep(rng.choice((0, 0, 0.001)))
            await peer.send(b"0\r\n\r\n")

    return script


async def one_call(upstream: Upstream, target: PreparedTarget, number: int, outcomes: list[str]) -> None:
    """Read one answer; every byte of it must carry our mark."""
    mark = b"mark-%d" % number
    try:
        exchange = await upstream.send(target, mark, b"", Deadlines(), 20.0)
        with exchange:
            assert (b"x-mark", mark) in exchange.headers
            body = b""
            while chunk := await exchange.read():
                body += chunk
                assert mark + b";" == body[: len(mark) + 1]
            assert body == (mark + b";") * CHUNKS
            outcomes.append("whole")
    except UpstreamError:
        outcomes.append("failed")


async def storm(url: str, upstream: Upstream, rng: random.Random) -> list[str]:
    """200 calls, half of them cancelled at a random moment of their life."""
    loop = asyncio.get_running_loop()
    target = upstream.prepare(url)
    outcomes: list[str] = []
    tasks = [asyncio.ensure_future(one_call(upstream, target, n, outcomes)) for n in range(TASKS)]
    for task in rng.sample(tasks, TASKS // 2):
        loop.call_later(rng.random() * 0.25, task.cancel)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    unexpected = [r for r in results if r is not None and not isinstance(r, asyncio.CancelledError)]
    assert unexpected == []
    return outcomes


def open_sockets() -> int:
    """Sockets of this process."""
    return sum(1 for fd in Path("/proc/self/fd").iterdir() if _is_socket(fd))


def _is_socket(fd: Path) -> bool:
    try:
        return re.match(r"socket:", str(fd.readlink())) is not None
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "plain with faults", "tls"])
@on_both_loops
async def test_a_cancellation_storm_loses_no_slot_and_crosses_no_chunk(
    kind: str, seed: int, ca: trustme.CA, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    before = open_sockets()
    tls = None
    ca_file = tmp_path / "ca.pem"
    if kind == "tls":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(tls)
        ca.cert_pem.write_to_path(str(ca_file))
    policy = OriginPolicy(allow_private=True, ca_file=str(ca_file) if tls else None)
    upstream = Upstream(policy, connections_per_origin=CAP)
    async with RawServer(echo_watermarks(rng, faults="faults" in kind), tls=tls) as server:
        outcomes = await storm(server.url, upstream, rng)
        (stats,) = upstream.stats()
        assert (stats.active, stats.waiting) == (0, 0)
        assert stats.idle <= CAP
        assert outcomes.count("whole") > 20
        again: list[str] = []
        await one_call(upstream, upstream.prepare(server.url), 999, again)
        await upstream.aclose()
        if "faults" not in kind:
            assert again == ["whole"]
            assert "failed" not in outcomes
    gc.collect()
    while open_sockets() > before:  # the test's time limit is the bound
        await asyncio.sleep(0.01)
