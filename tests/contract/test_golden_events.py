"""Frozen samples: every event ever written decodes for ever.

A sample is added with its type or version and never changed afterwards.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.events import codec
from tidegate.events.envelope import Draft, Envelope
from tidegate.events.errors import UnknownEvent
from tidegate.events.registry import CURRENT, STRUCTS, TOPIC_OF, type_of
from tidegate.events.topics import BY_NAME

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = sorted(GOLDEN.glob("*.json"))


def ids(path: Path) -> str:
    return path.stem


def decoded(sample: bytes) -> tuple[Envelope, Any]:
    envelope = codec.decode_envelope(sample)
    return envelope, codec.decode_data(envelope)


def encoded(envelope: Envelope, data: Any) -> bytes:
    fields = {name: getattr(envelope, name) for name in Envelope.__struct_fields__}
    return codec.encode(Draft(**{**fields, "data": data}))


def test_every_registered_type_and_version_has_a_frozen_sample() -> None:
    assert {f"{name}.v{version}" for name, version in STRUCTS} <= {path.stem for path in SAMPLES}


@pytest.mark.parametrize("path", SAMPLES, ids=ids)
def test_a_frozen_sample_is_named_by_its_type_and_version(path: Path) -> None:
    """Behind a `+` stands what fields it has that came later."""
    envelope = codec.decode_envelope(path.read_bytes())
    assert path.stem.partition("+")[0] == f"{envelope.type}.v{envelope.v}"


@pytest.mark.parametrize("path", SAMPLES, ids=ids)
def test_a_frozen_sample_decodes_to_todays_struct(path: Path) -> None:
    envelope, data = decoded(path.read_bytes())
    assert type_of(data) == (envelope.type, CURRENT[envelope.type])
    codec.check_known(envelope)


@pytest.mark.parametrize("path", SAMPLES, ids=ids)
def test_a_frozen_sample_of_the_current_version_is_written_again_as_it_was(path: Path) -> None:
    envelope, data = decoded(path.read_bytes())
    if CURRENT[envelope.type] == envelope.v:
        assert json.loads(encoded(envelope, data)) == json.loads(path.read_bytes())


@pytest.mark.parametrize("path", SAMPLES, ids=ids)
def test_fields_that_a_newer_version_adds_are_ignored(path: Path) -> None:
    newer = json.loads(path.read_bytes())
    newer["added"] = {"later": [1]}
    newer["data"]["added"] = "later"
    _, data = decoded(json.dumps(newer).encode())
    assert data == decoded(path.read_bytes())[1]


@pytest.mark.parametrize("path", SAMPLES, ids=ids)
def test_fields_that_are_not_known_yet_have_defaults_for_ever(path: Path) -> None:
    """A field without a default could never have been added: the first writers did not send it."""
    sample = json.loads(path.read_bytes())
    struct = STRUCTS[sample["type"], CURRENT[sample["type"]]]
    required = {f.encode_name for f in msgspec.structs.fields(struct) if f.required}
    for name in set(sample["data"]) - required:
        shorter = {**sample, "data": {k: v for k, v in sample["data"].items() if k != name}}
        decoded(json.dumps(shorter).encode())


@pytest.mark.parametrize("path", SAMPLES, ids=ids)
def test_a_version_of_the_future_stops_the_consumer(path: Path) -> None:
    sample = json.loads(path.read_bytes())
    sample["v"] = CURRENT[sample["type"]] + 1
    envelope = codec.decode_envelope(json.dumps(sample).encode())
    with pytest.raises(UnknownEvent, match=rf"{sample['type']} v{sample['v']}: newest known version"):
        codec.decode_data(envelope)
    with pytest.raises(UnknownEvent, match="upgrade consumers"):
        codec.check_known(envelope)


def test_every_type_belongs_to_a_declared_topic_or_to_all() -> None:
    assert set(TOPIC_OF) == set(CURRENT)
    assert {topic for topic in TOPIC_OF.values() if topic is not None} <= set(BY_NAME)
