"""Other ways to write the bytes of events, whatever is in them."""

import json
from collections.abc import Callable, Iterator

from tidegate.simulator.faults import Fault
from tidegate.simulator.wire import Event

_ENDS = {"crlf": b"\r\n", "cr": b"\r", "lf": b"\n"}
_CONTINUATION_BITS, _CONTINUATION = 0xC0, 0x80
_COMMENT = b": SIM PROCESSING\n"


def escapes(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """JSON in ASCII only, as some servers' libraries write it: a letter beyond 16 bits is two escapes."""
    for event in events:
        text = event.data.decode()
        yield event._replace(data="".join(map(_escaped, text)).encode() if not text.isascii() else event.data)


def line_ends(events: Iterator[Event], shape: Fault) -> Iterator[Event]:
    """CRLF, CR, or each event in another way."""
    kind = shape.text("kind")
    turns = ["lf", "crlf", "cr"] if kind == "mixed" else [kind]
    for number, event in enumerate(events):
        yield event._replace(data=event.data.replace(b"\n", _ENDS[turns[number % len(turns)]]))


def no_space(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """Nothing between colon and value."""
    for event in events:
        lines = event.data.split(b"\n")
        yield event._replace(data=b"\n".join(_tight(line) for line in lines))


def bom(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """A byte order mark at the very beginning."""
    for number, event in enumerate(events):
        yield event._replace(data=b"\xef\xbb\xbf" + event.data) if number == 0 else event


def comments(events: Iterator[Event], shape: Fault) -> Iterator[Event]:
    """Comments before events, or as the first line of events."""
    every = max(int(shape.number("every")), 1)
    line = _COMMENT if shape.text("place") == "inside" else _COMMENT + b"\n"
    for number, event in enumerate(events):
        yield event._replace(data=line + event.data) if number % every == 0 else event


def data_lines(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """JSON over two data lines, parted behind its first comma, which is never inside a string."""
    for event in events:
        head, comma, rest = event.data.partition(b",")
        yield event._replace(data=head + comma + b"\ndata: " + rest) if comma else event


def extra_fields(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """Fields that the standard knows or ignores."""
    for number, event in enumerate(events):
        yield event._replace(data=b"id: %d\nretry: 1000\nnonsense: x\nlonely\n" % number + event.data)


def write_cuts(events: Iterator[Event], shape: Fault) -> Iterator[Event]:
    """Two writes for an event: parted inside its first letter of several bytes, or before its last byte."""
    inside = shape.text("at") == "letter"
    for event in events:
        place = _inside_letter(event.data) if inside else len(event.data) - 1
        if not 0 < place < len(event.data):
            yield event
            continue
        yield Event("open", event.data[:place], event.produced)
        yield event._replace(data=event.data[place:])


def one_lump(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """Everything at the end, in one write."""
    held = list(events)
    yield held[-1]._replace(data=b"".join(event.data for event in held))


def huge_line(events: Iterator[Event], shape: Fault) -> Iterator[Event]:
    """Before the first content a long comment, or white space in its JSON."""
    size, pending = int(shape.number("bytes")), True
    for event in events:
        if pending and event.stage == "content":
            pending = False
            if shape.text("kind") == "comment":
                data = b":" + b"x" * size + b"\n\n" + event.data
            else:
                data = event.data.replace(b"data: {", b"data: {" + b" " * size, 1)
            yield event._replace(data=data)
        else:
            yield event


def unended(events: Iterator[Event], _: Fault) -> Iterator[Event]:
    """The last event without the blank line behind it."""
    held = list(events)
    yield from held[:-1]
    yield held[-1]._replace(data=held[-1].data.removesuffix(b"\n"))


BYTE_SHAPES: dict[str, Callable[[Iterator[Event], Fault], Iterator[Event]]] = {
    "escapes": escapes,
    "comments": comments,
    "extra_fields": extra_fields,
    "data_lines": data_lines,
    "huge_line": huge_line,
    "no_space": no_space,
    "unended": unended,
    "line_ends": line_ends,
    "bom": bom,
    "write_cuts": write_cuts,
    "one_lump": one_lump,
}
"""In the order in which they are applied."""


def _escaped(letter: str) -> str:
    return letter if letter.isascii() else json.dumps(letter)[1:-1]


def _tight(line: bytes) -> bytes:
    name, colon, value = line.partition(b": ")
    return name + b":" + value if colon else line


def _inside_letter(data: bytes) -> int:
    return next((place for place, byte in enumerate(data) if byte & _CONTINUATION_BITS == _CONTINUATION), 0)
