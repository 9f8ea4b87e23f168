"""One socket of the outbound client: bytes in and out, the one timer, and who may use it next."""

import asyncio
import select
from math import inf
from typing import Protocol, cast

from tidegate.gateway.outbound.countdown import Expiry
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import (
    ConnectionLost,
    ConnectionStale,
    ExchangeCancelled,
    FirstTokenTimeout,
    HeaderTimeout,
    IdleTimeout,
    ProtocolFault,
    TotalTimeout,
    UpstreamError,
)
from tidegate.gateway.outbound.framing import FramingFault, ResponseReader
from tidegate.gateway.outbound.rest import Pieces, Rest

_EXPIRED: dict[Expiry, type[UpstreamError]] = {
    "total": TotalTimeout,
    "header": HeaderTimeout,
    "first_token": FirstTokenTimeout,
    "idle": IdleTimeout,
}
# Loop clocks tick in milliseconds (uvloop): a timer may ring that much early.
_TICK_S = 0.001


class Home(Protocol):
    """Where a connection returns to: its pool, and the books of open sockets."""

    idle_s: float
    """How long an idle connection is kept, at most."""

    def give_back(self, connection: "Connection") -> None:
        """Ready for another request; the slot comes with it."""
        ...

    def free_slot(self) -> None:
        """The call ended and its connection is closed."""
        ...

    def forget_idle(self, connection: "Connection") -> None:
        """Died while idle."""
        ...

    def drop_idle(self) -> None:
        """Close every idle connection."""
        ...

    def closed(self, connection: "Connection") -> None:
        """The socket is closed."""
        ...


class Connection(asyncio.Protocol):
    """Carries one exchange at a time; between them it is idle in the pool, or closed."""

    __slots__ = (
        "_alarm",
        "_alarm_at",
        "_exchange",
        "_home",
        "_idle_until",
        "_is_held",
        "_is_kept",
        "_is_write_paused",
        "_loop",
        "_poller",
        "_reader",
        "_rest",
        "_transport",
        "is_closed",
        "is_pooled",
    )

    _transport: asyncio.Transport

    def __init__(self, home: Home, loop: asyncio.AbstractEventLoop) -> None:
        self._home = home
        self._loop = loop
        self._reader = ResponseReader()
        self._poller = select.poll()
        self._rest = Rest()
        self._exchange: UpstreamExchange | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf
        self._idle_until = inf
        self.is_closed = False
        self._is_held = False
        self._is_kept = False
        self._is_write_paused = False
        self.is_pooled = False

    def start(self, exchange: UpstreamExchange, request: bytes, *, is_head: bool) -> None:
        """Write the request. From here on the upstream may have seen it, so nothing is resent silently."""
        self._exchange = exchange
        self._reader.begin(is_head_request=is_head)
        exchange.request_bytes_written = True
        self._transport.write(request)
        self._arm(exchange.countdown.due())

    def send_rest(self, pieces: Pieces) -> None:
        """Send what follows what `start` wrote, no faster than the socket takes it."""
        self._rest = Rest(pieces)
        self._send_on()

    def is_usable(self, now: float) -> bool:
        """False when closed or too old, or when the socket is readable: an idle one can only hold an end of
        stream that the loop has not told us yet, or bytes that nobody asked for."""
        return not self._is_gone() and now < self._idle_until and not self._poller.poll(0)

    def close(self) -> None:
        """Drop the socket without a goodbye: nothing is outstanding that a peer would need one for."""
        if not self.is_closed:
            self.is_closed = True
            self._rest = Rest()
            self._transport.abort()

    def shut_down(self) -> None:
        """The whole client closes: end the exchange too, if there is one."""
        if self._exchange is not None:
            self._fail(ExchangeCancelled, "the client is shut down")
        self.close()

    # What the exchange asks for.

    def abandon(self) -> None:
        """Close the socket and free the slot; the exchange takes no more."""
        self._exchange = None
        self.close()
        self._home.free_slot()

    def hold(self) -> None:
        """Stop reading from the socket."""
        if not (self._is_held or self._is_gone()):
            self._is_held = True
            self._transport.pause_reading()

    def release(self) -> None:
        """Read again, and watch the deadlines again."""
        if self._is_held and not self._is_gone():
            self._is_held = False
            self._transport.resume_reading()
            if self._exchange is not None:
                self._arm(self._exchange.countdown.due())

    def has_unsent_bytes(self) -> bool:
        """True while part of the request still waits for the socket."""
        unsent = self._is_write_paused or not self._rest.is_over
        return unsent or self._transport.get_write_buffer_size() > 0

    # What the event loop tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected, the handshake done."""
        self._transport = cast("asyncio.Transport", transport)
        self._poller.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def pause_writing(self) -> None:
        """Much of the request is unsent. Remembered here: a broken transport forgets its buffer."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """Most of what was written is out."""
        self._is_write_paused = False
        self._send_on()

    def data_received(self, data: bytes) -> None:
        """Bytes of the response, or of nothing: an idle connection must not speak."""
        exchange = self._exchange
        if exchange is None:
            self._lose(None)
            return
        reader = self._reader
        fault = None
        try:
            reader.feed(data)
        except FramingFault as exc:
            fault = str(exc)
        now = self._loop.time()
        if reader.is_head_complete and exchange.status == 0:
            exchange.take_head(reader.status, reader.headers, now)
            self._arm(exchange.countdown.due())
        parts = reader.parts
        if parts:
            reader.parts = []
            exchange.take_parts(parts, now)
        if fault is not None:
            self._fail(ProtocolFault, fault)
        elif reader.is_complete:
            self._finish(exchange, now)
        else:
            exchange.wake()

    def eof_received(self) -> None:
        """The peer sends no more; the transport closes itself."""
        self._lose(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._lose(exc)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._home.closed(self)

    def _send_on(self) -> None:
        while not (self._is_write_paused or self._rest.is_over or self._is_gone()):
            self._transport.write(self._rest.take())

    def _is_gone(self) -> bool:
        """Closed, perhaps by a fault that the loop will tell us only in its next turn."""
        return self.is_closed or self._transport.is_closing()

    def _finish(self, exchange: UpstreamExchange, now: float) -> None:
        exchange.complete()
        self._exchange = None
        idle_s = self._idle_limit_s()
        # An answer that came before the whole request was out leaves a connection that is half busy.
        if self.is_closed or idle_s <= 0 or not self._reader.may_reuse() or self.has_unsent_bytes():
            self.close()
            self._home.free_slot()
            return
        self.release()
        self._is_kept = True
        self._idle_until = now + idle_s
        self._home.give_back(self)
        self._arm(self._idle_until)

    def _idle_limit_s(self) -> float:
        """Below what the server announced, so that it is us who close first."""
        announced_s = self._reader.keep_alive_s()
        if announced_s is None:
            return self._home.idle_s
        return min(self._home.idle_s, max(announced_s - 1.0, announced_s / 2))

    def _lose(self, exc: Exception | None) -> None:
        exchange = self._exchange
        if exchange is not None:
            if exc is None and self._reader.ends_at_eof():
                self._exchange = None
                exchange.complete()
                self.close()
                self._home.free_slot()
            elif self._is_kept and not self._reader.has_begun():
                # Who gives one connection up gives up all that are as old: the next try dials.
                self._home.drop_idle()
                self._fail(ConnectionStale, "a kept connection ended before any answer", exc)
            else:
                self._fail(ConnectionLost, "end of stream before the response was complete", exc)
            return
        self.close()
        self._home.forget_idle(self)

    def _fail(self, kind: type[UpstreamError], what: str, cause: Exception | None = None) -> None:
        exchange = self._exchange
        if exchange is not None:
            self._exchange = None
            error = kind(
                what if cause is None else f"connection broken: {type(cause).__name__}",
                exchange.phase,
                request_bytes_written=exchange.request_bytes_written,
            )
            error.__cause__ = cause
            exchange.fail(error)
            self.close()
            self._home.free_slot()

    def _arm(self, at: float) -> None:
        """Ring at `at` or before. A later wish waits for the ring, which asks again: timers are dearer than
        the comparison, and most deadlines are met."""
        if at < self._alarm_at and not self.is_closed:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = at
            self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_at = inf
        exchange = self._exchange
        now = self._loop.time() + _TICK_S
        if exchange is not None:
            expiry = exchange.countdown.expired(now)
            if expiry is None:
                self._arm(exchange.countdown.due())
            else:
                self._fail(_EXPIRED[expiry], f"{expiry} deadline passed")
        elif self.is_pooled and now >= self._idle_until:
            self.close()
            self._home.forget_idle(self)
        elif self.is_pooled:
            self._arm(self._idle_until)
