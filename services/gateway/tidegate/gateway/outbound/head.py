"""Renders request bytes: the constant part once per target, the rest per request. Pure."""

import copy
import re
from collections.abc import Iterable
from typing import Self

from tidegate.gateway.outbound.faults import TargetInvalid
from tidegate.gateway.outbound.framing import Header

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WITHOUT_LENGTH_WHEN_EMPTY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
# We frame the message and own the connection; a caller's word on either is dropped or refused.
_OURS = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_VERSION = b" HTTP/1.1\r\n"
_TARGET = re.compile(rb"/[\x21-\x7e]*")


class RequestHead:
    """Request line, Host and the headers that every request to a target shares. Holds secrets: no repr."""

    __slots__ = ("_empty", "_prefix", "is_head")

    def __init__(self, method: str, host: bytes, target: bytes, headers: Iterable[Header]) -> None:
        """Raises TargetInvalid for a method, target or header that must not be sent."""
        if method not in _METHODS:
            raise TargetInvalid("method is not one we send")
        if _TARGET.fullmatch(target) is None:
            raise TargetInvalid("request target is not an absolute path")
        line = b"%b %b%bhost: %b\r\n" % (method.encode(), target, _VERSION, host)
        self._prefix = line + render_headers(headers)
        self._empty = b"" if method in _WITHOUT_LENGTH_WHEN_EMPTY else b"content-length: 0\r\n"
        self.is_head = method == "HEAD"

    def with_query(self, query: bytes) -> Self:
        """The same head with `?query` behind its path. Raises TargetInvalid."""
        line, version, rest = self._prefix.partition(_VERSION)
        if _TARGET.fullmatch(b"/?%b" % query) is None:
            raise TargetInvalid("query has a character that must not be sent")
        other = copy.copy(self)
        other._prefix = b"%b?%b%b%b" % (line, query, version, rest)
        return other

    def render(self, body: bytes, lines: bytes = b"") -> bytes:
        """The whole request in one piece: one write, one segment for small bodies.

        `lines` are this request's own header lines, as `render_headers` makes them.
        """
        if body:
            return b"%b%bcontent-length: %d\r\n\r\n%b" % (self._prefix, lines, len(body), body)
        return b"%b%b%b\r\n" % (self._prefix, lines, self._empty)

    def render_head(self, body_bytes: int, lines: bytes = b"") -> bytes:
        """The request up to its body, which follows in pieces."""
        return b"%b%bcontent-length: %d\r\n\r\n" % (self._prefix, lines, body_bytes)


def render_headers(headers: Iterable[Header]) -> bytes:
    """Header lines. Raises TargetInvalid naming the header (never its value) that must not be sent."""
    lines: list[bytes] = []
    for name, value in headers:
        if _NAME.fullmatch(name) is None:
            raise TargetInvalid("header name is not a token")
        if _VALUE.fullmatch(value) is None:
            raise TargetInvalid(f"header {name.decode('ascii')} has a control character")
        if name.lower() in _OURS:
            raise TargetInvalid(f"header {name.decode('ascii')} is set by the transport")
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)


def without_ours(headers: Iterable[Header]) -> list[Header]:
    """`headers` less those that the transport sets itself."""
    return [(name, value) for name, value in headers if name.lower() not in _OURS]
