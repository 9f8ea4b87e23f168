"""Which session a request belongs to: the first hint present, as a keyed digest. Pure."""

import base64
import hmac
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import msgspec
import orjson
from msgspec import Raw

from tidegate.gateway.unparsed import ABSENT, brief

HEADERS = ("x-tidegate-session", "x-claude-code-session-id", "session-id", "session_id")
MAX_HINT_BYTES = 4_096
"""Longest hint in a body, as JSON: a longer one is none."""
MAX_METADATA_BYTES = 65_536
"""Longest `metadata` that is searched for a hint: more than any dialect allows."""
_HEADER_NAMES = tuple((name, name.encode()) for name in HEADERS)


class Session(msgspec.Struct, frozen=True, gc=False):
    """Session id as it stands in events, and which hint named it."""

    id: str
    source: str


def session_in_headers(headers: Mapping[bytes, bytes], data_key: bytes) -> Session | None:
    """The session a header names, None when none does. Names are lower-case; `data_key` is the tenant's."""
    for name, header in _HEADER_NAMES:
        value = headers.get(header)
        if value:
            return _keyed(data_key, name, value)
    return None


class Hints(Protocol):
    """What of a body may name its session, unparsed."""

    prompt_cache_key: Raw
    metadata: Raw

    def first_user_message(self) -> bytes | None:
        """Raw JSON of the content of the first user message."""
        ...


class _Metadata(msgspec.Struct, gc=False):
    user_id: Raw = ABSENT


_metadata = msgspec.json.Decoder(_Metadata)


def session_in_body(body: Hints, request: str, data_key: bytes) -> Session:
    """The session the body names or begins with; of neither, the request is its own session."""
    cache_key = brief(body.prompt_cache_key, max_bytes=MAX_HINT_BYTES)
    if isinstance(cache_key, str) and cache_key:
        return _keyed(data_key, "prompt_cache_key", cache_key.encode())
    user = _session_in_metadata(body.metadata)
    if user:
        return _keyed(data_key, "metadata.user_id", user.encode())
    first_user_message = body.first_user_message()
    if first_user_message:
        return _keyed(data_key, "first_user_message", first_user_message)
    return Session(request, "request")


def cache_key(body: Hints, session: str | None, data_key: bytes) -> str | None:
    """What keeps the prompts of a session, or those the client named alike, together in a provider's cache; None =
    nothing does. `session` is the session's id, None where the request is its own.

    Keyed by the tenant: tenants that share an account share no key, whatever they name it.
    """
    given = brief(body.prompt_cache_key, max_bytes=MAX_HINT_BYTES)
    if isinstance(given, str) and given:
        return _keyed(data_key, "prompt_cache_key", given.encode()).id
    return session


def _session_in_metadata(metadata: Raw) -> str | None:
    """The session part of `metadata.user_id`: `…_session_<id>`, or the field session_id of a JSON text."""
    if memoryview(metadata)[:1].tobytes() != b"{" or len(metadata) > MAX_METADATA_BYTES:
        return None
    user = brief(_metadata.decode(metadata).user_id, max_bytes=MAX_HINT_BYTES)
    if not isinstance(user, str):
        return None
    _, marker, session = user.rpartition("_session_")
    if marker and session:
        return session
    if user.startswith("{"):
        try:
            inner = orjson.loads(user)
        except orjson.JSONDecodeError:
            return None
        value = inner.get("session_id") if isinstance(inner, dict) else None
        return value if isinstance(value, str) and value else None
    return None


@lru_cache(maxsize=1024)  # of each request whose head is new
def tenant_key(data_key: bytes, tenant: str) -> bytes:
    """A tenant's own data key, derived from the installation's: equal hints of two tenants tell nobody so."""
    return hmac.digest(data_key, b"tenant\0" + tenant.encode(), "sha256")


def _keyed(data_key: bytes, name: str, value: bytes) -> Session:
    digest = hmac.digest(data_key, name.encode() + b"\0" + value, "sha256")
    return Session(base64.urlsafe_b64encode(digest[:15]).decode(), name)
