"""The header contract: allow-lists both ways, limits and request ids as the client's dialect names them. Pure.

What names no list stays out: hop-by-hop fields, cookies, what chooses the account that pays, idempotency keys
(one credential serves many tenants: equal keys of two would share an answer), forwarding and tracing fields.
"""

import zlib
from collections.abc import Iterable, Mapping

import msgspec

from tidegate.events.types import Dialect
from tidegate.gateway import rate_limits
from tidegate.gateway.outbound.framing import Header

ATTEMPT = b"x-tidegate-attempt-id"
_VERSION = b"anthropic-version"
_DEFAULT_VERSION = b"2023-06-01"
_REQUEST: dict[Dialect, tuple[bytes, ...]] = {
    "openai": (b"openai-beta",),
    "anthropic": (_VERSION, b"anthropic-beta"),
    "openai-responses": (b"openai-beta",),
    "openai-embeddings": (b"openai-beta",),
}
_REQUEST_IDS = frozenset({b"request-id", b"x-request-id"})
_RETRY = frozenset({b"retry-after", b"retry-after-ms"})
_FORMATS = {b"gzip": 47, b"x-gzip": 47, b"deflate": 47}
NOT_CODED = (None, b"", b"identity")


class _Names(msgspec.Struct, frozen=True):
    """How a vendor's clients know what both vendors tell."""

    request_id: bytes
    limits: bytes
    foreign_limits: bytes
    passed: frozenset[bytes]


_OPENAI = _Names(b"x-request-id", b"x-ratelimit-", b"anthropic-ratelimit-", _RETRY | {b"openai-version"})
_ANTHROPIC = _Names(b"request-id", b"anthropic-ratelimit-", b"x-ratelimit-", _RETRY)
_OF_INTEREST = tuple(
    {
        *_REQUEST_IDS, *_OPENAI.passed, *_ANTHROPIC.passed, _OPENAI.limits, _ANTHROPIC.limits,
    }
)  # fmt: skip
"""How a name begins that is more than passed over."""


def _names_of(dialect: Dialect) -> _Names:
    return _ANTHROPIC if dialect == "anthropic" else _OPENAI


def forwarded_names(dialect: Dialect, extra: Iterable[str]) -> tuple[bytes, ...]:
    """Client headers that may reach a target: the dialect's own and those the config adds."""
    return _REQUEST[dialect] + tuple(name.encode() for name in extra)


def joined(fields: Iterable[Header]) -> dict[bytes, bytes]:
    """Values by name; those of a repeated field in one list, as RFC 9110 §5.3 allows."""
    found: dict[bytes, bytes] = {}
    for name, value in fields:
        found[name] = b"%b, %b" % (found[name], value) if name in found else value
    return found


def forwarded_headers(names: Iterable[bytes], client: Mapping[bytes, bytes]) -> list[Header]:
    """What the allow-list lets through of a client's headers."""
    headers: list[Header] = []
    for name in names:
        value = client.get(name)
        if value is not None:
            headers.append((name, value))
        elif name == _VERSION:
            headers.append((name, _DEFAULT_VERSION))
    return headers


def response_lines(
    upstream: Iterable[Header], dialect: Dialect, request: str, now_ns: int, *, hints: bool = True
) -> bytes:
    """Header lines of an upstream's answer as the client's dialect knows them: limits, retry hints, request id.

    Limits in the other vendor's names are converted; an answer without id gets the `request`'s. Without
    `hints` the retry hints are left out: an error of ours states its own.
    """
    names = _names_of(dialect)
    lines: list[bytes] = []
    has_own = has_foreign = False
    request_id = None
    for name, value in upstream:
        if not name.startswith(_OF_INTEREST):
            continue
        if name.startswith(names.limits):
            has_own = True
        elif name in names.passed:
            if not hints and name in _RETRY:
                continue
        elif name in _REQUEST_IDS:
            request_id = value
            continue
        else:
            has_foreign = has_foreign or name.startswith(names.foreign_limits)
            continue
        lines.append(b"%b: %b\r\n" % (name, value))
    if has_foreign and not has_own:
        limits = rate_limits.limits_of(upstream, now_ns)
        lines += [b"%b: %b\r\n" % line for line in rate_limits.told(limits, dialect, now_ns)]
    lines.append(b"%b: %b\r\n" % (names.request_id, request.encode() if request_id is None else request_id))
    return b"".join(lines)


def request_id_line(dialect: Dialect, request: str) -> bytes:
    """Our request id under the name that the dialect's SDKs show."""
    return b"%b: %b\r\n" % (_names_of(dialect).request_id, request.encode())


def is_coded(upstream: Iterable[Header]) -> bool:
    """True for an answer that is compressed though identity was asked: its bytes mean nothing to us."""
    return value_of(upstream, b"content-encoding") not in NOT_CODED


def decoded_whole(upstream: Iterable[Header], body: bytes, max_bytes: int) -> bytes | None:
    """All of a body without gzip or deflate; None for another coding, one that is cut, broken or longer than that."""
    window = _FORMATS.get(value_of(upstream, b"content-encoding") or b"")
    if window is None:
        return None
    reader = zlib.decompressobj(window)
    try:
        plain = reader.decompress(body, max_bytes)
    except zlib.error:
        return None
    return plain if reader.eof and not reader.unused_data else None


def decoded(upstream: Iterable[Header], body: bytes, max_bytes: int) -> bytes:
    """A body without gzip or deflate, as far as it can be read; proxies compress errors unasked."""
    window = _FORMATS.get(value_of(upstream, b"content-encoding") or b"")
    if window is None:
        return body
    try:
        return zlib.decompressobj(window).decompress(body, max_bytes)
    except zlib.error:
        return body


def as_text(headers: Iterable[Header]) -> dict[str, str]:
    """Upstream headers for the classifier; the last of a repeated name wins."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def value_of(headers: Iterable[Header], name: bytes) -> bytes | None:
    """The first value of a header with a lower-case name."""
    for found, value in headers:
        if found == name:
            return value
    return None
