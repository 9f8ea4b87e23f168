"""The simulator's own server-sent-events writer."""

import orjson


def event(data: bytes, name: bytes | None = None) -> bytes:
    """One event of one data line, with an event name where the dialect has one."""
    if name is None:
        return b"data: " + data + b"\n\n"
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


def comment(text: bytes) -> bytes:
    """A line that every client must skip."""
    return b": " + text + b"\n\n"


class Template:
    """Events that differ in one JSON string only: written once with a blank, then filled in."""

    BLANK = "\N{OBJECT REPLACEMENT CHARACTER}"

    def __init__(self, blank_event: bytes) -> None:
        self._before, self._after = blank_event.split(orjson.dumps(self.BLANK))

    def fill(self, text: str) -> bytes:
        """The event with `text` in the place of the blank."""
        return self._before + orjson.dumps(text) + self._after
