"""One request and its answer as the application sees them: ASGI `receive`/`send`, and a direct path.

The direct path (`read_body`, `respond`, `start`/`write`/`finish`) is what the model endpoints use: no message
dictionaries, head and first bytes in one write. Both paths share the cancel hook and the back-pressure.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from io import BytesIO
from typing import Any, Literal, Protocol, cast

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from tidegate.gateway import refusals
from tidegate.gateway.boundary import report
from tidegate.gateway.request_head import RequestHead

Reason = Literal["client_gone", "client_slow", "client_fault", "server_fault", "draining", "shutdown"]
"""Why a request is cancelled from below: connection lost; client took no byte for too long; client broke the
protocol after the head; the answer was not as promised; draining (the client still listens); closing now."""

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Direct = Callable[["Exchange"], Awaitable[None] | None]
"""Serves a request without ASGI's dictionaries; None: it is one for the ASGI application."""

GATHER_FROM_BYTES = 256 * 1024
"""From here on a body that is read whole is gathered in one block."""
EXTENSION = "tidegate.exchange"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BAD_FIELD = re.compile(rb"[\x00\r\n]")


class ClientGone(OSError):
    """The client can no longer be answered; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Connection(Protocol):
    """What an exchange needs of its connection."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    write_paused: bool
    written_while_paused: int

    @property
    def date_line(self) -> bytes: ...
    def id_line(self) -> bytes: ...
    def scope_of(self, exchange: "Exchange") -> Scope: ...
    def may_keep_alive(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def exchange_answered(self, exchange: "Exchange") -> None: ...
    def exchange_ended(self, exchange: "Exchange") -> None: ...
    def body_released(self, size: int) -> None: ...
    def abort(self, reason: Reason) -> None: ...


def exchange_of(scope: MutableMapping[str, Any]) -> "Exchange":
    """The exchange behind an ASGI scope of this server."""
    return cast("Exchange", scope["extensions"][EXTENSION])


class Exchange:
    """State of one request and its answer on one connection."""

    __slots__ = (
        "_chunked",
        "_chunks",
        "_connection",
        "_delivered",
        "_expect_continue",
        "_gathered",
        "_head",
        "_head_only",
        "_hook",
        "_remaining",
        "_unread",
        "_version_10",
        "_waiter",
        "_wants_all",
        "_writable",
        "answered",
        "body_bytes",
        "body_complete",
        "gone",
        "head",
        "keep_alive",
        "started",
        "task",
    )

    def __init__(
        self, connection: Connection, head: RequestHead, *, version_10: bool, keep_alive: bool
    ) -> None:
        self.head = head
        self._connection = connection
        self._head_only = head.method == "HEAD"
        self._version_10 = version_10
        self._expect_continue = head.expect_continue
        self._chunks: list[bytes] = []
        self._gathered: BytesIO | None = None
        self._unread = 0
        self._wants_all = False
        self._delivered = False
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._hook: Callable[[Reason], None] | None = None
        self._head = b""
        self._chunked = False
        self._remaining = -1
        self.keep_alive = keep_alive
        self.body_bytes = 0
        self.body_complete = False
        self.started = False
        self.answered = False
        self.gone: Reason | None = None
        self.task: asyncio.Task[None] | None = None

    # --- called by the connection

    def take_body(self, data: bytes, high_water_bytes: int) -> None:
        """Body bytes from the wire; pauses reading above the high-water mark unless all is wanted."""
        self._unread += len(data)
        self.body_bytes += len(data)
        if self._gathered is not None:
            self._gathered.write(data)
            return
        self._chunks.append(data)
        if self._wants_all:
            if self._unread > GATHER_FROM_BYTES:
                self._gather()
        else:
            if self._unread > high_water_bytes:
                self._connection.pause_reading()
            if self._waiter is not None:
                self._wake()

    def end_body(self) -> None:
        """The last body byte was taken."""
        self.body_complete = True
        if self._waiter is not None:
            self._wake()

    def lost(self, reason: Reason) -> None:
        """The client cannot be answered any more: wake everyone, run the cancel hook."""
        if self.gone is not None or self.answered:
            return
        self.gone = reason
        self._wake()
        self.wake_writer()
        self.cancel(reason)

    def cancel(self, reason: Reason) -> None:
        """Run the cancel hook (once per request); the client may still be listening."""
        hook, self._hook = self._hook, None
        if hook is not None:
            try:
                hook(reason)
            except Exception as error:  # noqa: BLE001 - a hook must not take the event loop's callback down
                report("cancel hook failed", error)

    def wake_writer(self) -> None:
        """The transport's buffer fell below its low-water mark, or the client is gone."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def run(self, app: App, direct: Direct | None) -> None:
        """Run the application for this request and make sure that the client gets an end."""
        try:
            serving = None if direct is None else direct(self)
            if serving is None:
                serving = app(self._connection.scope_of(self), self.receive, self.send)
            await serving
            if not self.answered and self.gone is None:
                report("application returned without a complete answer")
        except Exception as error:  # noqa: BLE001 - the boundary: whatever failed, the client gets an end
            if self.gone is None or not isinstance(error, ClientGone | ClientDisconnect):
                report("application failed", error)
        finally:
            self._give_up()
            self._connection.exchange_ended(self)

    # --- the direct path

    @property
    def version(self) -> str:
        """Of HTTP, as the client speaks it."""
        return "1.0" if self._version_10 else "1.1"

    def on_disconnect(self, hook: Callable[[Reason], None]) -> None:
        """Set the cancel hook: called once, in the event loop, when the client cannot be answered any more
        or when we drain; at once when the client is gone already."""
        self._hook = hook
        if self.gone is not None:
            self.cancel(self.gone)

    def on_cancel(self, hook: Callable[[Reason], None]) -> None:
        """Set the cancel hook once more, for a request that goes on though its client is gone."""
        self._hook = hook

    @property
    def write_paused(self) -> bool:
        """True while more than the high-water mark waits for the client: pause reading upstream."""
        return self._connection.write_paused

    async def wait_writable(self) -> None:
        """Return when the client has taken enough, or is gone (see `gone`)."""
        while self._connection.write_paused:
            if self.gone is not None:
                return
            if self._writable is None or self._writable.done():
                self._writable = self._connection.loop.create_future()
            await self._writable

    async def read_body(self) -> bytes:
        """The whole request body (bounded by the server's limits). Raises ClientGone."""
        self._wants_all = True
        if not self.body_complete:
            self._ask_for_body()
        while self.gone is None:
            if self.body_complete:
                self._delivered = True
                return self._take_chunks()
            if self.answered:
                raise RuntimeError("the body cannot be read after the answer")
            await self._wait()
        raise ClientGone(self.gone)

    def release_body(self) -> None:
        """The body that was read is held by nobody any more: others may be taken in its place."""
        self._connection.body_released(self.body_bytes)
        self.body_bytes = 0

    def start(self, status: int, head: bytes, length: int | None = None) -> None:
        """Begin the answer. `head` is complete header lines, each ending in CRLF, without Date, Connection,
        Content-Length or Transfer-Encoding; `length` is the body's, None for a stream. Nothing is sent before
        the first `write`, `flush` or `finish`."""
        if self.started:
            raise RuntimeError("the answer was started already")
        self.started = True
        connection = self._connection
        if not connection.may_keep_alive():
            self.keep_alive = False
        if status in {204, 304} or status < 200:
            framing = b""
            self._remaining = 0
        elif length is not None:
            framing = b"content-length: %d\r\n" % length
            self._remaining = 0 if self._head_only else length
        elif self._version_10:
            framing = b""
            self.keep_alive = False
        else:
            framing = b"transfer-encoding: chunked\r\n"
            self._chunked = not self._head_only
        close = b"" if self.keep_alive else b"connection: close\r\n"
        self._head = b"%b%b%b%b%b\r\n" % (STATUS_LINE[status], connection.date_line, head, framing, close)

    def write(self, data: bytes) -> None:
        """Send bytes of the body at once, in one write with the head when that has not left yet."""
        if not self.started:
            raise RuntimeError("write before start")
        if self.gone is not None or self.answered or not data:
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._head_only:
            data = b""
        elif self._remaining >= 0:
            self._count(len(data))
        self._put(data)

    def flush(self) -> None:
        """Send the head now, before any body byte is known."""
        if self._head and not self.gone:
            self._put(b"")

    def finish(self, data: bytes = b"") -> None:
        """Send the last bytes and the end of the answer in one write. Raises RuntimeError when the body is
        not as long as promised (the connection is cut, so the client cannot mistake it for whole)."""
        if not self.started:
            raise RuntimeError("finish before start")
        if self.gone is not None or self.answered:
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        elif self._head_only:
            data = b""
        elif self._remaining >= 0:
            self._count(len(data))
            if self._remaining:
                self._connection.abort("server_fault")
                raise RuntimeError(f"the answer is {self._remaining} bytes shorter than its Content-Length")
        self._put(data)
        self._complete()

    def respond(self, status: int, head: bytes, body: bytes) -> None:
        """The whole answer in one write; `head` as in `start`."""
        self.start(status, head, len(body))
        if self._remaining == len(body) and self.gone is None:
            self._put(body)
            self._complete()
        else:
            self.finish(body)

    # --- ASGI

    async def receive(self) -> Message:
        """ASGI: body messages, then `http.disconnect` once the client is gone or the answer complete."""
        waits_for_body = not self._delivered
        if waits_for_body and not (self._chunks or self.body_complete):
            self._ask_for_body()
        while self.gone is None and not self.answered:
            if waits_for_body and (self._chunks or self.body_complete):
                self._delivered = self.body_complete
                body = self._take_chunks()
                return {"type": "http.request", "body": body, "more_body": not self.body_complete}
            await self._wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """ASGI: Raises ClientGone (an OSError, as ASGI 2.4 asks) when the client is gone."""
        if self._connection.write_paused:
            await self.wait_writable()
        if self.gone is not None:
            raise ClientGone(self.gone)
        kind = message["type"]
        if kind == "http.response.start":
            lines, length, close = _render_fields(message.get("headers", ()))
            self.keep_alive = self.keep_alive and not close
            self.start(message["status"], lines, length)
        elif kind != "http.response.body" or not self.started or self.answered:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")
        elif not message.get("more_body", False):
            self.finish(message.get("body", b""))
        elif body := message.get("body", b""):
            self.write(body)
        else:
            self.flush()

    # --- inside

    def _give_up(self) -> None:
        """End an unfinished answer: 500 when nothing was sent yet, else cut (never a success marker)."""
        self._hook = None
        if self.answered or self.gone is not None:
            return
        if self.started and not self._head:
            self._connection.abort("server_fault")
            return
        self._head, self.started, self.keep_alive = b"", True, False
        answer = refusals.render(
            refusals.INTERNAL,
            self.head.raw_path,
            lines=self._connection.id_line(),
            bodyless=self._head_only,
        )
        self._connection.transport.write(answer)
        self._complete()

    def _put(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        connection = self._connection
        if connection.write_paused:
            connection.written_while_paused += len(data)
        connection.transport.write(data)

    def _count(self, size: int) -> None:
        self._remaining -= size
        if self._remaining < 0:
            self._connection.abort("server_fault")
            raise RuntimeError("the answer is longer than its Content-Length")

    def _complete(self) -> None:
        self.answered = True
        self._hook = None
        self._wake()
        self._connection.exchange_answered(self)

    def _ask_for_body(self) -> None:
        if self._expect_continue:
            self._expect_continue = False
            if not self.started and self.gone is None:
                self._connection.transport.write(_CONTINUE)
        self._connection.resume_reading()

    def _take_chunks(self) -> bytes:
        chunks = self._chunks
        if self._gathered is not None:
            body = self._gathered.getvalue()
            self._gathered = None
        else:
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = []
        self._unread = 0
        self._connection.resume_reading()
        return body

    def _gather(self) -> None:
        """Go on in one growing block: its value is taken without a copy, pieces would be there twice when joined."""
        self._gathered = BytesIO()
        self._gathered.writelines(self._chunks)
        self._chunks = []

    async def _wait(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._waiter = self._connection.loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _render_fields(fields: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, int | None, bool]:
    """(header lines, Content-Length, wants close) of ASGI headers; framing fields are ours to write."""
    lines: list[bytes] = []
    length: int | None = None
    close = False
    for name, value in fields:
        if _BAD_FIELD.search(name) or _BAD_FIELD.search(value):
            raise RuntimeError("a response header holds CR, LF or NUL")
        lower = name.lower()
        if lower == b"content-length":
            length = int(value)
        elif lower == b"connection":
            close = b"close" in value.lower()
        elif lower not in {b"transfer-encoding", b"date", b"keep-alive"}:
            lines += (name, b": ", value, b"\r\n")
    return b"".join(lines), length, close
