"""One connection fed by hand: every cut of the input, every deadline at its real length."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httptools
import pytest

from support.fake_transport import FakeTransport
from support.fed_connection import FedConnection
from support.gateway_server import Echo, Held
from support.virtual_time import in_virtual_time
from tidegate.gateway.exchange import Reason, Scope, exchange_of
from tidegate.gateway.server_limits import ServerLimits

HOST = b"Host: gateway.test\r\n"
GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"
REQUESTS = {
    "get": (GET, b""),
    "length": (b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "chunks": (
        b"POST /a HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\n\r\n2;x\r\nhe\r\n3\r\nllo\r\n0\r\nT: u\r\n\r\n",
        b"hello",
    ),
    "upgrade": (
        b"POST /a HTTP/1.1\r\n"
        + HOST
        + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
    ),
    "upgrade of chunks": (
        b"POST /a HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"hello",
    ),
    "absolute": (b"GET http://gateway.test/a HTTP/1.1\r\n" + HOST + b"\r\n", b""),
}
REFUSED = {
    "two hosts": b"GET /a HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "fold": b"GET /a HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n",
    "two lengths": b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "responses upgrade": b"GET /v1/responses HTTP/1.1\r\n"
    + HOST
    + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_every_cut_in_two_gives_the_same_request(name: str) -> None:
    data, body = REQUESTS[name]
    app = Echo()
    for cut in range(len(data) + 1):
        connection = FedConnection(app)
        connection.feed(data[:cut])
        await connection.settle()
        connection.feed(data[cut:])
        assert (await connection.settle()).endswith(b"%d" % len(body)), cut
        assert not connection.transport.closed
    assert [(seen.path, seen.body) for seen in app.seen] == [("/a", body)] * (len(data) + 1)
    assert len({tuple(seen.fields) for seen in app.seen}) == 1


@pytest.mark.parametrize("name", REQUESTS)
async def test_single_bytes_give_the_same_request(name: str) -> None:
    data, body = REQUESTS[name]
    app = Echo()
    connection = FedConnection(app)
    for index in range(len(data)):
        connection.feed(data[index : index + 1])
    await connection.settle()
    assert [(seen.path, seen.body) for seen in app.seen] == [("/a", body)]


@pytest.mark.parametrize("name", REFUSED)
async def test_every_cut_in_two_gives_the_same_refusal(name: str) -> None:
    data = REFUSED[name]
    app = Echo()
    answers: set[bytes] = set()
    for cut in range(len(data) + 1):
        connection = FedConnection(app)
        connection.feed(data[:cut])
        connection.feed(data[cut:])
        answers.add(await connection.settle())
        assert connection.transport.eof_written
        connection.transport.abort()
    assert len(answers) == 1
    assert app.started == 0


@pytest.mark.parametrize("step", [1, 1000, 65_536, 200_000])
@pytest.mark.parametrize("excess", [0, 1])
async def test_the_head_limit_is_exact_for_every_read_size(step: int, excess: int) -> None:
    limits = ServerLimits(max_head_bytes=4096)
    start = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nA: "
    head = start + b"b" * (4096 + excess - len(start) - 4) + b"\r\n\r\n"
    app = Echo()
    connection = FedConnection(app, limits)
    data = head + b"abc"
    for index in range(0, len(data), step):
        connection.feed(data[index : index + step])
    await connection.settle()
    assert connection.status == (431 if excess else 200)
    assert app.started == 1 - excess


async def test_a_second_request_on_the_connection_has_its_own_head_budget() -> None:
    app = Echo()
    connection = FedConnection(app, ServerLimits(max_head_bytes=len(GET)))
    for _ in range(3):
        connection.feed(GET)
        await connection.settle()
    assert len(app.seen) == 3


async def test_a_large_body_waits_unread_until_the_application_asks() -> None:
    wanted = asyncio.Event()
    bodies: list[bytes] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        await wanted.wait()
        bodies.append(await exchange_of(scope).read_body())
        exchange_of(scope).respond(200, b"", b"")

    connection = FedConnection(app, ServerLimits(read_high_water_bytes=1000))
    connection.feed(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 3000\r\n\r\n")
    connection.feed(b"x" * 1000)
    assert not connection.transport.reading_paused
    connection.feed(b"x")
    assert connection.transport.reading_paused
    wanted.set()
    await connection.settle()
    assert not connection.transport.reading_paused
    connection.feed(b"x" * 1999)
    await connection.settle()
    assert bodies == [b"x" * 3000]


# --- deadlines


@in_virtual_time
async def test_a_head_has_ten_seconds_from_its_first_byte() -> None:
    connection = FedConnection(Echo())
    await asyncio.sleep(60)
    connection.feed(b"G")
    await asyncio.sleep(9)
    connection.feed(b"ET /a HTTP/1.1\r\n")
    await asyncio.sleep(0.9)
    assert connection.status == 0
    await asyncio.sleep(0.2)
    assert connection.status == 408
    await asyncio.sleep(2)
    assert connection.transport.aborted


@in_virtual_time
async def test_a_body_has_its_deadline_from_the_end_of_the_head() -> None:
    app = Echo()
    connection = FedConnection(app)
    connection.feed(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n")
    for _ in range(59):
        await asyncio.sleep(1)
        connection.feed(b"x")
    assert connection.status == 0
    await asyncio.sleep(1.1)
    assert connection.status == 408
    assert app.gone == ["client_fault"]


@in_virtual_time
async def test_the_body_deadline_stands_still_while_we_do_not_read() -> None:
    gone: list[Reason] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(gone.append)
        await asyncio.sleep(300)
        await exchange.read_body()
        exchange.respond(200, b"", b"")

    connection = FedConnection(app, ServerLimits(read_high_water_bytes=10))
    connection.feed(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n" + b"x" * 90)
    await asyncio.sleep(299)
    assert connection.status == 0
    await asyncio.sleep(2)
    connection.feed(b"x" * 10)
    await connection.settle()
    assert (connection.status, gone) == (200, [])


@in_virtual_time
async def test_a_finished_request_leaves_no_deadline_behind() -> None:
    connection = FedConnection(Echo())
    connection.feed(GET[:20])
    await asyncio.sleep(5)
    connection.feed(GET[20:])
    await asyncio.sleep(60)
    assert not connection.transport.closed
    connection.feed(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nx")
    await asyncio.sleep(5)
    connection.feed(b"x")
    await asyncio.sleep(70)
    assert not connection.transport.closed


@in_virtual_time
async def test_keep_alive_is_75_seconds_after_the_last_answer() -> None:
    connection = FedConnection(Echo())
    for _ in range(3):
        await asyncio.sleep(70)
        connection.feed(GET)
    await asyncio.sleep(74.9)
    assert not connection.transport.closed
    await asyncio.sleep(0.2)
    assert connection.transport.closed


@in_virtual_time
async def test_a_long_request_is_not_idle() -> None:
    app = Held()
    connection = FedConnection(app)
    connection.feed(GET)
    await asyncio.sleep(1000)
    assert not connection.transport.closed
    app.release.set()
    await asyncio.sleep(74.9)
    assert connection.status == 200
    assert not connection.transport.closed
    await asyncio.sleep(0.2)
    assert connection.transport.closed


def stream_until_paused(gone: list[Reason]) -> Any:
    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(gone.append)
        exchange.start(200, b"")
        while exchange.gone is None:
            exchange.write(b"x" * 10_000)
            await exchange.wait_writable()

    return app


@in_virtual_time
async def test_a_client_that_takes_nothing_for_60_seconds_is_slow() -> None:
    gone: list[Reason] = []
    connection = FedConnection(stream_until_paused(gone), holds_back=True)
    connection.feed(GET)
    await asyncio.sleep(59.9)
    assert gone == []
    await asyncio.sleep(15)
    assert gone == ["client_slow"]
    assert connection.transport.aborted


@in_virtual_time
async def test_a_client_that_takes_a_byte_now_and_then_is_not_slow() -> None:
    gone: list[Reason] = []
    connection = FedConnection(stream_until_paused(gone), holds_back=True)
    connection.feed(GET)
    for _ in range(20):
        await asyncio.sleep(40)
        connection.transport.take(1)
    assert gone == []
    assert not connection.transport.closed
    await asyncio.sleep(80)
    assert gone == ["client_slow"]


@in_virtual_time
async def test_bytes_written_while_paused_do_not_hide_what_the_client_took() -> None:
    gone: list[Reason] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(gone.append)
        exchange.start(200, b"")
        exchange.write(b"x" * 70_000)
        while exchange.gone is None:
            await asyncio.sleep(10)
            exchange.write(b"ping")

    connection = FedConnection(app, holds_back=True)
    connection.feed(GET)
    for _ in range(20):
        await asyncio.sleep(10)
        connection.transport.take(2)
    assert gone == []
    await asyncio.sleep(80)
    assert gone == ["client_slow"]


@in_virtual_time
async def test_a_closing_connection_whose_client_takes_nothing_is_cut() -> None:
    connection = FedConnection(Echo(), holds_back=True)
    connection.feed(b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    await asyncio.sleep(1)
    assert connection.transport.closed
    assert not connection.transport.aborted
    await asyncio.sleep(60)
    assert connection.transport.aborted


@in_virtual_time
async def test_an_idle_connection_whose_client_left_bytes_behind_is_cut() -> None:
    connection = FedConnection(Echo(), holds_back=True)
    connection.feed(GET)
    await asyncio.sleep(75.1)
    assert connection.transport.aborted


async def test_a_request_that_is_arriving_when_the_listener_closes_is_answered() -> None:
    connection = FedConnection(Echo())
    connection.feed(GET[:20])
    connection.server.stop_accepting()
    connection.feed(GET[20:])
    assert b"connection: close" in await connection.settle()
    assert connection.transport.closed


@in_virtual_time
async def test_a_connection_accepted_while_closing_may_send_one_request_soon() -> None:
    connection = FedConnection(Echo())
    connection.server.stop_accepting()
    late = FakeTransport(connection.server.new_connection())
    late.protocol.connection_made(late)
    silent = FakeTransport(connection.server.new_connection())
    silent.protocol.connection_made(silent)
    await asyncio.sleep(1.9)
    late.protocol.data_received(GET)
    await asyncio.sleep(0.2)
    assert b"connection: close" in late.written
    assert late.closed
    assert silent.closed
    assert silent.written == b""
    assert await connection.server.wait_idle(1) == 0


@in_virtual_time
async def test_an_early_answer_still_on_its_way_is_not_cut_by_the_linger_time() -> None:
    async def early(scope: Scope, receive: Any, send: Any) -> None:
        exchange_of(scope).respond(401, b"", b"x" * 1000)

    connection = FedConnection(early, holds_back=True)
    connection.feed(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n")
    await asyncio.sleep(30)
    assert connection.transport.eof_written
    assert not connection.transport.aborted
    connection.transport.take(2000)
    await asyncio.sleep(2)
    assert connection.transport.aborted


async def test_a_lost_connection_wakes_every_waiter_once() -> None:
    reasons: list[Reason] = []
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(reasons.append)
        exchange.start(200, b"")
        exchange.write(b"x" * 100_000)
        await exchange.wait_writable()
        exchange.on_disconnect(reasons.append)
        assert await receive() == {"type": "http.disconnect"}
        with pytest.raises(OSError, match="client_gone"):
            await send({"type": "http.response.body", "body": b""})
        exchange.write(b"ignored")
        exchange.finish()
        ended.set()

    connection = FedConnection(app, holds_back=True)
    connection.feed(GET)
    await connection.settle()
    connection.protocol.connection_lost(None)
    await connection.settle()
    assert ended.is_set()
    assert reasons == ["client_gone", "client_gone"]  # the second hook was set when the client had left
    assert b"ignored" not in connection.transport.written
    assert connection.server.active_requests == 0


async def test_a_bad_body_cuts_an_answer_that_has_begun() -> None:
    reasons: list[Reason] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(reasons.append)
        exchange.start(200, b"")
        exchange.write(b"part")
        await exchange.read_body()

    connection = FedConnection(app)
    connection.feed(b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
    await connection.settle()
    connection.feed(b"zz\r\n")
    raw = await connection.settle()
    assert raw.endswith(b"4\r\npart\r\n")
    assert connection.transport.aborted
    assert reasons == ["client_fault"]


async def test_a_transport_that_cannot_half_close_is_closed_after_a_refusal() -> None:
    connection = FedConnection(Echo())
    connection.transport.can_write_eof = lambda: False  # type: ignore[method-assign]
    connection.feed(REFUSED["two hosts"])
    await connection.settle()
    assert connection.status == 400
    assert connection.transport.closed
    assert not connection.transport.eof_written


async def test_a_failing_hook_does_not_stop_the_cleanup(caplog: pytest.LogCaptureFixture) -> None:
    def fail(reason: Reason) -> None:
        raise ValueError("secret-text")

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange_of(scope).on_disconnect(fail)
        await receive()
        await receive()

    connection = FedConnection(app)
    connection.feed(GET)
    await connection.settle()
    connection.protocol.connection_lost(None)
    await connection.settle()
    assert connection.server.active_requests == 0
    assert "ValueError" in caplog.text
    assert "secret-text" not in caplog.text


async def test_an_error_of_ours_in_a_callback_is_not_answered_as_the_clients_fault() -> None:
    connection = FedConnection(Echo())
    connection.protocol.limits = SimpleNamespace(max_head_bytes=65_536)  # type: ignore[assignment]
    with pytest.raises(httptools.HttpParserCallbackError):
        connection.feed(GET)
    assert connection.status == 0
