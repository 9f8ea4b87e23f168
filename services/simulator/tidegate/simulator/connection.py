"""One HTTP/1.1 connection: parses requests, carries out actions, and ends them when the client leaves."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncGenerator, Callable
from email.utils import formatdate
from typing import cast

import httptools

from tidegate.simulator.actions import Action, Body, Close, End, Head, Headers, Raw, Reset, SimRequest
from tidegate.simulator.framing import LAST_CHUNK, render_body, render_head
from tidegate.simulator.plan import fixed

Handler = Callable[[SimRequest], AsyncGenerator[Action, None]]

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_PIPELINED = 16
_TURN_EVERY = 16
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_RESET = struct.pack("ii", 1, 0)


class Hub:
    """What the connections of one port share: who handles requests, who is connected, and what went wrong."""

    def __init__(self, handle: Handler, keep_alive_s: float, now_s: Callable[[], float]) -> None:
        self.handle = handle
        self.keep_alive_s = keep_alive_s
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.failures: list[BaseException] = []
        self._now_s = now_s
        self._date: tuple[int, bytes] = (0, b"")

    def date(self) -> bytes:
        """The `date` header of this second."""
        second = int(self._now_s())
        if second != self._date[0]:
            self._date = (second, formatdate(second, usegmt=True).encode())
        return self._date[1]

    def finished(self, task: asyncio.Task[None]) -> None:
        """Forget a request's task; an error in the simulator itself is kept and raised when it stops."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    async def drop_all(self) -> None:
        """Reset every connection and wait until every bill is settled."""
        for connection in list(self.connections):
            connection.reset()
        while self.tasks:
            await asyncio.wait(self.tasks)


class Connection(asyncio.Protocol):
    """Requests are answered one after the other; a client that closes ends the running one."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[SimRequest, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._idle_since_s: float | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._pending_head = b""
        self._chunked = False
        self._closing = False
        self._begin()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._hub.connections.add(self)
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest()
        self._check_idle()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Refused when its headers were complete; the parser reads nothing more.
            self._close()
        except httptools.HttpParserError as error:
            self._refuse(400, str(error).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.connections.discard(self)
        self._writable.set()
        if self._idle is not None:
            self._idle.cancel()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # the parser's side

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade():
            # Where the vendor offers a WebSocket, its absence has a status of its own.
            offered = self._url.partition(b"?")[0] == b"/v1/responses"
            self._refuse(426 if offered else 400, b"upgrades are not offered")
        elif (b"expect", b"100-continue") in self._headers and self._task is None:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._size_bytes += len(body)
        if self._size_bytes > MAX_BODY_BYTES:
            self._refuse(413, b"the body is too large")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._closing:
            return
        path, _, query = self._url.partition(b"?")
        request = SimRequest(
            self._parser.get_method().decode("ascii"),
            path.decode("latin-1"),
            query.decode("latin-1"),
            self._headers,
            b"".join(self._body),
        )
        self._waiting.append((request, self._parser.should_keep_alive()))
        if len(self._waiting) > MAX_PIPELINED:
            self._refuse(400, b"too many pipelined requests")
        elif self._task is None:
            self._next()

    # answering

    def reset(self) -> None:
        """RST, dropping what is not sent."""
        self._closing = True
        sock: socket.socket = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self._transport.abort()

    def _begin(self) -> None:
        self._url = b""
        self._headers: Headers = []
        self._body: list[bytes] = []
        self._size_bytes = 0

    def _next(self) -> None:
        if not self._waiting or self._closing:
            self._rest()
            return
        self._idle_since_s = None
        request, keep_alive = self._waiting.popleft()
        self._task = self._loop.create_task(self._answer(request, keep_alive))
        self._hub.tasks.add(self._task)
        self._task.add_done_callback(self._answered)

    def _rest(self) -> None:
        self._idle_since_s = self._loop.time()

    def _check_idle(self) -> None:
        """Close when idle long enough; one timer a connection, not one a request."""
        limit_s = self._hub.keep_alive_s
        idle_s = 0.0 if self._idle_since_s is None else self._loop.time() - self._idle_since_s
        if idle_s >= limit_s:
            self._close()
        else:
            self._idle = self._loop.call_later(limit_s - idle_s, self._check_idle)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._hub.finished(task)
        if task.cancelled() or task.exception() is not None:
            self._transport.abort()
        else:
            self._next()

    async def _answer(self, request: SimRequest, keep_alive: bool) -> None:
        actions = self._hub.handle(request)
        done = 0
        try:
            async for action in actions:
                self._perform(action, keep_alive)
                done += 1
                if not self._writable.is_set():
                    await self._writable.wait()
                elif done % _TURN_EVERY == 0:
                    # A long answer without waits must not keep the loop from seeing that its client left.
                    await asyncio.sleep(0)
        finally:
            await actions.aclose()

    def _perform(self, action: Action, keep_alive: bool) -> None:
        match action:
            case Head():
                self._chunked = action.length is None
                dated = action._replace(headers=[(b"date", self._hub.date()), *action.headers])
                self._pending_head = render_head(dated, close=not keep_alive)
                self._loop.call_soon(self._flush_head)
            case Body(data):
                self._write(render_body(data, chunked=self._chunked))
            case Raw(data):
                self._write(data)
            case End():
                self._write(LAST_CHUNK if self._chunked else b"")
                if not keep_alive:
                    self._close()
            case Close():
                self._close()
            case Reset():
                self._flush_head()
                self.reset()

    def _write(self, data: bytes) -> None:
        head, self._pending_head = self._pending_head, b""
        if (head or data) and not self._transport.is_closing():
            self._transport.write(head + data)

    def _flush_head(self) -> None:
        self._write(b"")

    def _close(self) -> None:
        self._closing = True
        self._flush_head()
        self._transport.close()

    def _refuse(self, status: int, message: bytes) -> None:
        """Answer a request that cannot be read, unless an answer is under way, and close."""
        if self._closing:
            return
        if self._task is None:
            body = b'{"error":{"message":"%b","type":"invalid_request_error"}}' % message
            for action in fixed(status, [], body):
                self._perform(action, keep_alive=False)
        self._close()
