"""The CONNECT proxy: its address, the request for a tunnel, the reply. Pure: no socket."""

import base64
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tidegate.gateway.outbound import egress
from tidegate.gateway.outbound.faults import TargetInvalid

MAX_REPLY_BYTES = 16 * 1024

# A name, or a numeric IPv6 address without scope.
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]*:[0-9a-f:.]*")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?\r\n")


class TunnelRefused(Exception):
    """The proxy opened no tunnel; the text names why and holds no bytes of the proxy."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that is asked for a tunnel. `authorization` is a whole header value."""

    host: str
    port: int
    authorization: bytes | None = field(default=None, repr=False)
    allow_private: bool = True

    @classmethod
    def parse(cls, url: str, credential: str | None = None) -> "Proxy":
        """From `http://host:port` and the proxy's `user:password`, which never stands in the URL.

        Raises:
            TargetInvalid: another scheme, no port, a path, user information, a host that is none, is numeric in
                disguise or may never be called, or a credential without a colon.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise TargetInvalid("proxy URL cannot be parsed") from None
        if parts.username is not None or parts.password is not None:
            raise TargetInvalid("proxy URL must not carry user information; use proxy_secret")
        if parts.scheme != "http" or not parts.hostname or not port:
            raise TargetInvalid("proxy must be http://host:port")
        if _HOST.fullmatch(parts.hostname) is None:
            raise TargetInvalid("proxy URL has no usable host")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise TargetInvalid("proxy URL must not have a path")
        spelling = egress.host_refusal(parts.hostname)
        if spelling is not None:
            raise TargetInvalid(f"proxy host is a {spelling}")
        if egress.literal(parts.hostname) is not None:
            refusal = egress.address_refusal(parts.hostname, allow_private=True)
            if refusal is not None:
                raise TargetInvalid(f"proxy host may not be called: {refusal}")
        return cls(parts.hostname, port, None if credential is None else _basic(credential))


def _basic(credential: str) -> bytes:
    if ":" not in credential:
        raise TargetInvalid("the proxy's secret must be user:password")
    return b"Basic " + base64.b64encode(credential.encode())


def connect_request(authority: bytes, authorization: bytes | None) -> bytes:
    """The CONNECT request for `authority` (host:port)."""
    credential = b"" if authorization is None else b"proxy-authorization: %b\r\n" % authorization
    return b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (authority, authority, credential)


class TunnelReply:
    """Collects the proxy's reply until its head is complete."""

    def __init__(self) -> None:
        self._seen = b""

    def feed(self, data: bytes) -> bool:
        """True once the tunnel is open, False while more bytes are needed.

        Raises:
            TunnelRefused: end of stream, another status than 2xx, an oversized or malformed reply, or bytes
                behind it (the origin cannot have spoken yet, so they are the proxy's).
        """
        if not data:
            raise TunnelRefused("proxy closed the connection")
        self._seen += data
        end = self._seen.find(b"\r\n\r\n")
        if end < 0:
            if len(self._seen) > MAX_REPLY_BYTES:
                raise TunnelRefused("proxy reply too large")
            return False
        status = _STATUS.match(self._seen)
        if status is None:
            raise TunnelRefused("proxy reply is not HTTP/1.1")
        if not status[1].startswith(b"2"):
            raise TunnelRefused(f"proxy answered {int(status[1])}")
        if len(self._seen) > end + 4:
            raise TunnelRefused("proxy sent bytes before the origin could")
        return True
