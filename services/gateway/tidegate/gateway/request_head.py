"""Check of one request head: which heads may reach the application, and as what; pure."""

import re
import urllib.parse

import httptools
import msgspec

from tidegate.gateway import refusals
from tidegate.gateway.refusals import Refusal
from tidegate.gateway.server_limits import ServerLimits

Fields = list[tuple[bytes, bytes]]

METHODS = {
    name: name.decode() for name in (b"GET", b"POST", b"HEAD", b"PUT", b"PATCH", b"DELETE", b"OPTIONS")
}
"""Methods that reach the application (which answers 404 where it has none)."""

# Conservative on purpose: user info, spaces, '?', '#', '/' and '@' have each been used to make a gate and a
# router read different hosts out of one header.
_HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_FRAMING = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade")
)  # fields whose value decides how this head is read


class RequestHead(msgspec.Struct, eq=False):
    """A head that passed: target split, framing known."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    fields: Fields
    content_length: int
    chunked: bool
    expect_continue: bool
    known: object = None
    """What the application worked out from this head: kept with it for the next request of the same bytes."""

    def __repr__(self) -> str:
        """Without the fields: they hold the caller's key."""
        return f"RequestHead({self.method} {self.path!r}, {len(self.fields)} fields)"

    @property
    def is_plain(self) -> bool:
        """True when nothing but a Content-Length, or no body at all, says where the request ends."""
        return not (self.chunked or self.expect_continue)


def read_head(
    method: bytes, version: str, target: bytes, fields: Fields, limits: ServerLimits
) -> RequestHead | Refusal:
    """Head (field names lower-case, in order) -> what the application may see, or why not.

    Names with an underscore are dropped except `session_id`: front servers that fold `-` and `_` together
    would let a client forge a header they are trusted to set.
    """
    name = METHODS.get(method)
    if name is None:
        return refusals.METHOD_UNKNOWN
    if version not in {"1.1", "1.0"}:
        return refusals.VERSION_UNKNOWN
    if len(fields) > limits.max_fields:
        return refusals.TOO_MANY_FIELDS
    framing, kept = _sort_fields(fields)
    hosts = framing.get(b"host")
    if hosts is None or len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
        return refusals.HOST_INVALID
    split = _split_target(target, hosts[0])
    if split is None:
        return refusals.TARGET_INVALID
    path, raw_path, query = split
    if len(framing) == 1:
        return RequestHead(name, path, raw_path, query, kept, 0, False, False)
    if b"upgrade" in framing and method == b"GET" and path == "/v1/responses":
        return refusals.UPGRADE_REQUIRED
    framed = _framing(framing, version, limits)
    if isinstance(framed, Refusal):
        return framed
    return RequestHead(name, path, raw_path, query, kept, *framed)


def _sort_fields(fields: Fields) -> tuple[dict[bytes, list[bytes]], Fields]:
    """Framing fields by name, and the fields that the application may see: no forged names, and no
    Content-Length, which says nothing that the body itself does not."""
    framing: dict[bytes, list[bytes]] = {}
    hidden = False
    for name, value in fields:
        if name in _FRAMING:
            framing.setdefault(name, []).append(value)
            hidden = hidden or name == b"content-length"
        elif b"_" in name and name != b"session_id":
            hidden = True
    if hidden:
        fields = [
            field
            for field in fields
            if field[0] != b"content-length" and (b"_" not in field[0] or field[0] == b"session_id")
        ]
    return framing, fields


def _framing(
    framing: dict[bytes, list[bytes]], version: str, limits: ServerLimits
) -> tuple[int, bool, bool] | Refusal:
    """(content length, chunked, expects 100-continue). The parser refuses most of this too; we do not rely
    on its leniency flags, because framing doubt is how requests are smuggled."""
    lengths = framing.get(b"content-length")
    codings = framing.get(b"transfer-encoding")
    length = 0
    if codings is not None:
        if version == "1.0" or lengths is not None or [c.lower() for c in codings] != [b"chunked"]:
            return refusals.FRAMING_INVALID
    elif lengths is not None:
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 19:
            return refusals.FRAMING_INVALID
        length = int(lengths[0])
        if length > limits.max_body_bytes:
            return refusals.BODY_TOO_LARGE
    expect = framing.get(b"expect")
    if expect is not None and [value.lower() for value in expect] != [b"100-continue"]:
        return refusals.EXPECTATION_UNKNOWN
    return length, codings is not None, expect is not None and version == "1.1"


def _split_target(target: bytes, host: bytes) -> tuple[str, bytes, bytes] | None:
    """(decoded path, raw path, query) of an origin-form target, or of an absolute one that names `host`."""
    if target[:1] != b"/":
        absolute = _absolute_target(target, host)
        if absolute is None:
            return None
        target = absolute
    if b"#" in target or not target.isascii():
        return None
    raw_path, _, query = target.partition(b"?")
    path = raw_path.decode("ascii")
    if "%" in path:
        path = urllib.parse.unquote(path)
    if not path.isprintable() or not query.decode("ascii").isprintable() or b" " in query:
        return None
    return path, raw_path, query


def _absolute_target(target: bytes, host: bytes) -> bytes | None:
    """Origin form of `http://host/path?query`; None unless the authority is exactly the Host header."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return None
    if url.schema not in {b"http", b"https"} or url.userinfo or url.fragment or not url.host:
        return None
    authority = target[len(url.schema) + 3 :].partition(b"/")[0].partition(b"?")[0]
    if authority.lower() != host.lower():
        return None
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")
