"""A gateway listener on a loopback port, a recording application, and a client that speaks raw bytes."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httptools

from tidegate.gateway.exchange import App, Direct, Exchange, Reason, Scope, exchange_of
from tidegate.gateway.listener import GatewayServer
from tidegate.gateway.server_limits import ServerLimits

PATIENCE_S = 10.0
"""Bound of every wait in these suites: only a broken server reaches it."""


@dataclass
class Seen:
    """One request as the application saw it."""

    method: str
    path: str
    query: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Echo:
    """Application that records each request and answers with the length of its body, over the direct path."""

    seen: list[Seen] = field(default_factory=list)
    started: int = 0
    gone: list[Reason] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        self.started += 1
        exchange.on_disconnect(self.gone.append)
        body = await exchange.read_body()
        self.seen.append(
            Seen(scope["method"], scope["path"], scope["query_string"], list(scope["headers"]), body)
        )
        exchange.respond(200, b"content-type: text/plain\r\n", b"%d" % len(body))


@dataclass
class Held:
    """Application that reports its exchange and waits until the test lets it go on."""

    exchanges: asyncio.Queue[Exchange] = field(default_factory=asyncio.Queue)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    reasons: asyncio.Queue[Reason] = field(default_factory=asyncio.Queue)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        exchange = exchange_of(scope)
        exchange.on_disconnect(self.reasons.put_nowait)
        await exchange.read_body()
        self.exchanges.put_nowait(exchange)
        await self.release.wait()
        if not exchange.answered:
            exchange.respond(200, b"", b"held")


@dataclass
class Answer:
    """One parsed HTTP answer."""

    status: int
    fields: dict[str, str]
    body: bytes


class _AnswerParser:
    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.complete = 0
        self.parser = httptools.HttpResponseParser(self)
        self._fields: dict[str, str] = {}
        self._body = bytearray()

    def on_message_begin(self) -> None:
        self._fields = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.answers.append(Answer(self.parser.get_status_code(), self._fields, b""))
        self._body = bytearray()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.answers[-1].body = bytes(self._body)
        self.complete += 1


class RawClient:
    """A TCP client that sends exactly the bytes it is told to."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._parser = _AnswerParser()
        self._taken = 0

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.sock, data)

    async def send_bytewise(self, data: bytes) -> None:
        """One byte per segment, giving the server a turn after each."""
        for index in range(len(data)):
            await self._loop.sock_sendall(self.sock, data[index : index + 1])
            await asyncio.sleep(0)

    async def receive(self, size: int = 65536) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self._loop.sock_recv(self.sock, size)

    async def read_to_end(self) -> bytes:
        """Everything until the server's FIN or reset."""
        parts: list[bytes] = []
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while part := await self.receive():
                parts.append(part)
        return b"".join(parts)

    async def answer(self) -> Answer:
        """The next whole answer."""
        while self._parser.complete <= self._taken:
            part = await self.receive()
            if not part:
                raise ConnectionError("closed before a whole answer")
            self._parser.parser.feed_data(part)
        self._taken += 1
        return self._parser.answers[self._taken - 1]

    async def is_closed_by_server(self) -> bool:
        return await self.read_to_end() == b""

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


@dataclass
class Running:
    """A started listener and what was connected to it."""

    server: GatewayServer
    port: int
    clients: list[RawClient] = field(default_factory=list)

    async def connect(self, prepare: Callable[[socket.socket], None] | None = None) -> RawClient:
        """A new client; `prepare` may set socket options before it connects."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if prepare is not None:
            prepare(sock)
        client = RawClient(sock)
        self.clients.append(client)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return client


def listening_socket() -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    return sock


@contextlib.asynccontextmanager
async def running(
    app: App, limits: ServerLimits | None = None, direct: Direct | None = None
) -> AsyncIterator[Running]:
    """A listener on an ephemeral loopback port; everything is cut at the end."""
    sock = listening_socket()
    port: int = sock.getsockname()[1]
    server = GatewayServer(app, limits or ServerLimits(), direct=direct)
    await server.start([sock])
    run = Running(server, port)
    try:
        yield run
    finally:
        for client in run.clients:
            client.close()
        server.close_all()
        await server.wait_idle(PATIENCE_S)
