"""Allow-lists both ways: what of the client reaches an upstream, and what comes back. Pure."""

from collections.abc import Iterable, Mapping

from tidegate.events.types import Dialect
from tidegate.gateway.outbound.framing import Header

ATTEMPT = b"x-tidegate-attempt-id"
_VERSION = b"anthropic-version"
_DEFAULT_VERSION = b"2023-06-01"
_REQUEST: dict[Dialect, tuple[bytes, ...]] = {
    "openai": (b"openai-beta",),
    "anthropic": (_VERSION, b"anthropic-beta"),
}
_RESPONSE_PREFIXES = (b"x-ratelimit-", b"anthropic-ratelimit-")
_RESPONSE_NAMES = frozenset(
    {b"retry-after", b"retry-after-ms", b"request-id", b"x-request-id", b"openai-version"}
)


def forwarded_names(dialect: Dialect, extra: Iterable[str]) -> tuple[bytes, ...]:
    """Client headers that may reach a target: the dialect's own and those the config adds."""
    return _REQUEST[dialect] + tuple(name.encode() for name in extra)


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


def response_lines(upstream: Iterable[Header]) -> bytes:
    """Header lines of the upstream's answer that the client may see: limits, retry hints, request ids."""
    return b"".join(
        b"%b: %b\r\n" % (name, value)
        for name, value in upstream
        if name in _RESPONSE_NAMES or name.startswith(_RESPONSE_PREFIXES)
    )


def as_text(headers: Iterable[Header]) -> dict[str, str]:
    """Upstream headers for the classifier; the last of a repeated name wins."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def value_of(headers: Iterable[Header], name: bytes) -> bytes | None:
    """The first value of a header with a lower-case name."""
    for found, value in headers:
        if found == name:
            return value
    return None
