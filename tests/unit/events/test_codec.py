"""Bytes ↔ event: what is no envelope is told apart from what is an envelope nobody knows."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events import codec, registry, upcast
from tidegate.events.control import SourceClosed, TargetDisabled
from tidegate.events.envelope import Draft, Envelope
from tidegate.events.errors import NotAnEnvelope, UnknownEvent
from tidegate.events.types import EventId, TargetId

DEEP = b"[" * 100_000 + b"]" * 100_000
FIELDS: dict[str, Any] = {"id": "e1", "type": "TargetDisabled", "v": 1, "ts": 5, "source": "s", "seq": 1}
DATA = {"target": "t1", "actor": "ops"}


def sample(**changes: Any) -> bytes:
    return json.dumps({**FIELDS, "data": DATA, **changes}).encode()


def with_data(raw: bytes, **changes: Any) -> bytes:
    head = json.dumps({**FIELDS, **changes}).encode()
    return head[:-1] + b', "data": ' + raw + b"}"


def test_a_draft_is_read_back_as_it_was_written() -> None:
    draft = Draft(
        id=EventId("e1"),
        type="TargetDisabled",
        v=1,
        ts=5,
        source="s",
        seq=1,
        data=TargetDisabled(target=TargetId("t1"), actor="ops"),
        tenant="acme",
    )
    envelope = codec.decode_envelope(codec.encode(draft))
    assert (envelope.id, envelope.ts, envelope.seq, envelope.tenant, envelope.cause) == (
        "e1",
        5,
        1,
        "acme",
        None,
    )
    assert codec.decode_data(envelope) == draft.data


def test_unknown_is_absent_in_the_bytes_and_never_zero() -> None:
    written = json.loads(
        codec.encode(
            Draft(
                id=EventId("e"),
                type="SourceClosed",
                v=1,
                ts=0,
                source="s",
                seq=0,
                data=SourceClosed(last_seq=0),
            )
        )
    )
    assert written == {
        "id": "e",
        "type": "SourceClosed",
        "v": 1,
        "ts": 0,
        "source": "s",
        "seq": 0,
        "data": {"last_seq": 0},
    }


@pytest.mark.parametrize("missing", [*FIELDS, "data"])
def test_bytes_without_a_field_of_the_envelope_are_no_envelope(missing: str) -> None:
    fields = {**FIELDS, "data": DATA}
    del fields[missing]
    with pytest.raises(NotAnEnvelope, match=missing):
        codec.decode_envelope(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"null",
        b"\xff\xfe",
        b"{",
        sample()[:-1],
        sample() + b"x",
        sample(v="1"),
        sample(seq=1.5),
        sample(ts=None),
        b'{"id":"\xff"}',
        DEEP,
        with_data(DEEP),
        sample()[:-1] + b', "later": ' + DEEP + b"}",
    ],
    ids=range(13),
)
def test_garbage_is_no_envelope(garbage: bytes) -> None:
    with pytest.raises(NotAnEnvelope):
        codec.decode_envelope(garbage)


@given(st.binary(max_size=80) | st.text(max_size=60).map(str.encode))
def test_no_bytes_raise_anything_else(garbage: bytes) -> None:
    with pytest.raises(NotAnEnvelope):
        codec.decode_envelope(garbage)


@given(st.integers(0, len(sample()) - 1), st.integers(0, 255))
def test_a_changed_byte_is_an_event_or_one_of_two_errors(at: int, byte: int) -> None:
    changed = sample()[:at] + bytes([byte]) + sample()[at + 1 :]
    try:
        codec.decode_data(codec.decode_envelope(changed))
    except (NotAnEnvelope, UnknownEvent):
        return
    assert isinstance(codec.decode_envelope(changed), Envelope)


@pytest.mark.parametrize(
    "data", [b"[]", b"1", b"null", b"{}", b'{"target": 1, "actor": "a"}', b'{"target": "\xff"}']
)
def test_a_known_type_whose_data_do_not_fit_stops_the_consumer(data: bytes) -> None:
    envelope = codec.decode_envelope(with_data(data))
    with pytest.raises(UnknownEvent, match="event e1 says TargetDisabled v1 but does not fit it"):
        codec.decode_data(envelope)


@pytest.mark.parametrize("version", [0, -1, -(10**18), 2, 10**30])
def test_versions_nobody_knows_stop_the_consumer(version: int) -> None:
    envelope = codec.decode_envelope(sample(v=version))
    for read in (codec.decode_data, codec.check_known):
        with pytest.raises(UnknownEvent, match=rf"TargetDisabled v{version}"):
            read(envelope)


def test_a_type_nobody_knows_stops_the_consumer() -> None:
    envelope = codec.decode_envelope(sample(type="BudgetEaten"))
    for read in (codec.decode_data, codec.check_known):
        with pytest.raises(UnknownEvent, match="BudgetEaten v1: unknown type; upgrade consumers"):
            read(envelope)


class Renamed(msgspec.Struct, frozen=True):
    """An event at version 3, with a history."""

    subject: str
    cents: int


def to_v2(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "subject": data["target"]}


def to_v3(data: dict[str, Any]) -> dict[str, Any]:
    return {"subject": data["subject"], "cents": data["dollars"] * 100}


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.CURRENT, "Renamed", 3)
    monkeypatch.setitem(registry.STRUCTS, ("Renamed", 3), Renamed)
    monkeypatch.setitem(codec._decoders, ("Renamed", 3), msgspec.json.Decoder(Renamed))
    monkeypatch.setitem(upcast.STEPS, ("Renamed", 1), to_v2)
    monkeypatch.setitem(upcast.STEPS, ("Renamed", 2), to_v3)


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, {"target": "t", "dollars": 2}),
        (2, {"subject": "t", "dollars": 2}),
        (3, {"subject": "t", "cents": 200}),
    ],
)
def test_every_older_version_is_read_as_todays(version: int, data: dict[str, Any]) -> None:
    envelope = codec.decode_envelope(sample(type="Renamed", v=version, data=data))
    assert codec.decode_data(envelope) == Renamed("t", 200)
    codec.check_known(envelope)


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, {"target": "t"}),
        (1, {"dollars": 2}),
        (1, [1]),
        (1, None),
        (2, {"subject": "t", "dollars": None}),
        (2, {"subject": 5, "dollars": 1}),
    ],
)
def test_older_data_that_no_upcaster_can_read_stop_the_consumer(version: int, data: Any) -> None:
    envelope = codec.decode_envelope(sample(type="Renamed", v=version, data=data))
    with pytest.raises(UnknownEvent, match=f"event e1 .*Renamed v{version}"):
        codec.decode_data(envelope)


def test_upcasting_takes_one_step_after_another_from_a_table() -> None:
    steps = {("T", 1): lambda d: {**d, "a": 1}, ("T", 2): lambda d: {**d, "b": d["a"] + 1}}
    assert upcast.upcast("T", 1, 3, {}, steps) == {"a": 1, "b": 2}
    assert upcast.upcast("T", 2, 3, {"a": 5}, steps) == {"a": 5, "b": 6}
    assert upcast.upcast("T", 3, 3, {"c": 1}, steps) == {"c": 1}
    with pytest.raises(KeyError):
        upcast.upcast("T", 1, 4, {}, steps)
    with pytest.raises(KeyError):
        upcast.upcast("U", 1, 2, {}, steps)


def test_the_type_of_data_is_its_name_and_current_version() -> None:
    assert registry.type_of(SourceClosed(last_seq=1)) == ("SourceClosed", 1)
    with pytest.raises(KeyError):
        registry.type_of(Renamed("t", 1))
