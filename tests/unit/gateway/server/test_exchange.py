"""What an application may rely on: ASGI semantics, the direct path, and FastAPI on top of both."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from support.fed_connection import FedConnection
from tidegate.gateway.exchange import App, Exchange, Scope, exchange_of

GET = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


def answered_by(use: Callable[[Exchange], Awaitable[None]]) -> FedConnection:
    async def app(scope: Scope, receive: Any, send: Any) -> None:
        await use(exchange_of(scope))

    return FedConnection(app)


async def written(connection: FedConnection, request: bytes = GET) -> bytes:
    connection.feed(request)
    return await connection.settle()


async def test_a_whole_answer_is_one_write_with_its_length() -> None:
    async def use(exchange: Exchange) -> None:
        exchange.respond(200, b"content-type: text/plain\r\n", b"hello")

    raw = await written(answered_by(use))
    assert raw == b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"


async def test_a_stream_holds_its_head_until_the_first_bytes() -> None:
    async def use(exchange: Exchange) -> None:
        exchange.start(200, b"a: b\r\n")
        await asyncio.sleep(0)
        seen.append(connection.transport.written)
        exchange.write(b"one")
        seen.append(connection.transport.written)
        exchange.write(b"")
        exchange.finish(b"two")

    seen: list[bytes] = []
    connection = answered_by(use)
    raw = await written(connection)
    assert seen[0] == b""
    head = b"HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n"
    assert seen[1] == head + b"3\r\none\r\n"
    assert raw == head + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


async def test_flush_sends_the_head_alone_and_once() -> None:
    async def use(exchange: Exchange) -> None:
        exchange.start(200, b"")
        exchange.flush()
        exchange.flush()
        seen.append(connection.transport.written)
        exchange.finish()

    seen: list[bytes] = []
    connection = answered_by(use)
    assert await written(connection) == seen[0] + b"0\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_carry_no_framing(status: int) -> None:
    async def use(exchange: Exchange) -> None:
        exchange.respond(status, b"", b"")

    raw = await written(answered_by(use))
    assert b"content-length" not in raw
    assert b"transfer-encoding" not in raw


async def test_head_gets_the_length_and_no_body() -> None:
    async def use(exchange: Exchange) -> None:
        exchange.respond(200, b"", b"hello")

    raw = await written(answered_by(use), GET.replace(b"GET", b"HEAD"))
    assert raw.endswith(b"content-length: 5\r\n\r\n")


async def test_head_of_a_stream_sends_no_body_either() -> None:
    async def use(exchange: Exchange) -> None:
        exchange.start(200, b"")
        exchange.write(b"one")
        exchange.finish(b"two")

    raw = await written(answered_by(use), GET.replace(b"GET", b"HEAD"))
    assert raw == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("body", [b"four", b"toolong"])
async def test_a_body_that_breaks_its_promised_length_cuts_the_connection(body: bytes) -> None:
    async def use(exchange: Exchange) -> None:
        exchange.start(200, b"", 5)
        with pytest.raises(RuntimeError, match="Content-Length"):
            exchange.finish(body)

    connection = answered_by(use)
    await written(connection)
    assert connection.transport.aborted


async def test_misuse_is_told_to_the_application() -> None:
    async def use(exchange: Exchange) -> None:
        with pytest.raises(RuntimeError, match="before start"):
            exchange.write(b"x")
        with pytest.raises(RuntimeError, match="before start"):
            exchange.finish()
        exchange.respond(200, b"", b"")
        with pytest.raises(RuntimeError, match="already"):
            exchange.start(200, b"")
        with pytest.raises(RuntimeError, match="after the answer"):
            await exchange.read_body()
        errors.append("all told")

    errors: list[str] = []
    await written(answered_by(use), POST[:-1])
    assert errors == ["all told"]


async def test_an_answer_is_ended_even_when_the_application_forgets(caplog: pytest.LogCaptureFixture) -> None:
    async def use(exchange: Exchange) -> None:
        exchange.start(200, b"")

    raw = await written(answered_by(use))
    assert raw.startswith(b"HTTP/1.1 500 ")
    assert "without a complete answer" in caplog.text


async def test_asgi_messages_follow_the_standard() -> None:
    messages: list[dict[str, Any]] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        assert scope["asgi"] == {"version": "3.0", "spec_version": "2.4"}
        messages.append(await receive())
        headers = [(b"Content-Length", b"4"), (b"X-A", b"b"), (b"Connection", b"close"), (b"Date", b"x")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b"four"})
        messages.append(await receive())
        with pytest.raises(RuntimeError, match="unexpected"):
            await send({"type": "http.response.body", "body": b"more"})

    connection = FedConnection(app)
    raw = await written(connection, POST)
    assert messages == [
        {"type": "http.request", "body": b"abc", "more_body": False},
        {"type": "http.disconnect"},
    ]
    assert raw == b"HTTP/1.1 200 OK\r\nX-A: b\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfour"
    assert connection.transport.closed


async def test_body_messages_arrive_as_the_bytes_do() -> None:
    messages: list[dict[str, Any]] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        messages.extend([await receive(), await receive()])
        exchange_of(scope).respond(200, b"", b"")

    connection = FedConnection(app)
    connection.feed(POST[:-1])
    await connection.settle()
    connection.feed(POST[-1:])
    await connection.settle()
    assert [(m["body"], m["more_body"]) for m in messages] == [(b"ab", True), (b"c", False)]


@pytest.mark.parametrize("field", [(b"a\r\nb", b"c"), (b"a", b"b\r\nset-cookie: x"), (b"a", b"\0")])
async def test_a_header_with_line_ends_never_leaves(field: tuple[bytes, bytes]) -> None:
    async def app(scope: Scope, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [field]})

    raw = await written(FedConnection(app))
    assert raw.startswith(b"HTTP/1.1 500 ")
    assert b"set-cookie" not in raw


async def test_fastapi_reads_bodies_and_streams_over_this_server() -> None:
    app = FastAPI()

    @app.post("/a")
    async def read(request: Request) -> dict[str, int]:
        return {"length": len(await request.body())}

    @app.get("/a")
    async def stream() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"one"
            await asyncio.sleep(0)
            yield b"two"

        return StreamingResponse(parts())

    connection = FedConnection(cast("App", app))
    assert (await written(connection, POST)).endswith(b'{"length":3}')
    for _ in range(10):
        await connection.settle()
    await written(connection)
    raw = b""
    for _ in range(10):
        raw = await connection.settle()
    assert raw.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_a_fastapi_stream_ends_quietly_when_the_client_leaves(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    closed = asyncio.Event()

    @app.get("/a")
    async def stream() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x"
                    await asyncio.sleep(0)
            finally:
                closed.set()

        return StreamingResponse(parts())

    connection = FedConnection(cast("App", app))
    connection.feed(GET)
    while not connection.transport.written:
        await asyncio.sleep(0)
    connection.protocol.connection_lost(None)
    async with asyncio.timeout(10):
        while connection.server.active_requests:
            await asyncio.sleep(0)
    assert caplog.text == ""
