"""A scripted TCP or TLS server: each accepted connection plays its script, byte by byte, faults included."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Self

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.requests: list[bytes] = []
        """Whole requests, head and body, as received."""
        self.over = asyncio.Event()
        """Set when the script has ended: by itself, or because the client left."""

    async def request(self) -> bytes:
        """Read one request (framed by Content-Length) and remember it."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        whole = head + await self._reader.readexactly(length)
        self.requests.append(whole)
        return whole

    async def head(self) -> bytes:
        """Read only the head of a request, leaving its body unread."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def send(self, data: bytes) -> None:
        """Send bytes and wait until the socket has taken most of them."""
        if self._writer.transport.is_closing():
            raise ConnectionResetError  # what asyncio says; uvloop would call it our mistake
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, body: bytes = b"ok", *headers: bytes, status: bytes = b"200 OK") -> None:
        """Send a whole response with Content-Length."""
        await self.send(response(body, *headers, status=status))

    async def gone(self) -> None:
        """Wait until the client has closed or reset the connection; read what it still sends."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while await self._reader.read(65536):
                pass

    async def relay_to(self, port: int) -> None:
        """Pass bytes both ways between this connection and a loopback port, until either side ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(pump(self._reader, writer))
            group.create_task(pump(reader, self._writer))

    def half_close(self) -> None:
        """Send FIN, keep reading."""
        self._writer.write_eof()

    def close(self) -> None:
        """Send what is buffered, then FIN (close_notify before it with TLS)."""
        self._writer.close()

    def reset(self) -> None:
        """Answer with RST: no lingering, everything unsent is lost."""
        if not self._writer.transport.is_closing():
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()

    def shrink_send_buffer(self) -> None:
        """Let little rest in the kernel, so that a stalled reader is noticed early."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)


class RawServer:
    """`async with RawServer(first, second) as server`: connection n plays script n, the last one for ever.

    When a script returns, its connection is closed. A script that raises fails the test on leaving the block,
    unless the client merely went away.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = scripts
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self.peers: list[Peer] = []
        self.port = 0

    @property
    def url(self) -> str:
        """Base URL on the loopback address."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: object, trace: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if kind is None and self._failures:
            raise self._failures[0]

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self._scripts[min(len(self.peers), len(self._scripts) - 1)]
        peer = Peer(reader, writer)
        self.peers.append(peer)
        try:
            await script(peer)
        except asyncio.CancelledError:
            pass  # the test is over
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left in the middle: often the very point of the test
        except Exception as exc:
            self._failures.append(exc)
        finally:
            self._tasks.discard(task)
            peer.over.set()
            writer.transport.abort() if task.cancelling() else writer.close()


def response(body: bytes = b"ok", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole HTTP/1.1 response with Content-Length."""
    lines = b"".join(b"%b\r\n" % header for header in headers)
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, lines, len(body), body)


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    """A whole chunked response."""
    parts = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (parts, trailer)
