"""TCP in memory and in virtual time: what one protocol writes, the other gets after a fixed latency, in order.

Listeners and dialers of this repository run on it unchanged; a whole system in one loop then is deterministic.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from support.virtual_time import VirtualTimeLoop

LATENCY_S = 0.0005
KERNEL_BYTES = 128 * 1024
"""What the kernels on both sides take before a writer's own buffer fills."""
_SAME_TIME_S = 1e-9
_NO_LINGER = struct.pack("ii", 1, 0)

Item = bytes | Literal["eof", "reset"]
Factory = Callable[[], asyncio.BaseProtocol]


class MemorySocket:
    """What protocols ask of the socket behind their transport. Its descriptor is never readable."""

    family = socket.AF_INET
    _descriptor: int | None = None

    def __init__(self, own: tuple[str, int], peer: tuple[str, int]) -> None:
        self._own = own
        self._peer = peer
        self.resets_on_close = False

    def fileno(self) -> int:
        if MemorySocket._descriptor is None:
            MemorySocket._descriptor = os.eventfd(0)
        return MemorySocket._descriptor

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self.resets_on_close = value == _NO_LINGER

    def getsockname(self) -> tuple[str, int]:
        return self._own

    def getpeername(self) -> tuple[str, int]:
        return self._peer


class MemoryTransport(asyncio.Transport):
    """One end of a connection. The inbox holds what is on its way here."""

    peer: MemoryTransport

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: MemorySocket) -> None:
        super().__init__()
        self._loop = loop
        self._sock = sock
        self._protocol: Any = None
        self._inbox: deque[tuple[float, Item]] = deque()
        self._inbox_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._high, self._low = 65_536, 16_384
        self._write_paused = False
        self._reading = True
        self._closing = False
        self._lost = False

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection is there."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._arm()

    # what protocols call

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {
            "socket": self._sock,
            "peername": self._sock.getpeername(),
            "sockname": self._sock.getsockname(),
        }
        return known.get(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._arm()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return max(0, self.peer._inbox_bytes - KERNEL_BYTES)

    def write(self, data: Any) -> None:
        if self._closing or not data:
            return
        self.peer._arrive(bytes(data))
        if self.get_write_buffer_size() > self._high and not self._write_paused:
            self._write_paused = True
            self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing:
            self.peer._arrive("eof")

    def close(self) -> None:
        self._end("eof")

    def abort(self) -> None:
        # A kernel answers with a reset where bytes were left unread.
        self._end("reset" if self._sock.resets_on_close or self._inbox_bytes else "eof")

    # what happens

    def _end(self, goodbye: Item) -> None:
        if not self._closing:
            self._closing = True
            self.peer._arrive(goodbye)
            self._loop.call_soon(self._lose, None)

    def _arrive(self, item: Item) -> None:
        if self._lost:
            if not self.peer._lost and isinstance(item, bytes):
                self.peer._arrive("reset")
            return
        self._inbox.append((self._loop.time() + LATENCY_S, item))
        if isinstance(item, bytes):
            self._inbox_bytes += len(item)
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._inbox and self._protocol is not None and not self._lost:
            due, item = self._inbox[0]
            if self._reading or item == "reset":
                self._timer = self._loop.call_at(due, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        parts: list[bytes] = []
        until = self._loop.time() + _SAME_TIME_S
        while self._inbox and self._inbox[0][0] <= until and isinstance(self._inbox[0][1], bytes):
            parts.append(self._inbox.popleft()[1])  # type: ignore[arg-type]
        if parts:
            data = b"".join(parts)
            self._inbox_bytes -= len(data)
            self.peer._taken()
            self._protocol.data_received(data)
        elif self._inbox and self._inbox[0][0] <= until:
            if self._inbox.popleft()[1] == "reset":
                self._lose(ConnectionResetError("connection reset by peer"))
            elif not self._closing and not self._protocol.eof_received():
                self.close()
        self._arm()

    def _taken(self) -> None:
        if self._write_paused and self.get_write_buffer_size() <= self._low and not self._lost:
            self._write_paused = False
            self._protocol.resume_writing()

    def _lose(self, why: Exception | None) -> None:
        if not self._lost:
            self._lost = self._closing = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._protocol.connection_lost(why)


class MemoryServer:
    """What `create_server` returns: a listener that can be closed."""

    def __init__(self, loop: MemoryLoop, sock: socket.socket, factory: Factory) -> None:
        self._loop = loop
        self._sock = sock
        self.address: tuple[str, int] = sock.getsockname()[:2]
        self.factory = factory
        loop.servers[self.address[1]] = self

    def close(self) -> None:
        if self._loop.servers.get(self.address[1]) is self:
            del self._loop.servers[self.address[1]]
        self._sock.close()

    async def wait_closed(self) -> None:
        return


class MemoryLoop(VirtualTimeLoop):
    """A loop in virtual time whose TCP is in memory and whose executors run at once, in the loop's own thread.

    `names` maps ports that a config names to the ports that listeners have got.
    """

    def __init__(self) -> None:
        super().__init__()
        self.servers: dict[int, MemoryServer] = {}
        self.names: dict[int, int] = {}
        self._dialed: weakref.WeakKeyDictionary[socket.socket, int] = weakref.WeakKeyDictionary()

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await asyncio.sleep(LATENCY_S)
        port = self.names.get(address[1], address[1])
        if port not in self.servers:
            raise ConnectionRefusedError(f"nobody listens on {address}")
        self._dialed[sock] = port

    async def create_connection(self, protocol_factory: Any, *_: Any, **options: Any) -> Any:
        sock: socket.socket | None = options.get("sock")
        assert sock is not None, "only connections over a dialed socket are in memory"
        assert not options.get("ssl"), "there is no TLS in memory"
        server = self.servers.get(self._dialed.pop(sock))
        sock.close()
        if server is None:
            raise ConnectionResetError("the listener went away")
        name = ("127.0.0.1", 1)
        near = MemoryTransport(self, MemorySocket(name, server.address))
        far = MemoryTransport(self, MemorySocket(server.address, name))
        near.peer, far.peer = far, near
        accepted, protocol = server.factory(), protocol_factory()
        far.begin(accepted)
        near.begin(protocol)
        return near, protocol

    async def create_server(self, protocol_factory: Any, *_: Any, **options: Any) -> Any:
        assert not options.get("ssl"), "there is no TLS in memory"
        return MemoryServer(self, options["sock"], protocol_factory)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done
