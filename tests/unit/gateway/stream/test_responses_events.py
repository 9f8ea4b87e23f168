"""Responses streams: what commits, what ends, what failed; the same however the bytes are cut."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.money import Tokens
from tidegate.gateway.phases import Step, StreamPhases

USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 5},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 29,
}


def event(kind: str, *, named: bool = True, **fields: Any) -> bytes:
    name = b"event: %b\n" % kind.encode() if named else b""
    return name + b"data: %b\n\n" % orjson.dumps({"type": kind, **fields})


CREATED = event("response.created", response={"id": "r", "model": "gpt-x", "usage": None, "error": None})
ADDED = event("response.output_item.added", output_index=0, item={"type": "message", "content": []})
HELLO = event("response.output_text.delta", delta="hello", item_id="i")
WORDS = event("response.output_text.delta", delta="response.completed and error", item_id="i")
DONE = event("response.completed", response={"id": "r", "model": "gpt-x", "usage": USAGE, "error": None})


def phases() -> StreamPhases:
    return StreamPhases("openai-responses", client_wants_usage=True)


@pytest.mark.parametrize(
    "first",
    [
        HELLO,
        event("response.function_call_arguments.delta", delta="{"),
        event("response.reasoning_summary_text.delta", delta="so"),
        event("response.refusal.delta", delta="no"),
        event("response.output_item.done", item={"type": "reasoning", "encrypted_content": "x"}),
        event("response.image_generation_call.partial_image", partial_image_b64="x"),
    ],
)
def test_the_first_content_commits_and_releases_what_was_held(first: bytes) -> None:
    stream = phases()
    assert stream.feed(CREATED + ADDED) == Step()
    assert stream.feed(first) == Step(CREATED + ADDED + first, committed=True)
    assert stream.content_events == 1
    assert stream.model == "gpt-x"


@pytest.mark.parametrize(
    "nothing", [event("response.output_text.delta", delta=""), b"data: [DONE]\n\n", ADDED]
)
def test_what_carries_no_content_commits_nothing(nothing: bytes) -> None:
    assert phases().feed(nothing) == Step()


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
def test_the_terminal_event_is_held_and_tells_the_usage(kind: str) -> None:
    stream = phases()
    last = event(kind, response={"usage": USAGE})
    stream.feed(HELLO)
    step = stream.feed(WORDS + last)
    assert (step.forward, step.terminal, step.finished) == (WORDS, last, True)
    assert stream.tokens == Tokens(input_uncached=15, cache_read=5, output=9, reasoning=4)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (
            event("response.failed", response={"error": {"code": "server_error", "message": "m"}}),
            {"code": "server_error", "message": "m"},
        ),
        (event("error", code="x", message="m", param=None), {"code": "x", "message": "m", "param": None}),
        (event("error", error={"type": "overloaded_error"}), {"type": "overloaded_error"}),
        (b'event: error\ndata: {"message":"m"}\n\n', {"code": None, "message": "m", "param": None}),
    ],
)
def test_a_failed_response_is_an_error_and_no_end(failure: bytes, error: dict[str, Any]) -> None:
    for before in (b"", HELLO):
        stream = phases()
        if before:
            stream.feed(before)
        step = stream.feed(failure)
        assert step.error == {"error": error}
        assert step.terminal is None
        assert step.finished


def test_an_event_that_is_no_object_is_a_fault_and_one_of_an_odd_type_is_not() -> None:
    assert phases().feed(b"data: [1]\n\n").fault is not None
    assert phases().feed(b'data: {"type":{"a":1},"response":5}\n\n') == Step()
    assert phases().feed(event("response.created", response={"model": 5})) == Step()


@given(
    st.lists(st.sampled_from([ADDED, HELLO, WORDS, b": c\n", event("response.in_progress", response={})])),
    st.lists(st.integers(0, 3000), max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_output_does_not_depend_on_cuts_or_line_ends(
    middle: list[bytes], cuts: list[int], end: bytes
) -> None:
    stream = b"".join([CREATED, *middle, DONE]).replace(b"\n", end) + b": late\n"
    edges = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    machine, out, terminal = phases(), b"", b""
    for a, b in itertools.pairwise(edges):
        step = machine.feed(stream[a:b])
        assert (step.error, step.fault) == (None, None)
        out += step.forward
        terminal = terminal or step.terminal or b""
    assert stream.startswith(out + terminal)
    assert stream[len(out + terminal) :].strip() in {b": late", b""}
    assert terminal.startswith(b"event: response.completed")
    assert machine.tokens.output == 9
