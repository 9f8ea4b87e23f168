"""The tenant listener's HTTP protocol: uvicorn's, with bounds, deadlines and a cancel hook per request."""

import asyncio
import socket
from collections.abc import Callable

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from tidegate.gateway import refusals
from tidegate.gateway.exchange import EXTENSION, App, Direct, Exchange, Reason, Scope
from tidegate.gateway.refusals import Refusal
from tidegate.gateway.request_head import RequestHead, read_head
from tidegate.gateway.seen_heads import SeenHeads
from tidegate.gateway.server_limits import ServerLimits

_IDLE, _HEAD, _BODY = range(3)
_ASGI = {"version": "3.0", "spec_version": "2.4"}


class ListenerState(ServerState):
    """What the connections of one listener share."""

    def __init__(self, limits: ServerLimits, id_line: Callable[[], bytes]) -> None:
        super().__init__()
        self.id_line = id_line
        self.exchanges: set[Exchange] = set()
        self.draining = False
        self.closing = False
        self.date_line = b""
        self.quiet: asyncio.Event | None = None
        self.heads = SeenHeads(limits.max_body_bytes)
        self.held_body_bytes = 0

    def is_quiet(self) -> bool:
        """No request runs and no answer waits to be taken."""
        return not self.exchanges and not self.connections

    def note_end(self) -> None:
        """A request or a connection ended: wake who waits for the last."""
        if self.quiet is not None and self.is_quiet():
            self.quiet.set()


class _StopParsing(Exception):
    """Raised inside a parser callback: the rest of the input must not be parsed."""


class GatewayProtocol(HttpToolsProtocol):
    """One client connection. One request at a time: a pipelined successor is not parsed, the connection
    closes after the answer (reading goes on, so that a vanished client is always noticed)."""

    parser: httptools.HttpRequestParser

    def __init__(
        self,
        config: Config,
        state: ListenerState,
        app: App,
        direct: Direct | None,
        limits: ServerLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, state, {}, loop)
        self.gateway_app = app
        self.gateway_direct = direct
        self.limits = limits
        self.listener = state
        self.exchange: Exchange | None = None
        self.write_paused = False
        self.written_while_paused = 0
        self.url = b""
        self._state = _IDLE
        self._deaf = False
        self._read_paused = False
        self._refusal: Refusal | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._raw_body_bytes = 0
        self._ignored_bytes = 0
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._untaken_bytes = 0

    # --- transport callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.connections.add(self)
        limits = self.limits
        if len(self.connections) > limits.max_connections:
            self._refuse(refusals.TOO_MANY_CONNECTIONS)
            return
        transport.set_write_buffer_limits(high=limits.write_high_water_bytes)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio misses accepted sockets
        self.server = get_local_addr(transport)
        self.client = get_remote_addr(transport)
        self._idle_since = self.loop.time()
        self._idle_timer = self.loop.call_later(self._keep_alive_s(), self._check_idle)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._ignore(len(data))
            return
        budget = self.limits.max_head_bytes - self._head_bytes
        if self._state == _BODY:
            self._raw_body_bytes += len(data)
            self._feed(data)
        elif self._state == _IDLE and self.exchange is None:
            self._begin_message(data, budget)
        else:
            self._feed_head(data, budget)
        if self._state and not self._deaf:
            self._watch_input(len(data))

    def eof_received(self) -> None:
        # A half-closed client cannot be told from one that left: both end the request, as in Go and nginx.
        if self.exchange is not None:
            self.exchange.lost("client_gone")

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        if self.exchange is not None:
            self.exchange.lost("client_gone")
            self.exchange = None
        self._deaf = True
        self.write_paused = False
        self._hold_untaken(0)
        self._end_deadline()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        del self.parser  # it holds our bound methods: a cycle
        self.listener.note_end()

    def pause_writing(self) -> None:
        self.write_paused = True
        self.written_while_paused = 0
        size = self.transport.get_write_buffer_size()
        self._hold_untaken(size)
        self._stall_timer = self.loop.call_later(
            self.limits.client_stall_s / 4, self._check_stall, size, 0, self.loop.time()
        )

    def resume_writing(self) -> None:
        self.write_paused = False
        self._hold_untaken(0)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        if self.exchange is not None:
            self.exchange.wake_writer()

    def _hold_untaken(self, size: int) -> None:
        """Bytes of an answer that wait for a client that is slow count as bodies do."""
        self.listener.held_body_bytes += size - self._untaken_bytes
        self._untaken_bytes = size

    # --- parser callbacks

    def on_message_begin(self) -> None:
        if self.exchange is not None:
            raise _StopParsing  # pipelined: `_stopped` sees that the current message is complete
        self._state = _HEAD
        self._head_bytes = 0
        self.url = b""
        self.headers = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state == _HEAD:  # later fields are trailers: dropped, or they could add to a judged head
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = self.parser
        version = parser.get_http_version()
        head = read_head(parser.get_method(), version, self.url, self.headers, self.limits)
        if isinstance(head, Refusal):
            self._refusal = head
            raise _StopParsing
        if parser.should_upgrade():
            return  # the parser would drop the body: `_replay_without_upgrade` reads this head once more
        self._end_deadline()
        self._state = _BODY
        self._body_bytes = self._raw_body_bytes = 0
        self._accept(head, version, keep_alive=version == "1.1" and parser.should_keep_alive())

    def _accept(self, head: RequestHead, version: str, *, keep_alive: bool) -> Exchange:
        """Hand the request to the application; its body may still come."""
        exchange = Exchange(self, head, version_10=version == "1.0", keep_alive=keep_alive)
        self.exchange = exchange
        self.listener.exchanges.add(exchange)
        exchange.task = self.loop.create_task(exchange.run(self.gateway_app, self.gateway_direct))
        return exchange

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self.limits.max_body_bytes:
            self._refusal = refusals.BODY_TOO_LARGE
            raise _StopParsing
        if self.exchange is not None and not self._hold(self.exchange, body):
            self._refusal = refusals.BODIES_TOO_MANY
            raise _StopParsing

    def _hold(self, exchange: Exchange, body: bytes) -> bool:
        """Take part of a body; False when all requests together hold too much already."""
        listener, limits = self.listener, self.limits
        if listener.held_body_bytes + len(body) > limits.max_held_body_bytes:
            return False
        listener.held_body_bytes += len(body)
        exchange.take_body(body, limits.read_high_water_bytes)
        return True

    def on_message_complete(self) -> None:
        if self._state == _BODY:
            self._state = _IDLE
            self._head_bytes = 0
            self._end_deadline()
            if self.exchange is not None:
                self.exchange.end_body()

    # --- for the exchange

    @property
    def date_line(self) -> bytes:
        return self.listener.date_line

    def id_line(self) -> bytes:
        return self.listener.id_line()

    def scope_of(self, exchange: Exchange) -> Scope:
        """The request as ASGI has it."""
        head = exchange.head
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": exchange.version,
            "server": self.server,
            "client": self.client,
            "scheme": "http",
            "root_path": "",
            "method": head.method,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "headers": head.fields,
            "state": {},
            "extensions": {EXTENSION: exchange},
        }

    def may_keep_alive(self) -> bool:
        """False when the request is not read to its end, or nothing more will be read here."""
        return self._state == _IDLE and not self._deaf and not self.listener.draining

    def pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def exchange_answered(self, exchange: Exchange) -> None:
        """The answer's last byte was handed to the transport."""
        self.listener.total_requests += 1
        self.exchange = None
        if self.transport.is_closing():
            return
        self.resume_reading()
        if self._deaf or self._state != _IDLE:
            self._close_softly()
        elif not exchange.keep_alive:
            self._close()
        else:
            self._idle_since = self.loop.time()

    def exchange_ended(self, exchange: Exchange) -> None:
        """The application's coroutine for this request has ended."""
        self.listener.exchanges.discard(exchange)
        exchange.release_body()
        self.listener.note_end()

    def body_released(self, size: int) -> None:
        """So many bytes of a body are held no longer."""
        self.listener.held_body_bytes -= size

    def abort(self, reason: Reason) -> None:
        """Cut the connection: the client sees an answer without an end."""
        if self.exchange is not None:
            self.exchange.lost(reason)
        self._deaf = True
        self.transport.abort()

    def shutdown(self) -> None:
        """Close when idle; a request that runs or arrives is answered first (`may_keep_alive`)."""
        if self.exchange is not None:
            self.exchange.keep_alive = False
        elif self._state == _IDLE and not self._deaf:
            self._close()

    # --- input

    def _begin_message(self, data: bytes, budget: int) -> None:
        """Bytes where a message begins: often a whole request whose head was seen before."""
        seen = self.listener.heads.find(data)
        if seen is not None:
            head, body = seen
            exchange = self._accept(head, "1.1", keep_alive=True)
            if body and not self._hold(exchange, body):
                self._refuse(refusals.BODIES_TOO_MANY)
                return
            exchange.end_body()
            return
        self._feed_head(data, budget)
        begun = self.exchange
        if begun is not None and self._state == _IDLE and begun.keep_alive and not self._deaf:
            self.listener.heads.learn(data, begun.head)

    def _feed_head(self, data: bytes, budget: int) -> None:
        """Parse, but never more than `budget` bytes that belong to a head."""
        if len(data) <= budget:
            self._feed(data)
            return
        self._feed(data[:budget])
        if self._state == _HEAD:
            self._refuse(refusals.HEAD_TOO_LARGE)
        elif not self._deaf:
            self._feed(data[budget:])

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._replay_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._stopped(error)

    def _replay_without_upgrade(self, rest: bytes) -> None:
        """Parse the checked head once more without its Upgrade field, then what followed it."""
        method = self.parser.get_method()
        lines = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        head = b"%b %b HTTP/1.1\r\n%b\r\n" % (method, self.url, b"".join(lines))
        self.parser = httptools.HttpRequestParser(self)
        self._state = _IDLE
        self._feed(head)
        if not self._deaf and rest:
            self._feed(rest)

    def _stopped(self, error: httptools.HttpParserError) -> None:
        """The parser stopped: by our refusal, at a pipelined message or stray bytes, or at a fault."""
        cause = error.__context__
        if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(cause, _StopParsing):
            raise error
        if self._refusal is not None:
            self._refuse(self._refusal)
        elif self.exchange is not None and self._state == _IDLE:
            self.exchange.keep_alive = False
            self._deaf = True
        else:
            self._refuse(refusals.MALFORMED)

    def _watch_input(self, size: int) -> None:
        """After a read that left a message unfinished: count it, and arm the deadline of its part."""
        if self._state == _HEAD:
            self._head_bytes += size
            if self._deadline is None:
                self._deadline = self.loop.call_later(self.limits.header_deadline_s, self._late)
            return
        # Chunk extensions, trailers and one-byte chunks cost bytes that never reach `on_body`.
        if self._raw_body_bytes > 8 * self._body_bytes + self.limits.max_head_bytes:
            self._refuse(refusals.MALFORMED)
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.body_deadline_s, self._late)

    def _late(self) -> None:
        self._deadline = None
        if self._state == _HEAD:
            self._refuse(refusals.HEAD_LATE)
        elif self._read_paused:  # the application is late, not the client
            self._deadline = self.loop.call_later(self.limits.body_deadline_s, self._late)
        elif self._state == _BODY:
            self._refuse(refusals.BODY_LATE)

    def _ignore(self, size: int) -> None:
        """Input behind a pipelined message or a refusal. A flood during an answer ends the request."""
        self._ignored_bytes += size
        if self.exchange is not None and self._ignored_bytes > self.limits.max_head_bytes:
            self.abort("client_fault")

    # --- ends

    def _refuse(self, refusal: Refusal) -> None:
        """Answer by ourselves and close; an answer that has begun is cut instead."""
        exchange = self.exchange
        if exchange is not None:
            if exchange.started:
                self.abort("client_fault")
                return
            exchange.lost("client_fault")
            self.exchange = None
        self._deaf = True
        self.transport.write(refusals.render(refusal, self.url, lines=self.listener.id_line()))
        self._close_softly()

    def _close_softly(self) -> None:
        """Send FIN but keep reading for a while: closing with unread input would reset the connection and
        could take the answer from the client."""
        self._deaf = True
        self._end_deadline()
        self.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._linger(self.limits.client_stall_s)
        else:
            self._close()

    def _linger(self, left_s: float) -> None:
        """Cut after `linger_s`, but while the answer itself is still on its way only after `left_s`."""
        linger_s = self.limits.linger_s
        self._deadline = self.loop.call_later(linger_s, self._linger_over, left_s - linger_s)

    def _linger_over(self, left_s: float) -> None:
        if left_s > 0 and self.transport.get_write_buffer_size():
            self._linger(left_s)
        else:
            self.transport.abort()

    def _close(self) -> None:
        """Close after what is buffered has left; a client that takes nothing is cut."""
        self._deaf = True
        self._end_deadline()
        if self.transport.get_write_buffer_size():
            self._deadline = self.loop.call_later(self.limits.client_stall_s, self.transport.abort)
        self.transport.close()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _keep_alive_s(self) -> float:
        # Accepted by the kernel just before we closed the listener: its request may still be on the way.
        return self.limits.linger_s if self.listener.closing else self.limits.keep_alive_s

    def _check_idle(self) -> None:
        """One lazy timer per connection instead of one per request."""
        wait_s = self._keep_alive_s()
        if self.exchange is None and self._state == _IDLE:
            wait_s -= self.loop.time() - self._idle_since
            if wait_s <= 0:
                if self.transport.get_write_buffer_size():
                    self.transport.abort()
                else:
                    self._close()
                return
        self._idle_timer = self.loop.call_later(wait_s, self._check_idle)

    def _check_stall(self, start_bytes: int, taken_bytes: int, since: float) -> None:
        """While the client's buffer is full: has it taken anything since the last look?"""
        now = self.loop.time()
        taken = start_bytes + self.written_while_paused - self.transport.get_write_buffer_size()
        if taken > taken_bytes:
            since = now
        elif now - since >= self.limits.client_stall_s:
            self.abort("client_slow")
            return
        self._stall_timer = self.loop.call_later(
            self.limits.client_stall_s / 4, self._check_stall, start_bytes, taken, since
        )
