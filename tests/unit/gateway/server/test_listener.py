"""Start, drain and close of the listener, over real sockets."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from support.event_loops import on_both_loops
from support.gateway_server import PATIENCE_S, Echo, Held, RawClient, Running, listening_socket, running
from tidegate.gateway.exchange import Exchange, Reason, Scope, exchange_of
from tidegate.gateway.listener import GatewayServer, serve
from tidegate.gateway.server_limits import ServerLimits

GET = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
STREAMS = 50


class Streams:
    """Application whose answers go on until they are released or cancelled."""

    def __init__(self) -> None:
        self.open = 0
        self.reasons: list[Reason] = []
        self.release = asyncio.Event()
        self.all_open = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)

        def cancel(reason: Reason) -> None:
            self.reasons.append(reason)
            self.release.set()

        exchange.on_disconnect(cancel)
        exchange.start(200, b"content-type: text/event-stream\r\n")
        exchange.write(b"data: 1\n\n")
        self.open += 1
        if self.open == STREAMS:
            self.all_open.set()
        await self.release.wait()
        exchange.finish(b"data: end\n\n")


async def open_streams(run: Running, app: Streams) -> list[RawClient]:
    clients = [await run.connect() for _ in range(STREAMS)]
    for client in clients:
        await client.send(GET)
    async with asyncio.timeout(PATIENCE_S):
        await app.all_open.wait()
    return clients


@on_both_loops
async def test_a_drain_lets_fifty_open_streams_finish_whole() -> None:
    app = Streams()
    async with running(app) as run:
        clients = await open_streams(run, app)
        idle = await run.connect()
        while run.server.open_connections <= STREAMS:
            await asyncio.sleep(0)
        run.server.stop_accepting()
        assert await idle.is_closed_by_server()
        with pytest.raises(ConnectionRefusedError):
            await run.connect()
        waiting = asyncio.ensure_future(run.server.wait_idle(PATIENCE_S))
        await asyncio.sleep(0)
        app.release.set()
        assert await waiting == 0
        for client in clients:
            assert (await client.read_to_end()).endswith(b"data: end\n\n\r\n0\r\n\r\n")
        assert run.server.open_connections == 0
    assert app.reasons == []


@on_both_loops
async def test_what_outlives_the_grace_is_cancelled_and_may_still_end_its_answer() -> None:
    app = Streams()
    async with running(app) as run:
        clients = await open_streams(run, app)
        run.server.stop_accepting()
        assert await run.server.wait_idle(0.01) == STREAMS
        assert run.server.cancel_active() == STREAMS
        assert await run.server.wait_idle(PATIENCE_S) == 0
        for client in clients:
            assert (await client.read_to_end()).endswith(b"data: end\n\n\r\n0\r\n\r\n")
    assert app.reasons == ["draining"] * STREAMS


@on_both_loops
async def test_close_all_cuts_what_does_not_end() -> None:
    async def stubborn(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(reasons.append)
        exchange.start(200, b"")
        exchange.write(b"part")
        await asyncio.Event().wait()

    reasons: list[Reason] = []
    async with running(stubborn) as run:
        client = await run.connect()
        await client.send(GET)
        await client.receive()
        run.server.close_all()
        assert await run.server.wait_idle(PATIENCE_S) == 0
        assert not (await client.read_to_end()).endswith(b"0\r\n\r\n")
    assert reasons == ["shutdown"]


@on_both_loops
async def test_an_announced_drain_ends_each_connection_with_its_answer() -> None:
    async with running(Echo()) as run:
        client = await run.connect()
        await client.send(GET)
        assert "connection" not in (await client.answer()).fields
        run.server.announce_drain()
        await client.send(GET)
        assert (await client.answer()).fields["connection"] == "close"
        assert await client.is_closed_by_server()
        assert run.server.total_requests == 2


@on_both_loops
async def test_new_connections_are_served_during_the_drain_delay_and_closed_after_it() -> None:
    async with running(Echo(), ServerLimits(linger_s=0.05)) as run:
        run.server.announce_drain()
        client = await run.connect()
        await client.send(GET)
        assert (await client.answer()).status == 200


@on_both_loops
async def test_answers_carry_the_date() -> None:
    async with running(Echo()) as run:
        client = await run.connect()
        await client.send(GET)
        assert (await client.answer()).fields["date"].endswith(" GMT")


@on_both_loops
async def test_serve_drains_when_told_to_stop() -> None:
    app = Held()
    stop = asyncio.Event()
    started: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    sock = listening_socket()
    port: int = sock.getsockname()[1]
    serving = asyncio.ensure_future(
        serve(app, [sock], ServerLimits(), stop=stop, on_started=started.set_result)
    )
    run = Running(await started, port)
    client = await run.connect()
    await client.send(GET)
    async with asyncio.timeout(PATIENCE_S):
        await app.exchanges.get()
        stop.set()
        await asyncio.sleep(0)
        app.release.set()
        assert (await client.answer()).body == b"held"
        assert await serving == 0
    client.close()


@on_both_loops
async def test_serve_reports_what_it_had_to_cut() -> None:
    async def stubborn(scope: Scope, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    stop = asyncio.Event()
    started: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    sock = listening_socket()
    port: int = sock.getsockname()[1]
    limits = ServerLimits(drain_grace_s=0.02, settle_grace_s=0.02)
    serving = asyncio.ensure_future(serve(stubborn, [sock], limits, stop=stop, on_started=started.set_result))
    run = Running(await started, port)
    client = await run.connect()
    await client.send(GET)
    while not run.server.active_requests:
        await asyncio.sleep(0)
    stop.set()
    async with asyncio.timeout(PATIENCE_S):
        assert await serving == 1
        assert await client.is_closed_by_server()
    client.close()


@on_both_loops
async def test_cancelling_serve_cuts_everything_at_once() -> None:
    app = Held()
    started: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    sock = listening_socket()
    port: int = sock.getsockname()[1]
    serving = asyncio.ensure_future(
        serve(app, [sock], ServerLimits(), stop=asyncio.Event(), on_started=started.set_result)
    )
    run = Running(await started, port)
    client = await run.connect()
    await client.send(GET)
    async with asyncio.timeout(PATIENCE_S):
        await app.exchanges.get()
        serving.cancel()
        assert await app.reasons.get() == "shutdown"
        assert await client.is_closed_by_server()
    with pytest.raises(asyncio.CancelledError):
        await serving
    client.close()


@on_both_loops
async def test_the_direct_way_is_asked_first_and_what_it_leaves_is_served_as_asgi() -> None:
    def direct(exchange: Exchange) -> Awaitable[None] | None:
        return at_once(exchange) if exchange.head.path == "/direct" else None

    async def at_once(exchange: Exchange) -> None:
        exchange.respond(200, b"", b"direct over HTTP/" + exchange.version.encode())

    async def app(scope: Scope, _receive: Any, send: Any) -> None:
        said = f"asgi over HTTP/{scope['http_version']}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": said})

    async with running(app, direct=direct) as run:
        for version in (b"1.1", b"1.0"):
            for path, way in ((b"/direct", b"direct"), (b"/other", b"asgi")):
                client = await run.connect()
                await client.send(b"GET %b HTTP/%b\r\nHost: a\r\nConnection: close\r\n\r\n" % (path, version))
                assert way + b" over HTTP/" + version in await client.read_to_end()
