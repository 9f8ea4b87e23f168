"""Cuts one HTTP/1.1 response after another out of the bytes of a connection. Pure: no socket, no clock.

httptools (llhttp, strict) does the grammar: bare LF, obs-fold, CL+TE, two lengths, bad chunks are its errors.
What it lets through and we do not is checked here: version, status range, transfer codings, sizes, leftovers.
"""

import re
from collections.abc import Iterable

import httptools

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 200

Header = tuple[bytes, bytes]

_KEEP_ALIVE_TIMEOUT = re.compile(rb"(?:^|[,;\s])timeout\s*=\s*(\d{1,9})", re.IGNORECASE)
_BODILESS = frozenset({204, 304})


class FramingFault(Exception):
    """The peer broke the protocol or a limit; the text names what, and holds no bytes of the peer."""


class ResponseReader:
    """Feed it what the socket gave; read `status`, `headers`, `parts` and the flags after each feed.

    `begin` before each request. After a `FramingFault` the connection must be closed: the reader is spent.
    Interim responses are skipped, 101 is a fault, trailers and chunk extensions are dropped.
    """

    __slots__ = (
        "_close_delimited",
        "_codings",
        "_fault",
        "_has_length",
        "_is_head_request",
        "_is_interim",
        "_keep_alive",
        "_keeps_open",
        "_other_bytes",
        "_other_fields",
        "_parser",
        "_quiet_bytes",
        "headers",
        "is_complete",
        "is_head_complete",
        "parts",
        "status",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self, *, is_head_request: bool = False) -> None:
        """Forget the last response; the next bytes are a new one (without a body if it answers HEAD)."""
        self.status = 0
        self.headers: list[Header] = []
        self.parts: list[bytes] = []
        self.is_head_complete = False
        self.is_complete = False
        self._is_head_request = is_head_request
        self._is_interim = False
        self._close_delimited = False
        self._keeps_open = False
        self._codings: bytes | None = None
        self._has_length = False
        self._keep_alive: bytes | None = None
        self._other_bytes = self._other_fields = self._quiet_bytes = 0
        self._fault: str | None = None

    def feed(self, data: bytes) -> None:
        """Take bytes in. Body pieces are appended to `parts`; the caller takes them away.

        Raises:
            FramingFault: also when the response is complete but more bytes follow it.
        """
        if self._quiet_bytes == 0 and not self.is_head_complete and data[0] != 0x48:
            raise FramingFault("no status line")
        # Bytes without body are head, chunk framing or trailers: none of them may go on for ever.
        self._quiet_bytes += len(data)
        pieces = len(self.parts)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            raise FramingFault(self._fault or self._explain(exc)) from None
        if len(self.parts) > pieces:
            self._quiet_bytes = 0
        elif self._quiet_bytes > MAX_HEAD_BYTES and not self.is_complete:
            raise FramingFault("head or trailers too large")

    def has_begun(self) -> bool:
        """True once a byte of the response came."""
        return self.is_head_complete or self._quiet_bytes > 0

    def ends_at_eof(self) -> bool:
        """True when the end of the stream is the proper end of this response."""
        return self._close_delimited and not self.is_complete

    def may_reuse(self) -> bool:
        """True when another request may follow on this connection."""
        return self.is_complete and self._keeps_open

    def keep_alive_s(self) -> float | None:
        """The server's `Keep-Alive: timeout`, None when it gave none."""
        match = None if self._keep_alive is None else _KEEP_ALIVE_TIMEOUT.search(self._keep_alive)
        return None if match is None else float(match[1])

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """A new message starts; after a complete one that is a leftover."""
        if self.is_complete:
            self._refuse("bytes after the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field of a head or a trailer."""
        if self.is_head_complete:
            self._drop_trailer(name, value)
        else:
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is complete: skip an interim one, else decide how the body is framed."""
        status = self._parser.get_status_code()
        if status == 101:
            self._refuse("101 without an upgrade asked for")
        if self._parser.get_http_version() not in ("1.1", "1.0"):
            self._refuse("not HTTP/1.1 or 1.0")
        if 100 <= status < 200:
            self._is_interim = True
            return
        if not 200 <= status < 600:
            self._refuse("status outside 200 to 599")
        self._read_head()
        self.status = status
        self.is_head_complete = True
        if self._is_head_request:
            # The parser cannot be told that no body follows, so such a connection is not used again.
            self.is_complete = True
        elif not self._has_length and self._codings is None and status not in _BODILESS:
            self._close_delimited = True

    def on_body(self, body: bytes) -> None:
        """One piece of body as it lay in the fed bytes."""
        if self.is_complete or self._is_interim:
            self._refuse("body in a response that has none")
        self.parts.append(body)

    def on_message_complete(self) -> None:
        """The framed end of a message; an interim one leaves no trace but its share of the head limit."""
        if self._is_interim:
            self._is_interim = False
            self._other_fields += len(self.headers)
            self._other_bytes += _size_of(self.headers)
            self.headers = []
            return
        if not self.is_complete:
            self.is_complete = True
            self._keeps_open = self._parser.should_keep_alive()

    def _read_head(self) -> None:
        """Check the limits of a head, and take from it what frames the body."""
        headers = self.headers
        if len(headers) + self._other_fields > MAX_HEADERS:
            self._refuse("too many headers")
        # A head is no longer than what was fed for it, so that most need not be measured.
        if self._quiet_bytes > MAX_HEAD_BYTES and _size_of(headers) + self._other_bytes > MAX_HEAD_BYTES:
            self._refuse("head or trailers too large")
        for name, value in headers:
            if name == b"content-length":
                self._has_length = True
            elif name == b"transfer-encoding":
                # Two lines are one list, and no list is the lone `chunked` we accept.
                self._codings = value if self._codings is None else self._codings + b"," + value
            elif name == b"keep-alive":
                self._keep_alive = value
        self._check_codings()

    def _drop_trailer(self, name: bytes, value: bytes) -> None:
        self._other_fields += 1
        self._other_bytes += _size_of([(name, value)])
        if self._other_fields + len(self.headers) > MAX_HEADERS:
            self._refuse("too many headers")
        if self._other_bytes + _size_of(self.headers) > MAX_HEAD_BYTES:
            self._refuse("head or trailers too large")

    def _check_codings(self) -> None:
        if self._codings is None:
            return
        if self._codings.lower() != b"chunked":
            self._refuse("transfer coding other than chunked")
        if self._parser.get_http_version() == "1.0":
            self._refuse("transfer coding in HTTP/1.0")

    def _refuse(self, what: str) -> None:
        self._fault = what
        raise FramingFault(what)

    def _explain(self, exc: Exception) -> str:
        if self.is_complete:
            return "bytes after the response"
        return str(exc) if isinstance(exc, httptools.HttpParserError) else "upgrade"


def _size_of(fields: Iterable[Header]) -> int:
    """Bytes of header lines, with what separates and ends them."""
    return sum([len(name) + len(value) + 4 for name, value in fields])
