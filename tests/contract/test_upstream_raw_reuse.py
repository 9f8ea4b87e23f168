"""The outbound client against raw sockets: which connection serves which call, and back-pressure."""

import asyncio
import socket
import time

import pytest

from support.loops import on_both_loops
from support.rawserver import Peer, RawServer, Script, response
from support.upstream_calls import (
    LOOSE,
    MIB,
    OK,
    call,
    client,
    only,
    play,
    play_then_close,
    read_all,
    stalled,
    stalled_after,
)
from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.exchange import BUFFER_LIMIT_BYTES, UpstreamExchange
from tidegate.gateway.outbound.faults import (
    ConnectFailed,
    ConnectionLost,
    ConnectionStale,
    ExchangeCancelled,
    IdleTimeout,
    PoolExhausted,
    TargetInvalid,
    UpstreamError,
)
from tidegate.gateway.upstream import Upstream


@on_both_loops
async def test_an_end_on_an_idle_socket_removes_it_and_the_next_call_dials_anew() -> None:
    async with (
        RawServer(play_then_close(response(b"one")), play(response(b"two"))) as server,
        client() as upstream,
    ):
        assert await call(upstream, server.url) == (200, b"one")
        while only(upstream).idle:
            await asyncio.sleep(0)
        assert await call(upstream, server.url) == (200, b"two")
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


@on_both_loops
async def test_an_end_that_the_loop_has_not_told_yet_is_seen_before_the_first_byte_is_written() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with client() as upstream:
            loop = asyncio.get_running_loop()
            listener.setblocking(False)
            target = upstream.prepare(f"http://127.0.0.1:{listener.getsockname()[1]}")

            async def serve(task: asyncio.Task[UpstreamExchange], answer: bytes) -> socket.socket:
                accepted, _ = await loop.sock_accept(listener)
                await loop.sock_recv(accepted, 65536)
                await loop.sock_sendall(accepted, response(answer))
                assert await read_all(await task) == answer
                return accepted

            accepted = await serve(asyncio.ensure_future(upstream.send(target)), b"one")
            accepted.close()  # and no turn of the loop before the next call
            (await serve(asyncio.ensure_future(upstream.send(target)), b"two")).close()
            assert only(upstream).opened == 2


@on_both_loops
async def test_unasked_bytes_on_an_idle_socket_close_it() -> None:
    speak = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"one")
        await speak.wait()
        await peer.send(response(b"poison"))
        await peer.gone()

    async with RawServer(script, play(response(b"two"))) as server, client() as upstream:
        assert await call(upstream, server.url) == (200, b"one")
        speak.set()
        await server.peers[0].over.wait()
        assert only(upstream).idle == 0
        assert await call(upstream, server.url) == (200, b"two")


@on_both_loops
async def test_the_servers_keep_alive_is_undercut() -> None:
    async with RawServer(play(response(b"ok", b"keep-alive: timeout=1"))) as server, client() as upstream:
        loop = asyncio.get_running_loop()
        await call(upstream, server.url)
        answered_at = loop.time()
        assert only(upstream).idle == 1
        await server.peers[0].over.wait()
        assert only(upstream).idle == 0
        assert loop.time() - answered_at >= 0.4  # not at once; the upper bound is the server's 1 s


@on_both_loops
async def test_idle_connections_are_reaped() -> None:
    async with RawServer(play(response(b"ok"))) as server, client(idle_s=0.05) as upstream:
        await call(upstream, server.url)
        assert only(upstream).idle == 1
        await server.peers[0].over.wait()
        assert only(upstream).idle == 0


@on_both_loops
async def test_keep_alive_zero_is_not_pooled() -> None:
    async with RawServer(play(response(b"ok", b"keep-alive: timeout=0"))) as server, client() as upstream:
        await call(upstream, server.url)
        assert only(upstream).idle == 0


@on_both_loops
async def test_a_cancelled_exchange_never_returns_to_the_pool() -> None:
    async with RawServer(play(OK + b"content-length: 5\r\n\r\nhel")) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        exchange.cancel()
        exchange.cancel()
        assert (only(upstream).active, only(upstream).idle) == (0, 0)
        with pytest.raises(ExchangeCancelled):
            await exchange.read()
        await server.peers[0].over.wait()


@on_both_loops
async def test_leaving_a_with_block_gives_up_what_was_not_read() -> None:
    async with RawServer(play(OK + b"content-length: 5\r\n\r\nhel")) as server, client() as upstream:
        with await upstream.send(upstream.prepare(server.url)) as exchange:
            assert await exchange.read() == b"hel"
        assert (only(upstream).active, only(upstream).idle) == (0, 0)


@on_both_loops
async def test_cancelling_after_the_end_keeps_the_connection() -> None:
    async with RawServer(play(response(b"ok"))) as server, client() as upstream:
        with await upstream.send(upstream.prepare(server.url)) as exchange:
            assert await read_all(exchange) == b"ok"
            assert exchange.is_complete
        assert only(upstream).idle == 1


@on_both_loops
async def test_a_body_that_arrived_whole_frees_its_connection_before_it_is_read() -> None:
    async with RawServer(play(response(b"ok"))) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        while only(upstream).active:
            await asyncio.sleep(0)
        assert not exchange.is_complete
        assert exchange.read_nowait() == b"ok"
        assert exchange.read_nowait() == b""
        assert exchange.is_complete


@on_both_loops
async def test_an_answer_before_the_whole_request_is_out_is_read_but_its_connection_is_not_reused() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.answer(b"too large", status=b"413 Content Too Large")
        await asyncio.Event().wait()

    async with RawServer(script) as server, client() as upstream:
        assert await call(upstream, server.url, b"x" * (32 * MIB)) == (413, b"too large")
        assert only(upstream).idle == 0


@on_both_loops
async def test_a_cancelled_reader_cancels_the_exchange() -> None:
    async with RawServer(stalled_after(OK + b"content-length: 5\r\n\r\nhel")) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        assert await exchange.read() == b"hel"
        reader = asyncio.ensure_future(exchange.read())
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert only(upstream).active == 0
        await server.peers[0].over.wait()


@on_both_loops
async def test_cancelling_from_elsewhere_wakes_the_reader() -> None:
    async with RawServer(stalled_after(OK + b"content-length: 5\r\n\r\nhel")) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        exchange.read_nowait() if exchange.buffered_bytes else await exchange.read()
        reader = asyncio.ensure_future(exchange.read())
        await asyncio.sleep(0)
        exchange.cancel()
        with pytest.raises(ExchangeCancelled):
            await reader


@on_both_loops
async def test_the_cap_holds_and_waiters_go_in_order() -> None:
    order: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            order.append(request.rpartition(b"\r\n\r\n")[2])
            await peer.answer(b"ok", *([b"connection: close"] if len(order) % 3 == 0 else []))
            if len(order) % 3 == 0:
                return

    async with RawServer(script) as server, client(connections_per_origin=1) as upstream:
        async with asyncio.TaskGroup() as group:
            for number in range(12):
                group.create_task(call(upstream, server.url, b"%d" % number))
        assert order == [b"%d" % number for number in range(12)]


@on_both_loops
async def test_no_more_connections_are_open_than_the_cap() -> None:
    open_now = most = 0

    async def script(peer: Peer) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        try:
            while True:
                await peer.request()
                await peer.answer()
        finally:
            open_now -= 1

    async with RawServer(script) as server, client(connections_per_origin=3) as upstream:
        async with asyncio.TaskGroup() as group:
            for _ in range(40):
                group.create_task(call(upstream, server.url))
        assert most == 3
        assert only(upstream).opened == 3


@on_both_loops
async def test_waiting_for_a_connection_ends_at_the_connect_deadline() -> None:
    async with RawServer(stalled) as server, client(connections_per_origin=1) as upstream:
        first = asyncio.ensure_future(call(upstream, server.url))
        while not (server.peers and server.peers[0].requests):
            await asyncio.sleep(0)
        with pytest.raises(PoolExhausted) as caught:
            await call(upstream, server.url, deadlines=Deadlines(connect_s=0.05))
        assert not caught.value.request_bytes_written
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


@on_both_loops
async def test_reading_pauses_when_nobody_takes_the_body() -> None:
    sent = 0

    async def flood(peer: Peer) -> None:
        nonlocal sent
        peer.shrink_send_buffer()
        await peer.request()
        await peer.send(OK + b"content-length: %d\r\n\r\n" % (16 * MIB))
        for _ in range(256):
            await peer.send(b"x" * 65536)
            sent += 65536
        await peer.gone()

    async with RawServer(flood) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        before = -1
        while before != sent:  # until the server is stuck
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 12 * MIB
        assert BUFFER_LIMIT_BYTES < exchange.buffered_bytes <= BUFFER_LIMIT_BYTES + 256 * 1024
        assert len(await read_all(exchange)) == 16 * MIB
        assert exchange.is_complete


@on_both_loops
async def test_a_pause_stops_reading_and_every_deadline() -> None:
    may_go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"content-length: 4\r\n\r\nco")
        await may_go_on.wait()
        await peer.send(b"ol")
        await peer.gone()

    tight = Deadlines(idle_s=0.5, first_token_s=0.5)
    async with RawServer(script) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url), b"", b"", tight, 0.8)
        assert await exchange.read() == b"co"
        exchange.pause()
        may_go_on.set()
        await asyncio.sleep(1.0)  # longer than all three deadlines
        assert exchange.buffered_bytes == 0
        exchange.resume()
        assert await read_all(exchange) == b"ol"


@on_both_loops
async def test_deadlines_run_on_after_a_pause() -> None:
    async with RawServer(stalled_after(OK + b"content-length: 4\r\n\r\nco")) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url), b"", b"", Deadlines(idle_s=0.05))
        assert await exchange.read() == b"co"
        exchange.pause()
        exchange.resume()
        with pytest.raises(IdleTimeout):
            await exchange.read()


@on_both_loops
async def test_a_paused_connection_that_completed_is_reused_and_reads_again() -> None:
    async with RawServer(play(response(b"x" * (BUFFER_LIMIT_BYTES + 1)))) as server, client() as upstream:
        for _ in range(3):
            exchange = await upstream.send(upstream.prepare(server.url))
            while not only(upstream).idle:
                if exchange.buffered_bytes > BUFFER_LIMIT_BYTES:
                    break
                await asyncio.sleep(0)
            assert len(await read_all(exchange)) == BUFFER_LIMIT_BYTES + 1
        assert len(server.peers) == 1


@on_both_loops
async def test_closing_the_client_ends_calls_and_waiters_and_refuses_new_ones() -> None:
    async with RawServer(stalled) as server:
        upstream = Upstream(LOOSE, connections_per_origin=1)
        target = upstream.prepare(server.url)
        running = asyncio.ensure_future(upstream.send(target))
        while not (server.peers and server.peers[0].requests):
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(upstream.send(target))
        await asyncio.sleep(0)
        await upstream.aclose()
        results = await asyncio.gather(running, waiting, return_exceptions=True)
        assert [type(result) for result in results] == [ExchangeCancelled, ConnectFailed]
        with pytest.raises(UpstreamError):
            await upstream.send(target)
        with pytest.raises(TargetInvalid):
            upstream.prepare("http://127.0.0.1:1")
        assert only(upstream).active == 0


@on_both_loops
async def test_a_prepared_target_does_not_show_its_credential() -> None:
    async with client() as upstream:
        target = upstream.prepare("http://127.0.0.1:9/x?key=canary", [(b"authorization", b"Bearer canary")])
        assert "canary" not in repr(target)
        assert "127.0.0.1" in repr(target)


@on_both_loops
async def test_an_early_ring_of_the_timer_reaps_nothing_before_its_time() -> None:
    async with RawServer(play(response(b"ok"))) as server, client(idle_s=0.3) as upstream:
        loop = asyncio.get_running_loop()
        await call(upstream, server.url, deadlines=Deadlines(header_s=0.05))
        answered_at = loop.time()
        await server.peers[0].over.wait()
        assert loop.time() - answered_at >= 0.25


@on_both_loops
async def test_a_request_larger_than_any_buffer_is_sent_whole_and_its_connection_reused() -> None:
    async with RawServer(play(response(b"ok"))) as server, client() as upstream:
        for _ in range(2):
            assert await call(upstream, server.url, b"x" * (8 * MIB)) == (200, b"ok")
        assert len(server.peers) == 1
        assert [len(request) > 8 * MIB for request in server.peers[0].requests] == [True, True]


@on_both_loops
async def test_two_readers_on_one_exchange_are_a_mistake_of_ours() -> None:
    async with (
        RawServer(stalled_after(OK + b"content-length: 5\r\n\r\n")) as server,
        client() as upstream,
    ):
        exchange = await upstream.send(upstream.prepare(server.url))
        first = asyncio.ensure_future(exchange.read())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two readers"):
            await exchange.read()
        exchange.cancel()
        with pytest.raises(ExchangeCancelled):
            await first


@on_both_loops
async def test_a_lost_stream_is_told_to_those_who_do_not_wait_too() -> None:
    async with (
        RawServer(play_then_close(OK + b"content-length: 5\r\n\r\nhel")) as server,
        client() as upstream,
    ):
        exchange = await upstream.send(upstream.prepare(server.url))
        while only(upstream).active:
            await asyncio.sleep(0)
        exchange.pause()
        exchange.resume()
        assert exchange.read_nowait() == b"hel"
        with pytest.raises(ConnectionLost):
            exchange.read_nowait()


@on_both_loops
async def test_caller_and_buffer_must_both_let_go_before_reading_goes_on() -> None:
    body = b"x" * (4 * BUFFER_LIMIT_BYTES)
    async with RawServer(play(response(body))) as server, client() as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        while exchange.buffered_bytes <= BUFFER_LIMIT_BYTES:
            await asyncio.sleep(0)
        exchange.pause()
        taken = len(exchange.read_nowait())
        await asyncio.sleep(0.05)
        assert exchange.buffered_bytes == 0
        exchange.resume()
        assert taken + len(await read_all(exchange)) == len(body)


async def test_a_connection_past_its_idle_time_is_not_taken_though_the_loop_was_too_busy_to_reap_it() -> None:
    # On asyncio's loop only: uvloop's clock stands still within a turn.
    async with RawServer(play(response(b"ok"))) as server, client(idle_s=0.02) as upstream:
        await call(upstream, server.url)
        time.sleep(0.05)
        await call(upstream, server.url)
        assert only(upstream).opened == 2


async def answers_once_then_ends_unheard(peer: Peer) -> None:
    await peer.request()
    await peer.answer(b"one")
    await peer.request()


async def answers_once_then_resets(peer: Peer) -> None:
    await answers_once_then_ends_unheard(peer)
    peer.reset()


async def stalled_then_ends(peer: Peer) -> None:
    await peer.request()


async def answers_once_then_half(peer: Peer) -> None:
    await peer.request()
    await peer.answer(b"one")
    await peer.request()
    await peer.send(b"HTTP/1.1 2")


@on_both_loops
@pytest.mark.parametrize("script", [answers_once_then_ends_unheard, answers_once_then_resets])
async def test_a_kept_connection_that_ends_without_a_byte_is_stale_and_the_next_call_dials(
    script: Script,
) -> None:
    async with RawServer(script, script, play(response(b"fresh"))) as server, client() as upstream:
        both = [call(upstream, server.url) for _ in range(2)]
        assert await asyncio.gather(*both) == [(200, b"one")] * 2
        assert only(upstream).idle == 2
        with pytest.raises(ConnectionStale) as caught:
            await call(upstream, server.url)
        assert caught.value.request_bytes_written
        assert only(upstream).idle == 0, "those as old are given up, too"
        assert await call(upstream, server.url) == (200, b"fresh")


@on_both_loops
@pytest.mark.parametrize("script", [stalled_then_ends, answers_once_then_half])
async def test_an_end_on_a_new_connection_or_within_an_answer_is_no_stale_one(script: Script) -> None:
    async with RawServer(script) as server, client() as upstream:
        if script is answers_once_then_half:
            await call(upstream, server.url)
        with pytest.raises(ConnectionLost) as caught:
            await call(upstream, server.url)
        assert not isinstance(caught.value, ConnectionStale)
