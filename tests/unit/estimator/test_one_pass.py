"""What the engine decodes in one pass is what envelope and data decode to one after the other; all else falls back."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.journals import make_ids
from support.signals import records
from tidegate.estimator.engine import Engine
from tidegate.estimator.fold import FOLDED
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.config import Routing
from tidegate.events.errors import NotAnEnvelope, UnknownEvent
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.signals import AttemptStarted
from tidegate.events.topics import SIGNALS

WHOLE = codec.whole_decoder(FOLDED, skipped=(AttemptStarted,))
NAMES = {kind.__name__ for kind in FOLDED}
VALUES = [record.value for record in records(400, pools=5) if record.value is not None]


def one_pass(value: bytes) -> tuple[str, Any] | None:
    """(type, fields) of what the fast way decodes, None when it leaves the record to the other way."""
    try:
        event = WHOLE.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return type(event).__name__, _fields(event)


def long_way(value: bytes) -> tuple[str, Any] | None:
    """The same by `decode_envelope` and `decode_data`; None for what is an error there."""
    try:
        envelope = codec.decode_envelope(value)
        codec.check_known(envelope)
        data = codec.decode_data(envelope) if envelope.type in NAMES else bytes(envelope.data)
    except (NotAnEnvelope, UnknownEvent):
        return None
    return envelope.type, {**_fields(envelope), "data": data}


def _fields(event: Any) -> dict[str, Any]:
    found = {name: getattr(event, name) for name in codec.Whole.__struct_fields__}
    if isinstance(found["data"], msgspec.Raw):
        found["data"] = bytes(found["data"])
    return found


def agree(value: bytes) -> bool:
    """True when the fast way decoded it; it may leave anything to the long way, but not differ from it."""
    fast = one_pass(value)
    assert fast is None or fast == long_way(value)
    return fast is not None


def test_every_signal_of_today_is_decoded_in_one_pass() -> None:
    assert all(agree(value) for value in VALUES)


junk = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=5),
    st.just([]), st.just({}), st.just("FirstTokenSeen"), st.just("SourceClosed"), st.just(2),
)  # fmt: skip


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """A sound event with fields taken away, replaced, renamed, added, doubled or put in another order."""
    event = json.loads(draw(st.sampled_from(VALUES)))
    place = draw(st.sampled_from([event, event["data"]]))
    pairs = list(place.items())
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(pairs) - 1))
        match draw(st.sampled_from(["drop", "replace", "rename", "add", "double", "shuffle"])):
            case "drop":
                del pairs[at]
            case "replace":
                pairs[at] = (pairs[at][0], draw(junk))
            case "rename":
                pairs[at] = (draw(st.text(max_size=4)), pairs[at][1])
            case "add":
                pairs.insert(at, ("new", draw(junk)))
            case "double":
                pairs.append((pairs[at][0], draw(st.one_of(junk, st.just(pairs[at][1])))))
            case _:
                draw(st.randoms(use_true_random=False)).shuffle(pairs)
    inner = "{" + ",".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in pairs) + "}"
    if place is event:
        return inner.encode()
    return json.dumps({**event, "data": None}).replace('"data": null', f'"data": {inner}').encode()


@pytest.mark.unmeasured
@given(bent())
@settings(max_examples=400, deadline=None)
def test_a_bent_event_is_decoded_alike_or_left_to_the_long_way(value: bytes) -> None:
    agree(value)


@pytest.mark.unmeasured
@given(st.sampled_from(VALUES), st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_event_is_decoded_alike_or_left_to_the_long_way(value: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(value) - 1))
    cut = data.draw(st.integers(0, 3))
    agree(value[:at] + data.draw(st.binary(max_size=3)) + value[at + cut :])


class Alarms:
    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []

    def dead_letter(self, record: Record, error: str) -> None:
        self.said.append(("dead letter", record.offset))

    def stopped(self, where: TopicPartition, error: str) -> None:
        self.said.append(("stopped", where.partition))


async def told(values: Sequence[bytes | None], size: int) -> tuple[Any, ...]:
    """What an engine made of one partition's records, taken in batches."""
    clock, alarms = ManualClock(), Alarms()
    engine = Engine(MemoryEventLog(clock), clock, make_ids(clock), Routing(), alarms, 0.25)
    await engine.open()
    rows = [Record(SIGNALS.name, 3, offset, b"k", value, 7) for offset, value in enumerate(values)]
    for at in range(0, len(rows), size):
        engine.take(rows[at : at + size])
    shard = engine.shards[3]
    states = [engine.state.target_row(target) for target in sorted(engine.state.targets)]
    return alarms.said, shard.position, shard.marks, engine.applied, engine.duplicates, states


def _source_closed(seq: int) -> bytes:
    return (
        b'{"id":"c","type":"SourceClosed","v":1,"ts":1,"source":"gw-0@1","seq":%d,"data":{"last_seq":1}}'
        % seq
    )


ODD: list[bytes | None] = [
    None, b"", b"{", b"\xff", b"[]", VALUES[0], VALUES[3], _source_closed(150), _source_closed(3),
    VALUES[5].replace(b'"v":1', b'"v":2', 1), VALUES[7].replace(b'"seq":', b'"sequel":', 1),
    VALUES[9].replace(b'"attempt"', b'"attempts"', 1),
]  # fmt: skip


@pytest.mark.unmeasured
@given(st.lists(st.tuples(st.integers(0, 299), st.sampled_from(ODD)), max_size=4), st.integers(1, 50))
@settings(max_examples=40, deadline=None)
async def test_the_engine_does_with_one_pass_what_it_does_the_long_way(
    odd: list[tuple[int, bytes | None]], size: int
) -> None:
    values: list[bytes | None] = list(VALUES[:300])
    for at, value in odd:
        values.insert(at, value)
    fast = await told(values, size)
    with pytest.MonkeyPatch.context() as patch:

        def refuse(value: bytes) -> codec.Whole:
            raise msgspec.ValidationError("left to the long way")

        patch.setattr("tidegate.estimator.engine._decode", refuse)
        assert await told(values, random.Random(size).randint(1, 50)) == fast
