"""HTTP/1.1 framing of an answer as bytes."""

from functools import lru_cache
from http import HTTPStatus

from tidegate.simulator.actions import Head

LAST_CHUNK = b"0\r\n\r\n"


def render_head(head: Head, *, close: bool = False) -> bytes:
    """Status line and headers; a length of None announces chunks."""
    lines = [_status_line(head.status)]
    for name, value in head.headers:
        lines.append(name + b": " + value)
    if head.length is None:
        lines.append(b"transfer-encoding: chunked")
    else:
        lines.append(b"content-length: %d" % head.length)
    if close:
        lines.append(b"connection: close")
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def render_body(data: bytes, *, chunked: bool) -> bytes:
    """Body bytes, as one chunk where chunks were announced; never an empty one, which would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked and data else data


@lru_cache(maxsize=128)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Overloaded"
    return f"HTTP/1.1 {status} {phrase}".encode()
