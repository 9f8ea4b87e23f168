"""One request and its response on one connection, until it is complete, has failed or was cancelled."""

import asyncio
from math import inf
from types import TracebackType
from typing import Protocol

from tidegate.events.signals import Phase
from tidegate.gateway.outbound.countdown import Countdown
from tidegate.gateway.outbound.faults import ExchangeCancelled, UpstreamError
from tidegate.gateway.outbound.framing import Header

BUFFER_LIMIT_BYTES = 64 * 1024
"""Unread bytes at which reading pauses; one read of the loop, up to 256 KiB, may pass it."""


class Wire(Protocol):
    """The connection as its exchange sees it."""

    def abandon(self) -> None:
        """Close the socket and free the slot; the exchange takes no more."""
        ...

    def hold(self) -> None:
        """Stop reading from the socket."""
        ...

    def release(self) -> None:
        """Read again, and watch the deadlines again."""
        ...

    def has_unsent_bytes(self) -> bool:
        """True while part of the request still waits for the socket."""
        ...


class UpstreamExchange:
    """What `Upstream.send` returns once the response head is complete.

    `headers` have lower-case names. Read with `read` until it returns b"", or give up with `cancel`; a
    `with` block cancels what is left. A read that is cancelled cancels the exchange. One reader at a time.
    """

    __slots__ = (
        "_buffered",
        "_error",
        "_has_body",
        "_held_by_buffer",
        "_held_by_caller",
        "_loop",
        "_parts",
        "_phase_at_end",
        "_waiter",
        "_wire",
        "countdown",
        "headers",
        "request_bytes_written",
        "status",
    )

    def __init__(self, wire: Wire, countdown: Countdown, loop: asyncio.AbstractEventLoop) -> None:
        self._wire: Wire | None = wire
        self._loop = loop
        self.countdown = countdown
        self.status = 0
        self.headers: list[Header] = []
        self.request_bytes_written = False
        self._parts: list[bytes] = []
        self._buffered = 0
        self._has_body = False
        self._held_by_buffer = False
        self._held_by_caller = False
        self._error: UpstreamError | None = None
        self._phase_at_end: Phase | None = None
        self._waiter: asyncio.Future[None] | None = None

    # For the caller.

    @property
    def phase(self) -> Phase:
        """Where the call is, or was when it ended.

        `first_byte` lasts until `first_token_seen` where a first-token deadline was set, else until the first
        piece of body.
        """
        if self._phase_at_end is not None:
            return self._phase_at_end
        if self.status == 0:
            unsent = self._wire is None or self._wire.has_unsent_bytes()
            return "send" if unsent or not self.request_bytes_written else "wait_headers"
        waiting = self.countdown.first_token_at < inf or not self._has_body
        return "first_byte" if waiting else "mid_stream"

    @property
    def buffered_bytes(self) -> int:
        """Body bytes that arrived and were not read."""
        return self._buffered

    @property
    def is_complete(self) -> bool:
        """True when the response ended as it should and all of it was read."""
        return self._wire is None and self._error is None and not self._parts

    def first_token_seen(self) -> None:
        """The caller found the first content: its deadline is met, what follows is mid-stream.

        So is an error that has arrived but was not yet raised: it lies behind that content.
        """
        self.countdown.first_token_at = inf
        if self._phase_at_end == "first_byte":
            self._phase_at_end = "mid_stream"
            if self._error is not None:
                self._error.phase = "mid_stream"

    async def read(self) -> bytes:
        """All body bytes that arrived since the last read, at least one; b"" at the proper end.

        Raises:
            UpstreamError: after the bytes that arrived before it.
        """
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self._wire is None:
                return b""
            await self._wait()
        return self._take()

    def read_nowait(self) -> bytes:
        """What is buffered, b"" when nothing is (`is_complete` tells the end). Raises UpstreamError."""
        if self._parts:
            return self._take()
        if self._error is not None:
            raise self._error
        return b""

    def pause(self) -> None:
        """Stop reading from the upstream; its deadlines stand still. For a client that does not keep up."""
        self._held_by_caller = True
        self._hold()

    def resume(self) -> None:
        """End `pause`."""
        self._held_by_caller = False
        self._release()

    def cancel(self) -> None:
        """Give up: the connection is closed, its slot is free at once. Harmless when over or repeated."""
        wire = self._wire
        if wire is not None:
            error = ExchangeCancelled(
                "cancelled by us", self.phase, request_bytes_written=self.request_bytes_written
            )
            wire.abandon()
            self._parts.clear()
            self._buffered = 0
            self.fail(error)

    def __enter__(self) -> "UpstreamExchange":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    # For the connection.

    async def wait_head(self) -> None:
        """Until the response head is complete. Raises UpstreamError."""
        while self.status == 0:
            if self._error is not None:
                raise self._error
            await self._wait()

    def take_head(self, status: int, headers: list[Header], now: float) -> None:
        """The head is complete."""
        self.status = status
        self.headers = headers
        self.countdown.head_arrived(now)

    def take_parts(self, parts: list[bytes], now: float) -> None:
        """Pieces of body arrived; the list is ours from here on."""
        self.countdown.progress_at = now
        self._has_body = True
        if self._parts:
            self._parts += parts
        else:
            self._parts = parts
        self._buffered += sum(map(len, parts))
        if self._buffered > BUFFER_LIMIT_BYTES and not self._held_by_buffer:
            self._held_by_buffer = True
            self._hold()

    def complete(self) -> None:
        """The response ended properly; the connection is no longer ours."""
        self._phase_at_end = self.phase
        self._wire = None
        self.wake()

    def fail(self, error: UpstreamError) -> None:
        """The call broke; the connection is no longer ours."""
        self._phase_at_end = error.phase
        self._wire = None
        self._error = error
        self.wake()

    def wake(self) -> None:
        """Let the reader look again."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two readers on one upstream exchange")
        self._waiter = waiter = self._loop.create_future()
        try:
            await waiter
        except asyncio.CancelledError:
            self._waiter = None
            self.cancel()
            raise

    def _take(self) -> bytes:
        parts = self._parts
        self._parts = []
        self._buffered = 0
        if self._held_by_buffer:
            self._held_by_buffer = False
            self._release()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self) -> None:
        if self._wire is not None:
            self.countdown.pause(self._loop.time())
            self._wire.hold()

    def _release(self) -> None:
        if self._wire is not None and not (self._held_by_buffer or self._held_by_caller):
            self.countdown.resume(self._loop.time())
            self._wire.release()
