"""The transport as an httpx user sees it: requests, streams, timeouts, exceptions."""

import asyncio

import httpx
import pytest

from support.loops import on_both_loops
from support.rawserver import Peer, RawServer, response
from tidegate.gateway.outbound import faults
from tidegate.gateway.outbound.httpx_surface import as_httpx, deadlines_of
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.upstream import POLICY_EXTENSION, Upstream

LOOSE = OriginPolicy(allow_private=True)
REQUEST = httpx.Request("GET", "https://h")


def client(policy: OriginPolicy = LOOSE) -> tuple[Upstream, httpx.AsyncClient]:
    upstream = Upstream(policy)
    return upstream, httpx.AsyncClient(transport=upstream)


async def answer_twice(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.answer(
            b'{"a":1}', b"content-type: application/json", b"set-cookie: x=y", b"x-h: 1", b"x-h: 2"
        )


async def stall_in_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome")
    await peer.gone()


@on_both_loops
async def test_an_ordinary_client_works_over_the_transport() -> None:
    upstream, http = client()
    async with RawServer(answer_twice) as server, http:
        got = await http.get(f"{server.url}/x", params={"q": "ä b"}, headers={"x-mine": "1"})
        assert (got.status_code, got.json(), got.http_version) == (200, {"a": 1}, "HTTP/1.1")
        assert got.headers.get_list("x-h") == ["1", "2"]
        posted = await http.post(server.url, json={"n": 1})
        assert posted.status_code == 200
        first, second = server.peers[0].requests
        assert first.startswith(b"GET /x?q=%C3%A4+b HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b"x-mine: 1\r\n" in first
        assert b"content-length" not in first.lower()
        assert second.lower().count(b"content-length: 7\r\n") == 1
        assert second.endswith(b'{"n":1}')
        assert second.lower().count(b"host:") == 1
        assert b"connection:" not in second.lower()
        assert (upstream.stats()[0].active, upstream.stats()[0].idle) == (0, 1)


@on_both_loops
async def test_a_streamed_request_body_is_sent_with_its_length() -> None:
    async def pieces():  # type: ignore[no-untyped-def]
        yield b"ab"
        yield b"cd"

    _, http = client()
    async with RawServer(answer_twice) as server, http:
        await http.post(server.url, content=pieces())
        assert b"content-length: 4\r\n" in server.peers[0].requests[0]
        assert b"transfer-encoding" not in server.peers[0].requests[0].lower()


@on_both_loops
async def test_a_stream_left_early_gives_its_connection_up() -> None:
    upstream, http = client()
    async with RawServer(stall_in_body) as server, http:
        async with http.stream("GET", server.url) as streamed:
            async for chunk in streamed.aiter_raw():
                assert chunk == b"some"
                break
        assert (upstream.stats()[0].active, upstream.stats()[0].idle) == (0, 0)


@on_both_loops
async def test_httpx_timeouts_bound_each_phase() -> None:
    _, http = client()
    async with RawServer(stall_in_body) as server, http:
        with pytest.raises(httpx.ReadTimeout) as caught:
            await http.get(server.url, timeout=0.05)
        assert isinstance(caught.value.__cause__, faults.IdleTimeout)


@on_both_loops
async def test_redirects_are_not_followed_and_the_environment_is_not_consulted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def redirect(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"", b"location: http://169.254.169.254/", status=b"307 Temporary Redirect")

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    _, http = client()
    async with RawServer(redirect) as server, http:
        assert (await http.get(server.url)).status_code == 307
        with pytest.raises(httpx.ConnectError):
            await http.get(server.url, follow_redirects=True)


@on_both_loops
async def test_a_request_may_name_its_own_policy() -> None:
    _, http = client(OriginPolicy())
    async with RawServer(answer_twice) as server, http:
        with pytest.raises(httpx.UnsupportedProtocol):
            await http.get(server.url)
        got = await http.get(server.url, extensions={POLICY_EXTENSION: LOOSE})
        assert got.status_code == 200
        with pytest.raises(httpx.ConnectError):
            await http.get(f"https://127.0.0.1:{server.port}")


@on_both_loops
async def test_a_broken_answer_is_a_protocol_error_and_a_lost_one_a_read_error() -> None:
    async def broken(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"220 smtp\r\n")
        await peer.gone()

    async def lost(peer: Peer) -> None:
        await peer.request()
        await peer.send(response(b"whole")[:-2])

    for script, kind in ((broken, httpx.RemoteProtocolError), (lost, httpx.ReadError)):
        _, http = client()
        async with RawServer(script) as server, http:
            with pytest.raises(kind):
                await http.get(server.url)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (faults.ResolveFailed("x", "dns"), httpx.ConnectError),
        (faults.ResolveFailed("x", "dns", timed_out=True), httpx.ConnectTimeout),
        (faults.EgressRefused("x", "dns"), httpx.ConnectError),
        (faults.ConnectFailed("x", "connect"), httpx.ConnectError),
        (faults.ConnectFailed("x", "connect", timed_out=True), httpx.ConnectTimeout),
        (faults.TlsFailed("x", "tls"), httpx.ConnectError),
        (faults.PoolExhausted("x", "connect", timed_out=True), httpx.PoolTimeout),
        (faults.HeaderTimeout("x", "wait_headers"), httpx.ReadTimeout),
        (faults.FirstTokenTimeout("x", "first_byte"), httpx.ReadTimeout),
        (faults.IdleTimeout("x", "mid_stream"), httpx.ReadTimeout),
        (faults.TotalTimeout("x", "mid_stream"), httpx.ReadTimeout),
        (faults.TotalTimeout("x", "connect"), httpx.ConnectTimeout),
        (faults.ConnectionLost("x", "send"), httpx.WriteError),
        (faults.ConnectionLost("x", "wait_headers"), httpx.ReadError),
        (faults.ProtocolFault("x", "wait_headers"), httpx.RemoteProtocolError),
        (faults.ExchangeCancelled("x", "mid_stream"), httpx.ReadError),
    ],
)
def test_every_fault_has_its_httpx_exception(
    error: faults.UpstreamError, kind: type[httpx.TransportError]
) -> None:
    mapped = as_httpx(error, REQUEST)
    assert type(mapped) is kind
    assert mapped.request is REQUEST


def test_the_family_is_closed_and_its_codes_differ() -> None:
    family = faults.UpstreamError.__subclasses__()
    assert len(family) == 12
    assert len({kind.code for kind in family} | {faults.UpstreamError.code}) == 13


def test_no_httpx_timeout_means_no_deadline() -> None:
    unlimited = deadlines_of({})
    assert unlimited.connect_s == unlimited.header_s == unlimited.idle_s == float("inf")
    some = deadlines_of({"timeout": {"connect": 1.0, "read": 2.0, "write": None, "pool": None}})
    assert (some.connect_s, some.header_s, some.idle_s) == (1.0, 2.0, 2.0)


def test_an_idle_loop_is_not_needed_to_build_a_client() -> None:
    upstream = Upstream(LOOSE)
    upstream.prepare("http://127.0.0.1:1/v1")
    assert upstream.stats()[0].active == 0
    asyncio.run(upstream.aclose())
