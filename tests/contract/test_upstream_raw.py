"""The outbound client against a server that plays any bytes, stalls and resets: shapes and phases."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from support.loops import on_both_loops
from support.rawserver import Peer, RawServer, chunked, response
from support.upstream_calls import (
    MIB,
    OK,
    call,
    client,
    never_reads,
    only,
    play,
    play_then_close,
    read_all,
    stalled,
    stalled_after,
)
from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.faults import (
    ConnectFailed,
    ConnectionLost,
    FirstTokenTimeout,
    HeaderTimeout,
    IdleTimeout,
    ProtocolFault,
    TotalTimeout,
)

SHAPES = {
    "length": (play(response(b"hello")), b"hello"),
    "empty": (play(response(b"")), b""),
    "chunked": (play(chunked(b"he", b"llo")), b"hello"),
    "trailers dropped": (play(chunked(b"hello", trailer=b"x-t: 1\r\n")), b"hello"),
    "100 skipped": (play(b"HTTP/1.1 100 Continue\r\n\r\n", response(b"hello")), b"hello"),
    "103 skipped": (play(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", response(b"hello")), b"hello"),
    "close with length": (play_then_close(response(b"hello", b"connection: close")), b"hello"),
    "close-delimited": (play_then_close(OK + b"connection: close\r\n\r\nhello"), b"hello"),
    "HTTP/1.0": (play_then_close(b"HTTP/1.0 200 OK\r\n\r\nhello"), b"hello"),
    "byte by byte": (play(*(chunked(b"hello")[n : n + 1] for n in range(len(chunked(b"hello"))))), b"hello"),
    "200 headers": (play(OK + b"x: y\r\n" * 199 + b"content-length: 5\r\n\r\nhello"), b"hello"),
}


@pytest.mark.parametrize("shape", SHAPES)
@on_both_loops
async def test_every_proper_shape_is_read_whole_twice(shape: str) -> None:
    script, body = SHAPES[shape]
    async with RawServer(script) as server, client() as upstream:
        assert await call(upstream, server.url) == (200, body)
        assert await call(upstream, server.url) == (200, body)
        closes = "close" in shape or shape == "HTTP/1.0"
        assert len(server.peers) == (2 if closes else 1)


@on_both_loops
async def test_204_and_304_and_head_have_no_body() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        await peer.request()
        await peer.send(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n")
        await peer.head()
        await peer.send(OK + b"content-length: 5\r\n\r\n")
        await peer.gone()

    async with RawServer(script) as server, client() as upstream:
        assert await call(upstream, server.url) == (204, b"")
        assert await call(upstream, server.url) == (304, b"")
        exchange = await upstream.send(upstream.prepare(server.url, method="HEAD"))
        assert (exchange.status, await exchange.read()) == (200, b"")
        assert only(upstream).idle == 0


FAULTS = {
    "101": play(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
    "length and chunked": play(OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "two lengths": play(OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok"),
    "garbage status line": play(b"220 mail.example ESMTP\r\n"),
    "folded header": play(OK + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n"),
    "bare LF": play(b"HTTP/1.1 200 OK\ncontent-length: 0\n\n"),
    "head of 65 KiB": play(OK + b"x: " + b"y" * 66_000),
    "201 headers": play(OK + b"x: y\r\n" * 201 + b"\r\n"),
    "gzip transfer coding": play(OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("shape", FAULTS)
@on_both_loops
async def test_a_broken_head_is_a_fault_and_its_connection_is_closed(shape: str) -> None:
    async with RawServer(FAULTS[shape]) as server, client() as upstream:
        with pytest.raises(ProtocolFault) as caught:
            await call(upstream, server.url)
        assert caught.value.phase == "wait_headers"
        assert caught.value.request_bytes_written
        assert only(upstream).idle == 0
        await server.peers[0].over.wait()


@on_both_loops
async def test_a_body_longer_than_said_is_given_up_to_its_length_then_a_fault() -> None:
    async with (
        RawServer(play(OK + b"content-length: 5\r\n\r\nhello and more")) as server,
        client() as upstream,
    ):
        exchange = await upstream.send(upstream.prepare(server.url))
        assert await exchange.read() == b"hello"
        with pytest.raises(ProtocolFault, match="bytes after the response"):
            await exchange.read()
        assert only(upstream).idle == 0


@pytest.mark.parametrize(
    "head", [b"content-length: 9\r\n\r\nhello", b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"]
)
@on_both_loops
async def test_a_body_shorter_than_said_is_given_then_lost(head: bytes) -> None:
    async with RawServer(play_then_close(OK + head)) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        assert await exchange.read() == b"hello"
        with pytest.raises(ConnectionLost) as caught:
            await exchange.read()
        assert caught.value.phase == "first_byte"
        assert not exchange.is_complete


@on_both_loops
async def test_a_bad_chunk_in_mid_stream_is_a_fault_after_the_good_ones() -> None:
    async with (
        RawServer(play(OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")) as server,
        client() as upstream,
    ):
        exchange = await upstream.send(upstream.prepare(server.url))
        exchange.first_token_seen()
        assert await exchange.read() == b"hello"
        with pytest.raises(ProtocolFault) as caught:
            await exchange.read()
        assert caught.value.phase == "mid_stream"
        assert exchange.phase == "mid_stream"


STALLS = {
    "before the head": (stalled, HeaderTimeout, "wait_headers"),
    "inside the head": (stalled_after(b"HTTP/1.1 200 OK\r\nx: "), HeaderTimeout, "wait_headers"),
    "after an interim head": (stalled_after(b"HTTP/1.1 100 Continue\r\n\r\n"), HeaderTimeout, "wait_headers"),
    "before the body": (stalled_after(OK + b"content-length: 5\r\n\r\n"), IdleTimeout, "first_byte"),
    "inside the body": (stalled_after(OK + b"content-length: 5\r\n\r\nhel"), IdleTimeout, "mid_stream"),
    "before the last chunk": (stalled_after(chunked(b"hello")[:-5]), IdleTimeout, "mid_stream"),
}


@pytest.mark.parametrize("where", STALLS)
@on_both_loops
async def test_a_stall_ends_at_the_deadline_of_its_phase(where: str) -> None:
    script, kind, phase = STALLS[where]
    header_s = 0.05 if kind is HeaderTimeout else 60.0  # so that nothing else could ring in its place
    no_first_token = Deadlines(header_s=header_s, idle_s=0.05, first_token_s=float("inf"))
    async with RawServer(script) as server, client() as upstream:
        with pytest.raises(kind) as caught:
            await call(upstream, server.url, deadlines=no_first_token)
        assert caught.value.phase == phase
        assert caught.value.timed_out
        assert caught.value.request_bytes_written
        await server.peers[0].over.wait()


@on_both_loops
async def test_a_slow_head_is_bounded_however_steadily_it_drips() -> None:
    async def drip(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        while True:
            await peer.send(b"x: y\r\n")
            await asyncio.sleep(0.01)

    async with RawServer(drip) as server, client() as upstream:
        with pytest.raises(HeaderTimeout):
            await call(upstream, server.url, deadlines=Deadlines(header_s=0.1))


@on_both_loops
async def test_an_upstream_that_does_not_take_the_request_is_stuck_in_send() -> None:
    async with RawServer(never_reads) as server, client() as upstream:
        with pytest.raises(HeaderTimeout) as caught:
            await call(upstream, server.url, b"x" * (32 * MIB), Deadlines(header_s=0.1))
        assert caught.value.phase == "send"


@on_both_loops
async def test_pings_do_not_put_off_the_first_token_but_do_put_off_idle() -> None:
    async def ping(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"transfer-encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"7\r\n: ping\n\r\n")
            await asyncio.sleep(0.01)

    async with RawServer(ping) as server, client() as upstream:
        with pytest.raises(FirstTokenTimeout) as caught:
            await call(upstream, server.url, deadlines=Deadlines(first_token_s=0.3, idle_s=0.2))
        assert caught.value.phase == "first_byte"


@on_both_loops
async def test_seen_content_ends_the_first_token_deadline() -> None:
    may_end = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"content-length: 4\r\n\r\nco")
        await may_end.wait()
        await peer.send(b"ol")

    async with RawServer(script) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url), b"", b"", Deadlines(first_token_s=0.05))
        assert await exchange.read() == b"co"
        assert exchange.phase == "first_byte"
        exchange.first_token_seen()
        assert exchange.phase == "mid_stream"
        asyncio.get_running_loop().call_later(0.1, may_end.set)
        assert await read_all(exchange) == b"ol"


@on_both_loops
async def test_the_total_deadline_ends_a_stream_that_is_never_idle() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"transfer-encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.01)

    async with RawServer(talk) as server, client() as upstream:
        with pytest.raises(TotalTimeout):
            await call(upstream, server.url, total_s=0.1)


@on_both_loops
async def test_a_black_hole_ends_at_the_connect_deadline_with_no_byte_written() -> None:
    with full_backlog() as port:
        async with client() as upstream:
            with pytest.raises(ConnectFailed) as caught:
                await call(upstream, f"http://127.0.0.1:{port}", deadlines=Deadlines(connect_s=0.05))
            assert (caught.value.phase, caught.value.timed_out) == ("connect", True)
            assert not caught.value.request_bytes_written
            patient = Deadlines(connect_s=float("inf"))
            with pytest.raises(TotalTimeout) as total:
                await call(upstream, f"http://127.0.0.1:{port}", deadlines=patient, total_s=0.05)
            assert not total.value.request_bytes_written


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose accept queue is full: further connections get no answer at all."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(address)
        yield address[1]


@on_both_loops
async def test_a_refused_connection_fails_in_connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with client() as upstream:
        with pytest.raises(ConnectFailed) as caught:
            await call(upstream, f"http://127.0.0.1:{port}")
        assert (caught.value.phase, caught.value.timed_out) == ("connect", False)
        assert not caught.value.request_bytes_written


@pytest.mark.parametrize(
    ("pieces", "phase"),
    [
        ((), "wait_headers"),
        ((b"HTTP/1.1 200 OK\r\nx:",), "wait_headers"),
        ((OK + b"content-length: 5\r\n\r\n",), "first_byte"),
        ((OK + b"content-length: 5\r\n\r\nhel",), "mid_stream"),
        ((OK + b"connection: close\r\n\r\nhel",), "mid_stream"),
    ],
)
@on_both_loops
async def test_a_reset_is_told_with_its_phase(pieces: tuple[bytes, ...], phase: str) -> None:
    seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)
        await seen.wait()
        peer.reset()

    async with RawServer(script) as server, client() as upstream:
        if phase == "wait_headers":
            seen.set()
            with pytest.raises(ConnectionLost) as caught:
                await upstream.send(upstream.prepare(server.url))
        else:
            exchange = await upstream.send(upstream.prepare(server.url))
            if phase == "mid_stream":
                assert await exchange.read() == b"hel"
                exchange.first_token_seen()
            seen.set()
            with pytest.raises(ConnectionLost) as caught:
                await exchange.read()
        assert caught.value.phase == phase
        assert caught.value.request_bytes_written


@on_both_loops
async def test_a_reset_while_the_request_is_on_its_way_is_told_as_send() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        peer.reset()

    async with RawServer(script) as server, client() as upstream:
        with pytest.raises(ConnectionLost) as caught:
            await call(upstream, server.url, b"x" * (32 * MIB))
        assert caught.value.phase == "send"
        assert caught.value.request_bytes_written


@on_both_loops
async def test_an_end_before_any_byte_is_lost_and_never_sent_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    async with RawServer(script) as server, client() as upstream:
        with pytest.raises(ConnectionLost):
            await call(upstream, server.url)
        assert len(server.peers) == 1
        assert len(server.peers[0].requests) == 1


@on_both_loops
async def test_what_fails_between_the_request_and_its_answer_leaves_no_call_behind() -> None:
    def fails() -> None:
        raise RuntimeError("what was done meanwhile")

    async with RawServer(play(response(b"hello"))) as server, client() as upstream:
        with pytest.raises(RuntimeError, match="meanwhile"):
            await upstream.send(upstream.prepare(server.url), on_sent=fails)
        assert only(upstream).active == 0
        assert await call(upstream, server.url) == (200, b"hello")
