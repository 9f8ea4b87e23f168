"""A translated stream does not depend on how its bytes were cut, on line ends, or on comments."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.dialect_answers import WIRES, stream, whole
from support.dialect_calls import CONTEXT, streamed
from support.dialect_corpus import spec
from support.dialect_mutations import mutated
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import AnswerMalformed
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.phases import Step
from tidegate.gateway.sse import BOM

PAIRS: list[tuple[Wire, Wire]] = [
    (client, upstream) for client in WIRES for upstream in WIRES if client != upstream
]


def run(client: Wire, upstream: Wire, reads: list[bytes]) -> tuple[bytes, Step, Any]:
    """All that was sent, the step that ended it without what that one sent, and the usage."""
    phases = TranslatedPhases(upstream, client, CONTEXT)
    out = b""
    last = Step()
    for data in reads:
        step = phases.feed(data)
        assert step.forward == b"" or step.forward.endswith(b"\n\n")
        assert bool(step.forward) <= step.committed or step.finished
        out += step.forward
        if step.finished and not last.finished:
            last = step
    step = phases.end()
    if not last.finished:
        last = step
        out += step.forward
    return out + (last.terminal or b""), msgspec.structs.replace(last, forward=b""), phases.tokens


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends) if end > start]


def rewritten(data: bytes, random: Random) -> bytes:
    """The same events with other line ends, and comments in between."""
    ends = random.choice([[b"\n"], [b"\r\n"], [b"\r"], [b"\n", b"\r\n"]])
    out = random.choice([b"", BOM])
    for event in data.removesuffix(b"\n\n").split(b"\n\n"):
        end = random.choice(ends)
        if random.random() < 0.2:
            out += b": keep-alive" + end + random.choice([b"", end])
        lines = event.split(b"\n")
        if random.random() < 0.5:
            lines = [line.replace(b": ", b":", 1) for line in lines]
        if random.random() < 0.2:
            lines.insert(0, b"id: 5")
        out += end.join(lines) + end + end
    return out


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 50), places=st.lists(st.integers(0, 20_000), max_size=40))
def test_the_same_answer_comes_out_however_it_came_in(
    client: Wire, upstream: Wire, seed: int, places: list[int]
) -> None:
    random = Random(seed)
    data = stream(upstream, spec(random, upstream), random)
    expected = run(client, upstream, [data])
    assert expected[1].terminal is not None
    assert run(client, upstream, cut(data, places)) == expected
    assert run(client, upstream, cut(rewritten(data, random), places)) == expected


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_byte_by_byte_is_as_good_as_at_once(client: Wire, upstream: Wire) -> None:
    random = Random(5)
    data = stream(upstream, spec(random, upstream), random)
    expected = run(client, upstream, [data])
    for end in (b"\n", b"\r\n", b"\r"):
        other = data.replace(b"\n", end)
        assert run(client, upstream, [other[at : at + 1] for at in range(len(other))]) == expected


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_stream_cut_anywhere_has_no_success_marker(client: Wire, upstream: Wire) -> None:
    random = Random(6)
    data = stream(upstream, spec(random, upstream), random)
    expected, _, _ = run(client, upstream, [data])
    last = data[:-2].rindex(b"\n\n") + 2  # where the terminal event begins
    for end in range(0, last + 12, 23):
        out, step, _ = run(client, upstream, [data[:end]] if end else [])
        assert step.terminal is None
        assert step.fault is None
        assert step.error is None
        assert expected.startswith(out)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_terminal_event_that_lacks_its_blank_line_counts(client: Wire, upstream: Wire) -> None:
    random = Random(7)
    data = stream(upstream, spec(random, upstream), random)
    expected = run(client, upstream, [data])
    assert run(client, upstream, [data[:-1]]) == expected
    assert run(client, upstream, [data[:-2]]) == expected


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_bytes_after_the_end_are_dropped(client: Wire, upstream: Wire) -> None:
    random = Random(8)
    data = stream(upstream, spec(random, upstream), random)
    expected = run(client, upstream, [data])
    assert run(client, upstream, [data, data]) == expected
    assert run(client, upstream, [data + data]) == expected


def _attack(client: Wire, upstream: Wire, seed: int) -> None:
    """Odd values, repeated, dropped and shuffled events: a fault with a name or an answer, nothing else."""
    random = Random(seed)
    answer = spec(random, upstream)
    units = stream(upstream, answer, random).removesuffix(b"\n\n").split(b"\n\n")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(units))
        deed = random.random()
        head, _, text = units[at].partition(b"data: ")
        if deed < 0.6 and text.startswith(b"{"):
            units[at] = head + b"data: " + json.dumps(mutated(json.loads(text), random)).encode()
        elif deed < 0.7:
            units.insert(random.randrange(len(units)), units[at])
        elif deed < 0.8 and len(units) > 1:
            units.pop(at)
        elif deed < 0.9:
            random.shuffle(units)
        else:
            units[at] = random.randbytes(20)
    _, step, _ = run(client, upstream, [b"\n\n".join(units) + b"\n\n"])
    assert step.finished
    assert step.fault is None or step.fault
    body = json.dumps(mutated(whole(upstream, answer), random)).encode()
    with suppress(AnswerMalformed):
        translate.answer(client, upstream, body, CONTEXT)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_malformed_answer_is_a_named_fault_and_never_a_crash(client: Wire, upstream: Wire) -> None:
    for seed in range(60):
        _attack(client, upstream, seed)


@pytest.mark.nightly
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_many_malformed_answers_are_named_faults(client: Wire, upstream: Wire) -> None:
    for seed in range(5_000):
        _attack(client, upstream, seed)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_what_is_no_json_object_is_a_fault(client: Wire, upstream: Wire) -> None:
    for data in (b"data: {\n\n", b"data: 5\n\n", b"data: []\n\n", b"data: \xff\n\n", b"data: {}x\n\n"):
        step, _ = streamed(client, upstream, data)
        assert step.fault == "an event is not a JSON object"
        assert step.finished


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_event_longer_than_the_bound_is_a_fault(client: Wire, upstream: Wire) -> None:
    phases = TranslatedPhases(upstream, client, CONTEXT, max_event_bytes=100)
    step = phases.feed(b"data: " + b"x" * 200)
    assert step.fault == "an event is longer than 100 bytes"
    assert phases.feed(b"more").finished
    assert phases.end().finished
