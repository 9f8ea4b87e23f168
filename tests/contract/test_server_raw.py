"""Raw bytes against the tenant listener: every registered shape is answered or refused as promised."""

import asyncio
import json
import socket
from typing import Any

import pytest

from support.event_loops import on_both_loops
from support.gateway_server import PATIENCE_S, Echo, Held, Running, running
from tidegate.gateway.exchange import Scope, exchange_of
from tidegate.gateway.server_limits import ServerLimits

HOST = b"Host: gateway.test\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
POST = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def get(target: bytes = b"/healthz", *lines: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def post(body: bytes, *lines: bytes) -> bytes:
    head = b"".join(line + b"\r\n" for line in lines)
    return POST + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


# name -> (bytes, status, code). None of them may reach the application, all of them end the connection.
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "host_invalid"),
    "no host in 1.0": (b"GET / HTTP/1.0\r\n\r\n", 400, "host_invalid"),
    "empty host": (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, "host_invalid"),
    "two equal hosts": (GET + HOST + b"\r\n", 400, "host_invalid"),
    "two hosts": (GET + b"host: other.test\r\n\r\n", 400, "host_invalid"),
    "host with query": (b"GET / HTTP/1.1\r\nHost: x/?\r\n\r\n", 400, "host_invalid"),
    "host with fragment": (b"GET / HTTP/1.1\r\nHost: x#\r\n\r\n", 400, "host_invalid"),
    "host with user": (b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, "host_invalid"),
    "host with space": (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "host_invalid"),
    "host list": (b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "host_invalid"),
    "host with long port": (b"GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n", 400, "host_invalid"),
    "host of raw utf-8": (b"GET / HTTP/1.1\r\nHost: \xc3\xa9.test\r\n\r\n", 400, "host_invalid"),
    "obs-fold": (GET + b"X-A: b\r\n c\r\n\r\n", 400, "malformed_request"),
    "obs-fold with tab": (GET + b"X-A: b\r\n\tc\r\n\r\n", 400, "malformed_request"),
    "fold before the first field": (b"GET / HTTP/1.1\r\n " + HOST + b"\r\n", 400, "malformed_request"),
    "space before colon": (GET + b"X-A : b\r\n\r\n", 400, "malformed_request"),
    "empty name": (GET + b": b\r\n\r\n", 400, "malformed_request"),
    "no colon": (GET + b"abc\r\n\r\n", 400, "malformed_request"),
    "NUL in value": (GET + b"X-A: b\0c\r\n\r\n", 400, "malformed_request"),
    "control in value": (GET + b"X-A: b\x01c\r\n\r\n", 400, "malformed_request"),
    "bare CR in value": (GET + b"X-A: b\rX-B: c\r\n\r\n", 400, "malformed_request"),
    "bare LF": (b"GET / HTTP/1.1\nHost: a\n\n", 400, "malformed_request"),
    "length and coding": (
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "malformed_request",
    ),
    "coding and length": (
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        400,
        "malformed_request",
    ),
    "two equal lengths": (
        POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        400,
        "malformed_request",
    ),
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, "malformed_request"),
    "length list": (POST + b"Content-Length: 3, 3\r\n\r\nabc", 400, "malformed_request"),
    "signed length": (POST + b"Content-Length: +3\r\n\r\nabc", 400, "malformed_request"),
    "negative length": (POST + b"Content-Length: -3\r\n\r\nabc", 400, "malformed_request"),
    "hex length": (POST + b"Content-Length: 0x3\r\n\r\nabc", 400, "malformed_request"),
    "empty length": (POST + b"Content-Length:\r\n\r\n", 400, "malformed_request"),
    "overflowing length": (
        POST + b"Content-Length: 99999999999999999999\r\n\r\n",
        400,
        "malformed_request",
    ),
    "gzip then chunked": (
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        400,
        "framing_invalid",
    ),
    "identity coding": (POST + b"Transfer-Encoding: identity\r\n\r\nabc", 400, "framing_invalid"),
    "almost chunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "framing_invalid"),
    "chunked twice": (
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "malformed_request",
    ),
    "vertical tab before coding": (
        POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        400,
        "malformed_request",
    ),
    "chunked in 1.0": (
        b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "framing_invalid",
    ),
    "foreign absolute target": (
        b"GET http://other.test/ HTTP/1.1\r\n" + HOST + b"\r\n",
        400,
        "target_invalid",
    ),
    "absolute target with user": (
        b"GET http://u@gateway.test/ HTTP/1.1\r\n" + HOST + b"\r\n",
        400,
        "target_invalid",
    ),
    "absolute target of another scheme": (
        b"GET ftp://gateway.test/ HTTP/1.1\r\n" + HOST + b"\r\n",
        400,
        "target_invalid",
    ),
    "asterisk target": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400, "target_invalid"),
    "fragment in target": (get(b"/healthz#x"), 400, "target_invalid"),
    "encoded NUL in target": (get(b"/healthz%00"), 400, "target_invalid"),
    "encoded CRLF in target": (get(b"/healthz%0d%0aX:y"), 400, "target_invalid"),
    "raw utf-8 in target": (get(b"/\xc3\xa9"), 400, "malformed_request"),
    "space in target": (get(b"/a b"), 400, "malformed_request"),
    "CONNECT": (b"CONNECT gateway.test:443 HTTP/1.1\r\n" + HOST + b"\r\n", 501, "method_not_supported"),
    "TRACE": (b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n", 501, "method_not_supported"),
    "invented method": (b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n", 400, "malformed_request"),
    "lower-case method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400, "malformed_request"),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505, "version_not_supported"),
    "HTTP/2.0 in text": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505, "version_not_supported"),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 400, "malformed_request"),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "malformed_request"),
    "unknown expectation": (
        POST + b"Expect: 200-ok\r\nContent-Length: 3\r\n\r\n",
        417,
        "expectation_unknown",
    ),
    "responses by upgrade": (
        get(b"/v1/responses", b"Connection: Upgrade", b"Upgrade: websocket"),
        426,
        "upgrade_not_supported",
    ),
    "responses by bare upgrade field": (
        get(b"/v1/responses", b"Upgrade: websocket"),
        426,
        "upgrade_not_supported",
    ),
    "too many fields": (GET + b"X-A: b\r\n" * 100 + b"\r\n", 431, "too_many_headers"),
    "one endless field": (GET + b"X-A: " + b"b" * 65_536 + b"\r\n\r\n", 431, "headers_too_large"),
    "endless padding": (GET + b"X-A: " + b" " * 65_536 + b"b\r\n\r\n", 431, "headers_too_large"),
    "endless target": (get(b"/" + b"a" * 65_536), 431, "headers_too_large"),
    "hundred thousand fields": (GET + b"X-A: b\r\n" * 100_000 + b"\r\n", 431, "headers_too_large"),
    "announced body too large": (
        POST + b"Content-Length: 33554433\r\n\r\n",
        413,
        "body_too_large",
    ),
}

# Bodies that turn out to be wrong after the application was called: it must never see them as complete.
REFUSED_IN_BODY: dict[str, tuple[bytes, int, str]] = {
    "chunk size of garbage": (CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n", 400, "malformed_request"),
    "signed chunk size": (CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n", 400, "malformed_request"),
    "prefixed chunk size": (CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n", 400, "malformed_request"),
    "space after chunk size": (CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n", 400, "malformed_request"),
    "overflowing chunk size": (CHUNKED + b"fffffffffffffffff\r\nabc", 400, "malformed_request"),
    "chunk longer than said": (CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", 400, "malformed_request"),
    "bare LF after chunk size": (CHUNKED + b"3\nabc\n0\n\n", 400, "malformed_request"),
    "folded trailer": (CHUNKED + b"0\r\nX: y\r\n z\r\n\r\n", 400, "malformed_request"),
    "endless chunk extension": (CHUNKED + b"3;" + b"x" * 400_000, 400, "malformed_request"),
    "endless trailers": (CHUNKED + b"3\r\nabc\r\n0\r\n" + b"X: y\r\n" * 70_000, 400, "malformed_request"),
    "chunked body too large": (
        CHUNKED + b"100000\r\n" + b"x" * 0x100000 + b"\r\n1\r\nx\r\n0\r\n\r\n",
        413,
        "body_too_large",
    ),
}

# name -> (bytes, method, path, body): all must reach the application, and leave the connection usable.
ACCEPTED: dict[str, tuple[bytes, str, str, bytes]] = {
    "plain get": (get(), "GET", "/healthz", b""),
    "body by length": (post(b'{"a":1}'), "POST", "/v1/chat/completions", b'{"a":1}'),
    "post without a body": (POST + b"\r\n", "POST", "/v1/chat/completions", b""),
    "body in chunks": (
        CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "POST",
        "/v1/chat/completions",
        b"abcde",
    ),
    "chunk extension": (
        CHUNKED + b'3;name="v"\r\nabc\r\n0\r\n\r\n',
        "POST",
        "/v1/chat/completions",
        b"abc",
    ),
    "coding in capitals": (
        POST + b"Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        "POST",
        "/v1/chat/completions",
        b"a",
    ),
    "h2c upgrade": (
        post(b"abc", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAA"),
        "POST",
        "/v1/chat/completions",
        b"abc",
    ),
    "websocket upgrade of a body": (
        post(b"abc", b"Connection: Upgrade", b"Upgrade: websocket"),
        "POST",
        "/v1/chat/completions",
        b"abc",
    ),
    "upgrade of a chunked body": (
        POST
        + b"Connection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST",
        "/v1/chat/completions",
        b"abc",
    ),
    "upgrade of a get": (
        get(b"/v1/models", b"Connection: Upgrade", b"Upgrade: websocket"),
        "GET",
        "/v1/models",
        b"",
    ),
    "absolute target": (
        b"GET http://Gateway.Test/a?b=c HTTP/1.1\r\n" + HOST + b"\r\n",
        "GET",
        "/a",
        b"",
    ),
    "absolute target without a path": (
        b"GET https://gateway.test HTTP/1.1\r\n" + HOST + b"\r\n",
        "GET",
        "/",
        b"",
    ),
    "encoded target": (get(b"/a%20b?x=%00"), "GET", "/a b", b""),
    "IPv6 host": (b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "GET", "/", b""),
    "padded host": (b"GET / HTTP/1.1\r\nHost:\t gateway.test \t\r\n\r\n", "GET", "/", b""),
    "blank lines before": (b"\r\n\r\n" + get(), "GET", "/healthz", b""),
    "ninety-nine fields more": (GET + b"X-A: b\r\n" * 99 + b"\r\n", "GET", "/healthz", b""),
    "head of exactly 64 KiB": (
        GET + b"X-A: " + b"b" * (65_536 - len(GET) - 9) + b"\r\n\r\n",
        "GET",
        "/healthz",
        b"",
    ),
    "head request": (b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n", "HEAD", "/", b""),
}


@pytest.mark.parametrize("name", REFUSED)
@on_both_loops
async def test_a_bad_head_is_refused_and_never_reaches_the_application(name: str) -> None:
    data, status, code = REFUSED[name]
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send(data)
        answer = await client.answer()
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (status, code)
        assert "close" in answer.fields["connection"]
        assert await client.is_closed_by_server()
    assert app.started == 0


@pytest.mark.parametrize("name", REFUSED_IN_BODY)
@on_both_loops
async def test_a_bad_body_is_refused_and_cancels_the_request(name: str) -> None:
    data, status, code = REFUSED_IN_BODY[name]
    app = Echo()
    async with running(app, ServerLimits(max_body_bytes=0x100000)) as run:
        client = await run.connect()
        await client.send(data)
        answer = await client.answer()
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (status, code)
        assert await client.is_closed_by_server()
        assert run.server.active_requests == 0
    assert app.seen == []


@pytest.mark.parametrize("name", ACCEPTED)
@on_both_loops
async def test_a_good_request_arrives_whole_and_the_connection_lives_on(name: str) -> None:
    data, method, path, body = ACCEPTED[name]
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send(data)
        if method == "HEAD":
            assert b"content-length: 1\r\n" in await client.receive()
        else:
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, b"%d" % len(body))
            await client.send(get(b"/next"))
            assert (await client.answer()).status == 200
            assert app.seen[1].path == "/next"
    assert (app.seen[0].method, app.seen[0].path, app.seen[0].body) == (method, path, body)


SPLIT = ["plain get", "body by length", "body in chunks", "h2c upgrade", "absolute target"]


@pytest.mark.parametrize("name", SPLIT)
@on_both_loops
async def test_a_request_sent_byte_by_byte_is_the_same_request(name: str) -> None:
    data, method, path, body = ACCEPTED[name]
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send_bytewise(data)
        assert (await client.answer()).status == 200
    assert [(seen.method, seen.path, seen.body) for seen in app.seen] == [(method, path, body)]


@pytest.mark.parametrize("name", ["two hosts", "obs-fold", "length and coding", "chunked in 1.0"])
@on_both_loops
async def test_a_bad_head_sent_byte_by_byte_is_still_refused(name: str) -> None:
    data, status, _ = REFUSED[name]
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send_bytewise(data)
        assert (await client.answer()).status == status
    assert app.started == 0


@on_both_loops
async def test_names_with_underscore_are_dropped_except_session_id() -> None:
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send(get(b"/", b"X_Forwarded_For: 1", b"Session_Id: s", b"session-id: t", b"a_b: c"))
        await client.answer()
    names = [name for name, _ in app.seen[0].fields]
    assert names == [b"host", b"session_id", b"session-id"]


@on_both_loops
async def test_trailers_never_become_headers() -> None:
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send(CHUNKED + b"1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n")
        assert (await client.answer()).status == 200
    assert [name for name, _ in app.seen[0].fields] == [b"host", b"transfer-encoding"]


@on_both_loops
async def test_errors_of_the_messages_dialect_use_its_envelope() -> None:
    async with running(Echo()) as run:
        client = await run.connect()
        await client.send(b"POST /v1/messages HTTP/1.1\r\n" + HOST + b"Content-Length: 33554433\r\n\r\n")
        envelope = json.loads((await client.answer()).body)
    assert (envelope["type"], envelope["error"]["type"]) == ("error", "request_too_large")


# --- pipelining


@on_both_loops
async def test_a_pipelined_request_is_never_answered_before_or_inside_the_first() -> None:
    app = Held()
    async with running(app) as run:
        client = await run.connect()
        await client.send(post(b"one") + get(b"/two"))
        await app.exchanges.get()
        await client.send(get(b"/three"))
        app.release.set()
        answer = await client.answer()
        assert (answer.status, answer.body, answer.fields["connection"]) == (200, b"held", "close")
        assert await client.is_closed_by_server()
    assert app.exchanges.empty()


@on_both_loops
async def test_stray_bytes_after_a_body_close_the_connection_without_a_second_answer() -> None:
    app = Held()
    async with running(app) as run:
        client = await run.connect()
        await client.send(post(b"one") + b"\x00garbage")
        await app.exchanges.get()
        app.release.set()
        raw = await client.read_to_end()
    assert raw.count(b"HTTP/1.1 ") == 1
    assert raw.endswith(b"held")


@on_both_loops
async def test_a_flood_behind_a_running_request_cancels_it() -> None:
    app = Held()
    async with running(app) as run:
        client = await run.connect()
        await client.send(get() + get())
        await app.exchanges.get()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await client.send(b"x" * (64 << 20))
        async with asyncio.timeout(PATIENCE_S):
            assert await app.reasons.get() == "client_fault"
        app.release.set()


# --- time


@on_both_loops
async def test_a_dripping_head_is_cut_at_its_deadline() -> None:
    async with running(Echo(), ServerLimits(header_deadline_s=0.05)) as run:
        client = await run.connect()
        await client.send(b"GET / HT")
        answer = await client.answer()
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (408, "header_timeout")
        assert await client.is_closed_by_server()


@pytest.mark.parametrize("framing", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
@on_both_loops
async def test_a_dripping_body_is_cut_at_its_deadline_and_the_request_cancelled(framing: bytes) -> None:
    app = Echo()
    async with running(app, ServerLimits(body_deadline_s=0.05)) as run:
        client = await run.connect()
        await client.send(POST + framing + b"\r\n\r\n1\r\n")
        answer = await client.answer()
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (408, "body_timeout")
        assert await client.is_closed_by_server()
    assert (app.started, app.seen, app.gone) == (1, [], ["client_fault"])


@pytest.mark.parametrize("silent", [b"", b"\r\n\r\n"])
@on_both_loops
async def test_a_silent_connection_is_closed_when_the_keep_alive_time_is_over(silent: bytes) -> None:
    async with running(Echo(), ServerLimits(keep_alive_s=0.05)) as run:
        client = await run.connect()
        await client.send(silent)
        assert await client.is_closed_by_server()


@on_both_loops
async def test_an_idle_connection_is_closed_after_its_keep_alive_time() -> None:
    async with running(Echo(), ServerLimits(keep_alive_s=0.05)) as run:
        client = await run.connect()
        await client.send(get())
        assert (await client.answer()).status == 200
        assert await client.is_closed_by_server()


# --- clients that leave


async def _expect_cancel(run: Running, app: Held, leave: Any) -> str:
    client = await run.connect()
    await client.send(post(b"x" * 300_000))
    async with asyncio.timeout(PATIENCE_S):
        await app.exchanges.get()
        leave(client)
        return await app.reasons.get()


@pytest.mark.parametrize("way", ["close", "reset", "half-close"])
@on_both_loops
async def test_a_client_that_leaves_while_the_application_waits_cancels_its_request(way: str) -> None:
    leave = {
        "close": lambda client: client.close(),
        "reset": lambda client: client.reset(),
        "half-close": lambda client: client.sock.shutdown(socket.SHUT_WR),
    }[way]
    app = Held()
    async with running(app) as run:
        assert await _expect_cancel(run, app, leave) == "client_gone"
        app.release.set()


@on_both_loops
async def test_a_client_that_leaves_in_mid_body_wakes_the_reader() -> None:
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send(POST + b"Content-Length: 10\r\n\r\nabc")
        while not app.started:
            await asyncio.sleep(0)
        client.close()
        assert await run.server.wait_idle(PATIENCE_S) == 0
    assert (app.gone, app.seen) == (["client_gone"], [])


class Flood:
    """Application that streams until the client's buffer is full, then waits until it may write or is gone."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.paused = asyncio.Event()
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.start(200, b"content-type: text/event-stream\r\n")
        sent = 0
        while sent < self.total_bytes and exchange.gone is None:
            exchange.write(b"x" * 16_384)
            sent += 16_384
            if exchange.write_paused:
                self.paused.set()
                await exchange.wait_writable()
        exchange.finish()
        self.outcome.set_result(exchange.gone or "answered")


@on_both_loops
async def test_a_client_that_takes_nothing_is_dropped_as_slow() -> None:
    app = Flood(1 << 30)
    async with running(app, ServerLimits(client_stall_s=0.1)) as run:
        client = await run.connect(lambda sock: sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096))
        await client.send(get())
        async with asyncio.timeout(PATIENCE_S):
            assert await app.outcome == "client_slow"


@on_both_loops
async def test_a_paused_answer_goes_on_whole_when_the_client_reads_again() -> None:
    size = 16_384 * 1_000
    app = Flood(size)
    async with running(app) as run:
        client = await run.connect()
        await client.send(get())
        async with asyncio.timeout(PATIENCE_S):
            await app.paused.wait()
            assert len((await client.answer()).body) == size
            assert await app.outcome == "answered"


# --- answers


@on_both_loops
async def test_an_answer_before_the_body_was_read_ends_the_connection_but_arrives() -> None:
    async def refuse(scope: Scope, receive: Any, send: Any) -> None:
        exchange_of(scope).respond(401, b"", b"no")

    async with running(refuse) as run:
        client = await run.connect()
        await client.send(POST + b"Content-Length: 9000000\r\n\r\n" + b"x" * 100_000)
        answer = await client.answer()
        assert (answer.status, answer.body, answer.fields["connection"]) == (401, b"no", "close")
        assert await client.is_closed_by_server()


@on_both_loops
async def test_continue_is_sent_only_when_the_application_wants_the_body() -> None:
    app = Echo()
    async with running(app) as run:
        client = await run.connect()
        await client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert await client.receive() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"abc")
        assert (await client.answer()).body == b"3"


@on_both_loops
async def test_a_final_answer_instead_of_continue_closes() -> None:
    async def refuse(scope: Scope, receive: Any, send: Any) -> None:
        exchange_of(scope).respond(403, b"", b"no")

    async with running(refuse) as run:
        client = await run.connect()
        await client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        raw = await client.read_to_end()
    assert raw.startswith(b"HTTP/1.1 403 ")
    assert b"100 Continue" not in raw


@on_both_loops
async def test_a_1_0_client_gets_a_stream_delimited_by_the_close() -> None:
    async def stream(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.start(200, b"")
        exchange.write(b"one")
        exchange.finish(b"two")

    async with running(stream) as run:
        client = await run.connect()
        await client.send(b"GET / HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n\r\n")
        raw = await client.read_to_end()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert body == b"onetwo"
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head


@on_both_loops
async def test_an_application_that_fails_before_its_answer_gives_a_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(scope: Scope, receive: Any, send: Any) -> None:
        raise ValueError("secret-text")

    async with running(fail) as run:
        client = await run.connect()
        await client.send(get())
        answer = await client.answer()
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "internal_error")
    assert "ValueError" in caplog.text
    assert "secret-text" not in caplog.text


@on_both_loops
async def test_an_application_that_fails_in_its_answer_leaves_it_without_an_end() -> None:
    async def fail(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.start(200, b"")
        exchange.write(b"part")
        await asyncio.sleep(0)
        raise ValueError

    async with running(fail) as run:
        client = await run.connect()
        await client.send(get())
        raw = await client.read_to_end()
    assert not raw.endswith(b"0\r\n\r\n")


@on_both_loops
async def test_the_connection_limit_answers_503_and_frees_places_again() -> None:
    async with running(Echo(), ServerLimits(max_connections=1)) as run:
        first = await run.connect()
        await first.send(get())
        assert (await first.answer()).status == 200
        second = await run.connect()
        assert (await second.answer()).status == 503
        first.close()
        second.close()
        while run.server.open_connections:
            await asyncio.sleep(0)
        third = await run.connect()
        await third.send(get())
        assert (await third.answer()).status == 200


@on_both_loops
async def test_answers_leave_without_waiting_for_more() -> None:
    nodelay: list[int] = []

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        sock = exchange._connection.transport.get_extra_info("socket")
        nodelay.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        exchange.respond(204, b"", b"")

    async with running(app) as run:
        client = await run.connect()
        await client.send(get())
        assert (await client.answer()).status == 204
    assert nodelay == [1]


def test_the_registered_shapes_cover_what_was_promised() -> None:
    assert len(REFUSED) + len(REFUSED_IN_BODY) >= 40


# --- heads that were seen before


@on_both_loops
async def test_a_repeated_head_is_answered_as_the_first_time_however_its_bytes_arrive() -> None:
    async with running(Echo()) as run:
        first, second = await run.connect(), await run.connect()
        for body in (b"one", b"", b"three\r\n\r\n", b"x" * 100_000, b"one"):
            await first.send(post(body))
            assert (await first.answer()).body == b"%d" % len(body)
        await second.send(post(b"one")[:-1])  # not yet whole
        await second.send(b"e")
        assert (await second.answer()).body == b"3"
        await second.send(post(b"two"))
        assert (await second.answer()).body == b"3"
        await second.send(post(b"two") + b"\x00")  # more than it says
        assert (await second.answer()).body == b"3"
        assert await second.is_closed_by_server()


@on_both_loops
async def test_a_repeated_head_may_be_cut_anywhere() -> None:
    whole = post(b"abc")
    async with running(Echo()) as run:
        client = await run.connect()
        for cut in range(1, len(whole), 7):
            await client.send(whole)
            assert (await client.answer()).body == b"3"
            await client.send(whole[:cut])
            await asyncio.sleep(0)
            await client.send(whole[cut:])
            assert (await client.answer()).body == b"3"


# --- bodies held together


@on_both_loops
async def test_bodies_beyond_what_the_gateway_may_hold_are_turned_away() -> None:
    app = Held()
    async with running(app, ServerLimits(max_held_body_bytes=1_000)) as run:
        holding, turned_away, later = await run.connect(), await run.connect(), await run.connect()
        await holding.send(post(b"x" * 800))
        async with asyncio.timeout(PATIENCE_S):
            await app.exchanges.get()
        for _ in range(2):  # the second head is known
            await turned_away.send(post(b"x" * 300))
            answer = await turned_away.answer()
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "overloaded")
            turned_away = await run.connect()
        app.release.set()
        assert (await holding.answer()).status == 200
        await later.send(post(b"x" * 300))
        assert (await later.answer()).status == 200


@on_both_loops
async def test_a_body_that_is_not_needed_any_more_makes_room_before_its_answer_ends() -> None:
    app = Held()
    async with running(app, ServerLimits(max_held_body_bytes=1_000)) as run:
        for _ in range(3):
            await (await run.connect()).send(post(b"x" * 800))
            async with asyncio.timeout(PATIENCE_S):
                exchange = await app.exchanges.get()
            exchange.start(200, b"")
            exchange.release_body()
        app.release.set()


async def answer_at_length(scope: Scope, receive: Any, send: Any) -> None:
    """Forty times the body, in one piece."""
    exchange = exchange_of(scope)
    exchange.respond(200, b"", 400_000 * await exchange.read_body())


@on_both_loops
async def test_answers_that_nobody_takes_count_as_bodies_do() -> None:
    async def turned_away() -> bool:
        client = await run.connect()
        await client.send(post(b"x" * 10))
        return (await client.answer()).status == 503

    async def until(*, full: bool) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await turned_away() is not full:
                await asyncio.sleep(0)

    def small(sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    async with running(answer_at_length, ServerLimits(max_held_body_bytes=9_000_000)) as run:
        slow, gone = await run.connect(small), await run.connect(small)
        await slow.send(post(b"x" * 50))
        await until(full=True)
        assert len((await slow.answer()).body) == 20_000_000
        await until(full=False)
        await gone.send(post(b"x" * 50))
        await until(full=True)
        gone.close()
        await until(full=False)
