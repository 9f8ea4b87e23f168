"""Where a call goes and under which rules: origin and policy, parsed and checked once. Pure."""

import re
from dataclasses import dataclass

import httpx

from tidegate.gateway.outbound import egress
from tidegate.gateway.outbound.faults import TargetInvalid
from tidegate.gateway.outbound.tunnel import Proxy

_DEFAULT_PORTS = {"http": 80, "https": 443}
# A name, or a numeric IPv6 address without scope. httpx lets more through, percent-encoded.
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]*:[0-9a-f:.]*")


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """How an origin may be reached.

    `allow_private` admits loopback and private addresses, and plain http to those; `ca_file` replaces the
    system's certificate authorities; `proxy` is asked for a tunnel (the environment is never consulted).
    """

    allow_private: bool = False
    ca_file: str | None = None
    proxy: Proxy | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host in ASCII (no brackets), port."""

    scheme: str
    host: str
    port: int

    @property
    def is_tls(self) -> bool:
        """True for https."""
        return self.scheme == "https"

    @property
    def authority(self) -> bytes:
        """host:port, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode("ascii")


def parse_target(url: str | httpx.URL, policy: OriginPolicy) -> tuple[Origin, bytes, bytes]:
    """The origin of `url`, the value of its Host header, and the request target (path and query).

    Raises:
        TargetInvalid: not http or https, no host, user information, a fragment, a numeric host in disguise,
            or plain http without `allow_private`.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        raise TargetInvalid("URL cannot be parsed") from None
    if parsed.scheme not in _DEFAULT_PORTS:
        raise TargetInvalid("URL scheme must be https or http")
    port = _DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
    if not 0 < port < 65_536:
        raise TargetInvalid("URL port must be 1 to 65535")
    host = parsed.raw_host.decode("ascii")
    if _HOST.fullmatch(host) is None:
        raise TargetInvalid("URL has no usable host")
    if parsed.userinfo:
        raise TargetInvalid("URL must not carry user information; use a secret")
    if parsed.fragment:
        raise TargetInvalid("URL must not have a fragment")
    if parsed.scheme == "http" and not policy.allow_private:
        raise TargetInvalid("plain http is only for private origins (allow_private)")
    spelling = egress.host_refusal(host)
    if spelling is not None:
        raise TargetInvalid(f"host is a {spelling}")
    return Origin(parsed.scheme, host, port), parsed.netloc, parsed.raw_path


def parse_base(url: str, policy: OriginPolicy) -> Origin:
    """The origin of a configured base URL, to which the path of a call is added.

    Raises:
        TargetInvalid: as `parse_target`, or a query, or a numeric host that may never be called.
    """
    origin, _, _ = parse_target(url, policy)
    if "?" in url or "#" in url:
        raise TargetInvalid("URL must not have a query or a fragment")
    if egress.literal(origin.host) is not None:
        refusal = address_refusal(origin.host, origin, policy)
        if refusal is not None:
            raise TargetInvalid(f"host may not be called: {refusal}")
    return origin


def address_refusal(address: str, origin: Origin, policy: OriginPolicy) -> str | None:
    """Why `address` may not be called for this origin; None when it may.

    Plain http never leaves private networks: a credential would travel readable.
    """
    refusal = egress.address_refusal(address, allow_private=policy.allow_private)
    if refusal is None and not origin.is_tls and not egress.is_private(address):
        return "plain http to a public address"
    return refusal
