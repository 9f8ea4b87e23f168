"""Server-sent events per the HTML standard: cut a byte stream into whole units, parse a unit; pure and bounded.

A unit is a comment line, a blank line, or one event with its blank line. Lines end in LF, CR or CRLF, mixed.
"""

import re
from collections.abc import Iterator

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Bound of one unfinished unit: an event may carry an image, but not fill the memory."""
BOM = b"\xef\xbb\xbf"

_LINE = re.compile(rb"[^\r\n]*+(?>\r\n|\n|\r)")
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_COLON, _CR, _LF = b":\r\n"


class SseOverflow(ValueError):
    """A unit is longer than the bound."""


class UnitCutter:
    """Holds back what is not yet a whole unit; everything before is released byte for byte.

    A CR ends its line at once; an LF that follows in a later read is released as a unit of its own.
    """

    __slots__ = ("_has_cr", "_held", "_max_bytes")

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._held = bytearray()
        self._has_cr = False
        self._max_bytes = max_bytes

    def take(self, data: bytes) -> bytes:
        """Add bytes; returns all whole units that are ready. Raises SseOverflow."""
        if not self._has_cr and _CR in data:
            self._has_cr = True
        held = self._held
        if not held:
            cut = self._cut(data, 0)
            if cut == len(data):
                return data
            held += data[cut:]
            ready = data[:cut]
        else:
            searched = max(0, len(held) - 3)
            held += data
            cut = self._cut(held, searched)
            ready = bytes(held[:cut])
            del held[:cut]
        if len(held) > self._max_bytes:
            raise SseOverflow(f"an event is longer than {self._max_bytes} bytes")
        return ready

    def rest(self) -> bytes:
        """The bytes held back: an unfinished unit."""
        return bytes(self._held)

    def put_back(self, unit: bytes) -> None:
        """Hold a released unit again, in front of what is held."""
        self._held[:0] = unit

    def _cut(self, buffer: bytes | bytearray, searched: int) -> int:
        cut = 0
        if buffer.endswith((b"\n\n", b"\r\n\r\n")):
            return len(buffer)
        if self._has_cr:
            for end in _EVENT_END.finditer(buffer, searched):
                cut = end.end()
        else:
            cut = buffer.rfind(b"\n\n", searched) + 2
            if cut == 1:
                cut = 0
        size = len(buffer)
        while cut < size:  # what follows is at the start of an event: lines that belong to none need not wait
            first = buffer[cut]
            if first in {_LF, _CR}:
                cut += 1
            elif first == _COLON and (line := _LINE.match(buffer, cut)):
                cut = line.end()
            else:
                break
        return cut


def split_units(block: bytes) -> Iterator[bytes]:
    """The units of a block that `UnitCutter.take` released."""
    has_cr = _CR in block
    at, size = 0, len(block)
    while at < size:
        first = block[at]
        if first in {_LF, _CR}:
            end = at + 1
        elif first == _COLON:
            line = _LINE.match(block, at)
            end = line.end() if line else size
        elif has_cr:
            boundary = _EVENT_END.search(block, at)
            end = boundary.end() if boundary else size
        else:
            end = block.find(b"\n\n", at) + 2
            if end == 1:
                end = size
        yield block[at:end]
        at = end


def parse_unit(unit: bytes) -> tuple[bytes, bytes | None]:
    """(event name or empty, data or None when the unit has no data line)."""
    if unit.startswith(b"data: ") and unit.find(b"\n") == len(unit) - 2 and _CR not in unit:
        return b"", unit[6:-2]
    name, data = b"", None
    for line in unit.splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value.removeprefix(b" ")
            data = value if data is None else data + b"\n" + value
        elif field == b"event":
            name = value.removeprefix(b" ")
    return name, data
