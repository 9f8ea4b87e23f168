"""Which addresses may be called. Pure: judges numeric addresses and host spellings, resolves nothing.

Metadata services are refused whatever the config says; loopback and private ranges need `allow_private`.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_PRIVATE_V4 = tuple(
    IPv4Network(net)
    for net in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "198.18.0.0/15",
    )
)
_NEVER_V4 = tuple(
    (IPv4Network(net), why)
    for net, why in (
        ("0.0.0.0/8", "unspecified"),
        ("100.100.100.200/32", "metadata service"),
        ("168.63.129.16/32", "metadata service"),
        ("169.254.0.0/16", "link-local"),
        ("192.0.0.0/24", "special purpose"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved or broadcast"),
    )
)
_PRIVATE_V6 = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_NEVER_V6 = tuple(
    (IPv6Network(net), why)
    for net, why in (
        ("::/128", "unspecified"),
        ("fd00:ec2::/32", "metadata service"),
        ("fd20:ce::/32", "metadata service"),
        ("fe80::/10", "link-local"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "special purpose or tunnel"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4 tunnel"),
        ("3fff::/20", "documentation"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")

_CANONICAL_V4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}")
# A last label that is a number makes inet_aton (and so getaddrinfo) read the whole host as an IPv4 address.
_NUMERIC_TAIL = re.compile(r"(?:^|\.)(?:\d+|0[xX][0-9a-fA-F]*)\.?$")


def is_private(address: str) -> bool:
    """True for loopback and private-network addresses (mapped and NAT64 forms unwrapped)."""
    parsed = _unwrap(ip_address(address))
    if isinstance(parsed, IPv4Address):
        return any(parsed in net for net in _PRIVATE_V4)
    return any(parsed in net for net in _PRIVATE_V6)


def address_refusal(address: str, *, allow_private: bool) -> str | None:
    """Why the numeric `address` may not be called; None when it may."""
    if "%" in address:
        return "scoped address"
    try:
        parsed = _unwrap(ip_address(address))
    except ValueError:
        return "not an address"
    never = _never(parsed)
    if never is not None:
        return never
    if is_private(address):
        return None if allow_private else "private or loopback address"
    if isinstance(parsed, IPv6Address) and parsed not in _GLOBAL_V6:
        return "not global unicast"
    return None


def host_refusal(host: str) -> str | None:
    """Why the spelling of `host` is refused: IPv4 in decimal, octal, hex or short form."""
    if ":" in host:
        return None
    if _NUMERIC_TAIL.search(host) is not None and _CANONICAL_V4.fullmatch(host) is None:
        return "numeric host that is not a dotted quad"
    return None


def literal(host: str) -> str | None:
    """`host` itself when it is a numeric address, None when it is a name."""
    try:
        ip_address(host)
    except ValueError:
        return None
    return host


def _unwrap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _never(address: IPv4Address | IPv6Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((why for net, why in _NEVER_V4 if address in net), None)
    return next((why for net, why in _NEVER_V6 if address in net), None)
