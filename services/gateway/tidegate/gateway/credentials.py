"""API keys: 256 random bits with prefix and checksum; we keep only digests. Pure."""

import base64
import hashlib
import zlib
from collections.abc import Iterable

import msgspec

from tidegate.events.config import Key, Routing, Tenant
from tidegate.events.types import RouteName

PREFIX = "tg_"
_SECRET_BYTES = 32
_CHECK_CHARS = 6


class Principal(msgspec.Struct, frozen=True):
    """Who asks: the key, its tenant, and the routes both may use (None = every route)."""

    key: Key
    tenant: Tenant
    routes: frozenset[RouteName] | None

    def may_use(self, route: str) -> bool:
        """True when neither the key nor its tenant excludes the route."""
        return self.routes is None or route in self.routes


def key_text(secret: bytes) -> str:
    """The key a tenant receives, once: prefix, 256 bits in base64url, CRC-32 of that in hex (6 digits)."""
    if len(secret) != _SECRET_BYTES:
        raise ValueError(f"a key needs {_SECRET_BYTES} random bytes, got {len(secret)}")
    body = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    return f"{PREFIX}{body}{_check(body)}"


def _check(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"[-_CHECK_CHARS:]


def key_digest(key: str | bytes) -> str:
    """What the config stores of a key. A fast hash is right: the key has 256 random bits."""
    raw = key.encode() if isinstance(key, str) else key
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def presented_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The key in `Authorization: Bearer` or `x-api-key`; None when there is none or two differ."""
    found: bytes | None = None
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            key = value[7:].strip()
        elif name == b"x-api-key":
            key = value.strip()
        else:
            continue
        if found is not None and found != key:
            return None
        found = key
    return found


class KeyDirectory:
    """Digest → principal, built once per config. The whole token is digested, never a part of it."""

    def __init__(self, routing: Routing) -> None:
        tenants = {tenant.id: tenant for tenant in routing.tenants}
        self._by_digest = {
            key.digest: Principal(key, tenants[key.tenant], _allowed(key, tenants[key.tenant]))
            for key in routing.keys
            if key.tenant in tenants
        }

    def find(self, key: bytes) -> Principal | None:
        """The principal of a presented key, None when unknown."""
        return self._by_digest.get(key_digest(key))


def _allowed(key: Key, tenant: Tenant) -> frozenset[RouteName] | None:
    # A key can only narrow what its tenant may use.
    if key.routes is None:
        return None if tenant.routes is None else frozenset(tenant.routes)
    if tenant.routes is None:
        return frozenset(key.routes)
    return frozenset(key.routes) & frozenset(tenant.routes)
