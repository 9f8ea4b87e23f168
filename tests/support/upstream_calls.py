"""An `Upstream` for tests, calls on it, and the scripts that several suites play."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from support.rawserver import Peer, Script
from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.outbound.pool import PoolStats
from tidegate.gateway.outbound.resolve import Lookup, system_lookup
from tidegate.gateway.upstream import Upstream

LOOSE = OriginPolicy(allow_private=True)
PATIENT = Deadlines()
OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def client(
    policy: OriginPolicy = LOOSE,
    *,
    connections_per_origin: int = 8,
    idle_s: float = 30.0,
    lookup: Lookup = system_lookup,
    dns_ttl_s: float = 30.0,
) -> AsyncIterator[Upstream]:
    """An Upstream that is at rest when the block ends, whatever happened in it."""
    upstream = Upstream(
        policy,
        connections_per_origin=connections_per_origin,
        idle_s=idle_s,
        lookup=lookup,
        dns_ttl_s=dns_ttl_s,
    )
    try:
        yield upstream
        assert [stats.active for stats in upstream.stats() if stats.active] == []
        assert [stats.waiting for stats in upstream.stats() if stats.waiting] == []
    finally:
        await upstream.aclose()


async def read_all(exchange: UpstreamExchange) -> bytes:
    """The rest of the body."""
    whole = b""
    while chunk := await exchange.read():
        whole += chunk
    return whole


async def call(
    upstream: Upstream, url: str, body: bytes = b"{}", deadlines: Deadlines = PATIENT, total_s: float = 60.0
) -> tuple[int, bytes]:
    """One POST, read to its end."""
    exchange = await upstream.send(upstream.prepare(url), body, b"", deadlines, total_s)
    return exchange.status, await read_all(exchange)


def only(upstream: Upstream) -> PoolStats:
    """The record of the one pool."""
    (stats,) = upstream.stats()
    return stats


def play(*pieces: bytes) -> Script:
    """Answer each request of a connection with the same bytes, then wait for the client to leave."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            for piece in pieces:
                await peer.send(piece)

    return script


def play_then_close(*pieces: bytes) -> Script:
    """Answer one request, then close."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)

    return script


async def stalled(peer: Peer) -> None:
    """Read the request, say nothing more."""
    await peer.request()
    await peer.gone()


def stalled_after(*pieces: bytes) -> Script:
    """Read the request, send these bytes, say nothing more."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)
        await peer.gone()

    return script


async def never_reads(peer: Peer) -> None:
    """Accept and do nothing."""
    await asyncio.Event().wait()
