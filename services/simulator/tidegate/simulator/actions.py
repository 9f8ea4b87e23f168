"""What a provider does on a connection, in order; the engine plans these, a transport carries them out."""

from typing import NamedTuple

Headers = list[tuple[bytes, bytes]]


class SimRequest(NamedTuple):
    """One HTTP request: upper-case method, path without query, lower-case header names."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes

    def header(self, name: bytes) -> str | None:
        """The first value of `name` (lower case) as text, or None."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return None


class Head(NamedTuple):
    """Status line and headers. `length` is the body's size in bytes, None for a chunked body."""

    status: int
    headers: Headers
    length: int | None


class Body(NamedTuple):
    """Body bytes as the client sees them after unchunking."""

    data: bytes


class Raw(NamedTuple):
    """Bytes written as they are, outside HTTP framing."""

    data: bytes


class End(NamedTuple):
    """The answer is complete; the connection may carry another request."""


class Close(NamedTuple):
    """End of file now (FIN), whatever the framing promised."""


class Reset(NamedTuple):
    """RST now."""


Action = Head | Body | Raw | End | Close | Reset
