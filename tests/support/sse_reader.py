"""A whole parser of server-sent events over the gateway's cutter: what a client would be given."""

import re

import msgspec

from tidegate.gateway.sse import BOM, MAX_EVENT_BYTES, UnitCutter, parse_unit, split_units


class Event(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event. `name` is `message` when the stream gave none."""

    name: str
    data: bytes
    last_id: bytes = b""


class SseReader:
    """The whole parser: bytes in any cut in, dispatched events out. An unfinished last event is dropped."""

    __slots__ = ("_at_start", "_cutter", "_last_id")

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._cutter = UnitCutter(max_bytes)
        self._at_start = True
        self._last_id = b""

    def feed(self, data: bytes) -> list[Event]:
        """Events completed by these bytes. Raises SseOverflow."""
        events: list[Event] = []
        for unit in split_units(self._cutter.take(data)):
            text = unit.removeprefix(BOM) if self._at_start else unit
            self._at_start = False
            self._note_id(text)
            name, content = parse_unit(text)
            if content is not None:
                events.append(Event(name.decode("utf-8", "replace") or "message", content, self._last_id))
        return events

    def _note_id(self, unit: bytes) -> None:
        if b"id" not in unit:
            return
        for line in unit.splitlines():
            field, _, value = line.partition(b":")
            if field == b"id" and b"\0" not in value:
                self._last_id = value.removeprefix(b" ")


def reference(stream: bytes) -> list[Event]:
    """The standard, word for word, on the whole stream."""
    text = stream.removeprefix(BOM)
    *lines, _ = re.split(rb"\r\n|\n|\r", text)
    events: list[Event] = []
    name, parts, last_id = b"", [], b""
    for line in lines:
        if not line:
            if parts:
                events.append(Event(name.decode("utf-8", "replace") or "message", b"\n".join(parts), last_id))
            name, parts = b"", []
            continue
        if line.startswith(b":"):
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            parts.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            last_id = value
    return events
