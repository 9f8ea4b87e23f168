"""The connections of one origin: at most `cap`, newest idle first, waiters strictly in order.

A slot belongs to whoever holds it: an idle connection, a call, or a caller that is dialing. Every step but
the waiting and the dialing is synchronous, so a cancellation cannot fall between giving and taking.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import isinf
from typing import Generic, Protocol, TypeVar

from tidegate.gateway.outbound.faults import ConnectFailed, ConnectionLost, PoolExhausted, UpstreamError


class Poolable(Protocol):
    """What the pool asks of a connection."""

    is_pooled: bool
    """True while the pool holds it idle."""

    is_closed: bool
    """True once the socket is given up."""

    def is_usable(self, now: float) -> bool:
        """False once closed, past its idle time, or holding bytes that nobody asked for."""
        ...

    def close(self) -> None:
        """Drop the socket at once; again is harmless."""
        ...

    def shut_down(self) -> None:
        """Close, and end the call it carries."""
        ...


C = TypeVar("C", bound=Poolable)


@dataclass(frozen=True, slots=True)
class PoolStats:
    """A pool at rest has `active == 0`. `active` counts calls and dialing callers."""

    origin: str
    cap: int
    active: int
    idle: int
    waiting: int
    opened: int
    reused: int


class Pool(Generic[C]):
    """Hands out connections. `dial` opens one before an instant of loop time or raises an UpstreamError."""

    def __init__(
        self,
        origin: str,
        dial: Callable[[float], Awaitable[C]],
        *,
        cap: int,
        max_waiting: int,
        idle_s: float,
    ) -> None:
        self.idle_s = idle_s
        self._origin = origin
        self._dial = dial
        self._cap = cap
        self._max_waiting = max_waiting
        self._sockets: set[C] = set()
        self._all_closed: asyncio.Future[None] | None = None
        self._slots = 0
        self._idle: list[C] = []
        self._waiters: deque[asyncio.Future[C | None]] = deque()
        self._opened = 0
        self._reused = 0
        self._is_closed = False

    def take_idle(self, now: float) -> C | None:
        """The most recently used idle connection that is still good, with its slot; None without one."""
        while self._idle:
            connection = self._idle.pop()
            connection.is_pooled = False
            if connection.is_usable(now):
                self._reused += 1
                return connection
            connection.close()
            self.free_slot()
        return None

    async def lease(self, until: float) -> C:
        """A usable connection with its slot: a new one, or one that comes back before `until` (loop time).

        Raises:
            PoolExhausted: none came free in time, or `max_waiting` callers wait already.
            UpstreamError: the dial failed.
        """
        if self._is_closed:
            raise _closed()
        if self._slots < self._cap:
            self._slots += 1
        else:
            granted = await self._wait_for_grant(until)
            if granted is not None:
                if granted.is_usable(asyncio.get_running_loop().time()):
                    self._reused += 1
                    return granted
                granted.close()
            if self._is_closed:
                self.free_slot()
                raise _closed()
        return await self._dial_in_slot(until)

    def give_back(self, connection: C) -> None:
        """Take back a connection that is ready for another request, together with its slot."""
        if self._is_closed:
            connection.close()
            self.free_slot()
        elif not self._grant(connection):
            connection.is_pooled = True
            self._idle.append(connection)

    def free_slot(self) -> None:
        """A slot without a connection: the first waiter may dial in it."""
        if not self._grant(None):
            self._slots -= 1

    def forget_idle(self, connection: C) -> None:
        """An idle connection died or grew too old."""
        if connection.is_pooled:
            connection.is_pooled = False
            self._idle.remove(connection)
            self.free_slot()

    def drop_idle(self) -> None:
        """Close every idle connection: the next calls dial."""
        while self._idle:
            connection = self._idle.pop()
            connection.is_pooled = False
            connection.close()
            self.free_slot()

    def closed(self, connection: C) -> None:
        """A socket is closed."""
        self._sockets.discard(connection)
        if not self._sockets and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)

    async def close(self) -> None:
        """Turn waiters away, end the calls, drop every connection; returns when all sockets are closed."""
        self._is_closed = True
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(_closed())
        for connection in list(self._sockets):
            connection.shut_down()
            self.forget_idle(connection)
        if self._sockets:
            self._all_closed = asyncio.get_running_loop().create_future()
            await self._all_closed

    def stats(self) -> PoolStats:
        """What the pool holds now."""
        idle = len(self._idle)
        return PoolStats(
            origin=self._origin,
            cap=self._cap,
            active=self._slots - idle,
            idle=idle,
            waiting=len(self._waiters),
            opened=self._opened,
            reused=self._reused,
        )

    def _grant(self, grant: C | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(grant)
                return True
        return False

    async def _wait_for_grant(self, until: float) -> C | None:
        if len(self._waiters) >= self._max_waiting:
            raise PoolExhausted("too many calls wait for a connection", "connect")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[C | None] = loop.create_future()
        self._waiters.append(waiter)
        timer = None if isinf(until) else loop.call_at(until, _give_up, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # The grant and the cancellation may have come in one turn of the loop: pass the grant on.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on(waiter.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _pass_on(self, grant: C | None) -> None:
        if grant is None:
            self.free_slot()
        else:
            self.give_back(grant)

    async def _dial_in_slot(self, until: float) -> C:
        try:
            connection = await self._dial(until)
        except BaseException:
            self.free_slot()
            raise
        # Not is_usable: a fresh TLS connection may well be readable, with session tickets.
        if self._is_closed or connection.is_closed:
            connection.close()
            self.free_slot()
            raise _closed() if self._is_closed else ConnectionLost("closed right after connecting", "send")
        # Only now: uvloop tells nobody when it closes the socket of a connection whose making was cancelled.
        self._opened += 1
        self._sockets.add(connection)
        return connection


def _give_up(waiter: asyncio.Future[C | None]) -> None:
    if not waiter.done():
        what = "no connection came free within the connect deadline"
        waiter.set_exception(PoolExhausted(what, "connect", timed_out=True))


def _closed() -> UpstreamError:
    return ConnectFailed("the client is shut down", "connect")
