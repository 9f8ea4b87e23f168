"""Bytes ↔ event. Unknown fields are ignored; unknown types and versions are errors that stop a consumer."""

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any, Literal

import msgspec

from tidegate.events.bounds import Ns, Seq
from tidegate.events.envelope import Draft, Envelope
from tidegate.events.errors import BeyondBounds, NotAnEnvelope, UnknownEvent
from tidegate.events.registry import CURRENT, STRUCTS
from tidegate.events.types import EventId
from tidegate.events.upcast import upcast

_envelopes = msgspec.json.Decoder(Envelope)
_raw = msgspec.json.Decoder(dict[str, Any])
_decoders: dict[tuple[str, int], msgspec.json.Decoder[Any]] = {
    key: msgspec.json.Decoder(struct) for key, struct in STRUCTS.items()
}


_OUT_OF_BOUNDS = (
    "Expected `int` >= ",
    "Expected `int` <= ",
    "Integer value out of range",
    "Number out of range",
)
"""How msgspec begins to tell of a number outside what its field holds; other misfits may be a newer build's."""

encode: Callable[[Draft], bytes] = msgspec.json.Encoder().encode
"""The draft as JSON bytes. The encoder's own method, not a call of it: every event passes here."""


def decode_envelope(value: bytes | memoryview) -> Envelope:
    """The envelope with its data still raw. Raises NotAnEnvelope."""
    try:
        return _envelopes.decode(value)
    except (msgspec.DecodeError, RecursionError) as error:  # RecursionError: nested too deep to read
        raise NotAnEnvelope(f"record is no envelope: {error}") from error


class Whole(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """An event read in one pass: its envelope, whose type is the class, and its data already typed."""

    id: EventId
    v: int
    ts: Ns
    source: str
    seq: Seq
    data: Any
    tenant: str | None = None
    request: str | None = None
    session: str | None = None
    cause: str | None = None


def whole_decoder(read: Iterable[type], skipped: Iterable[type]) -> msgspec.json.Decoder[Whole]:
    """Decodes events of these types at today's version, those in `skipped` with their data still raw.

    It raises msgspec.ValidationError or DecodeError for everything else, sound or not: `decode_envelope` and
    `decode_data` then tell which. What it does decode they would decode to the same.
    """
    kinds: list[Any] = []
    for struct, data in [*((kind, kind) for kind in read), *((kind, msgspec.Raw) for kind in skipped)]:
        name, version = struct.__name__, CURRENT[struct.__name__]
        fields = [("v", Literal[version]), ("data", data)]
        kinds.append(
            msgspec.defstruct(name, fields, bases=(Whole,), frozen=True, kw_only=True, gc=False, tag=name)
        )
    return msgspec.json.Decoder(reduce(or_, kinds))


def decode_data(envelope: Envelope) -> Any:
    """The typed data of an envelope, upcast to today's version.

    Raises UnknownEvent, BeyondBounds: the first may be known to a newer build, the second to none.
    """
    decoder = _decoders.get((envelope.type, envelope.v))
    try:
        if decoder is not None and CURRENT[envelope.type] == envelope.v:
            return decoder.decode(envelope.data)
        return _decode_old(envelope)
    except (msgspec.DecodeError, RecursionError) as error:
        if str(error).startswith(_OUT_OF_BOUNDS):
            raise BeyondBounds(f"event {envelope.id} is a {envelope.type} beyond bounds: {error}") from error
        raise UnknownEvent(
            f"event {envelope.id} says {envelope.type} v{envelope.v} but does not fit it: {error}"
        ) from error


def check_known(envelope: Envelope) -> None:
    """Raises UnknownEvent when type or version are not known; for consumers that need not read the data."""
    if CURRENT.get(envelope.type) != envelope.v:
        _decode_old(envelope)


def _decode_old(envelope: Envelope) -> Any:
    current = CURRENT.get(envelope.type)
    if current is None or envelope.v > current:
        known = "unknown type" if current is None else f"newest known version {current}"
        raise UnknownEvent(
            f"event {envelope.id} is {envelope.type} v{envelope.v}: {known}; upgrade consumers"
        )
    try:
        data = upcast(envelope.type, envelope.v, current, _raw.decode(envelope.data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # No step from this version, or one that does not find what it reads.
        raise UnknownEvent(
            f"event {envelope.id} is {envelope.type} v{envelope.v}: cannot be upcast to v{current} ({error!r})"
        ) from error
    return msgspec.convert(data, STRUCTS[envelope.type, current])
