"""The one envelope around every event."""

from typing import Any

import msgspec

from tidegate.events.bounds import Ns, Seq
from tidegate.events.types import EventId


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event as read: `data` is still raw, `registry` knows its type."""

    id: EventId
    type: str
    v: int
    ts: Ns
    """Source's wall clock, nanoseconds since the epoch."""
    source: str
    seq: Seq
    data: msgspec.Raw
    tenant: str | None = None
    request: str | None = None
    session: str | None = None
    cause: str | None = None
    """Id of the event that caused this one."""


class Draft(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event as written: the same fields, `data` typed."""

    id: EventId
    type: str
    v: int
    ts: Ns
    source: str
    seq: Seq
    data: Any
    tenant: str | None = None
    request: str | None = None
    session: str | None = None
    cause: str | None = None
