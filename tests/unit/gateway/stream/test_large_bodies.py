"""Long bodies are edited and sent from where they lie: the bytes are those of the short way, the copies are not made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.gateway import splice
from tidegate.gateway.crossings import Crossings, Speech
from tidegate.gateway.dialects.history import NOBODY, Trust
from tidegate.gateway.outbound.rest import SLICE_BYTES, Rest

LONG = "word " * (splice.VIEW_FROM_BYTES // 5 + 1)
MESSAGES = [{"role": "user", "content": LONG}]
DOCUMENTS: list[dict[str, Any]] = [
    {"model": "a", "messages": MESSAGES},
    {"messages": MESSAGES, "model": "a"},
    {"stream_options": {}, "messages": MESSAGES, "model": "a"},
    {"model": "a", "stream_options": {"include_usage": False}, "messages": MESSAGES},
    {"stream_options": None, "model": "a", "messages": MESSAGES},
]


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("include_usage", [False, True])
def test_a_long_body_is_edited_to_the_bytes_that_copying_gives(
    document: dict[str, Any], include_usage: bool
) -> None:
    body = json.dumps(document).encode()
    pieces = splice.filled(splice.around_parsed_model(body, include_usage=include_usage), b'"other"')
    assert not isinstance(pieces, bytes)
    copied = splice.filled(splice.around_model(body, include_usage=include_usage), b'"other"')
    assert b"".join(pieces) == copied
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert all(view.obj is body for view in views)
    assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) < 100


def test_a_short_body_stays_one_piece() -> None:
    around = splice.around_parsed_model(b'{"model":"a","messages":[]}', include_usage=False)
    assert splice.filled(around, b'"b"') == b'{"model":"b","messages":[]}'


def test_the_rest_of_a_request_comes_in_slices_that_are_views() -> None:
    long = bytes(range(256)) * (SLICE_BYTES // 256 * 2) + b"end"
    rest = Rest((b"", b"begin", memoryview(long)))
    slices = []
    while not rest.is_over:
        slices.append(rest.take())
    assert b"".join(slices) == b"begin" + long
    assert [len(one) for one in slices] == [5, SLICE_BYTES, SLICE_BYTES, 3]
    assert all(one.obj is long for one in slices[1:])


def test_nothing_is_left_of_an_empty_rest() -> None:
    assert Rest().is_over
    assert Rest((b"",)).is_over


def test_a_long_request_in_other_dialects_is_held_once_and_made_again_when_asked() -> None:
    raw = json.dumps(
        {"model": "a", "messages": [*MESSAGES, {"role": "assistant", "content": "Yes"}]}
    ).encode()
    crossings = Crossings("openai", raw, created_s=1, answer_id="a")
    first = crossings.into("anthropic")
    assert first is not None
    assert crossings.into("anthropic") is first
    assert crossings.into("openai-responses") is not None
    again = crossings.into("anthropic")
    assert again is not None
    assert again is not first
    told = splice.filled(again.around_model, b'"m"')
    assert b"".join(told) == b"".join(splice.filled(first.around_model, b'"m"'))  # type: ignore[arg-type]
    assert not crossings.differ(NOBODY, Trust("a", own=frozenset()))
    assert crossings.for_target(Speech(("openai",))) is None
