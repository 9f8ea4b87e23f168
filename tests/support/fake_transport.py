"""A transport under the test's control: what was written, how much the client took, whether it is closed."""

import asyncio
from typing import Any


class FakeTransport(asyncio.Transport):
    """Keeps what was written. With `holds_back` the client takes only what `take` says."""

    def __init__(self, protocol: asyncio.Protocol, *, holds_back: bool = False) -> None:
        super().__init__()
        self.protocol = protocol
        self.holds_back = holds_back
        self.written = b""
        self.waiting_bytes = 0
        self.high_water_bytes = 65_536
        self.paused_writing = False
        self.reading_paused = False
        self.eof_written = False
        self.closed = False
        self.aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: Any) -> None:
        self.written += bytes(data)
        if self.holds_back:
            self.waiting_bytes += len(data)
            if self.waiting_bytes > self.high_water_bytes and not self.paused_writing:
                self.paused_writing = True
                self.protocol.pause_writing()

    def take(self, size: int) -> None:
        """The client takes up to `size` waiting bytes."""
        self.waiting_bytes = max(0, self.waiting_bytes - size)
        if self.paused_writing and self.waiting_bytes <= self.high_water_bytes // 4:
            self.paused_writing = False
            self.protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high_water_bytes = high or 65_536

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof_written = True

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if not self.waiting_bytes:
                asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
