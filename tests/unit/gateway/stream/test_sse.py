"""Server-sent events: the same events for every cut and every kind of line end."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.sse_reader import Event, SseReader, reference
from tidegate.gateway.sse import BOM, SseOverflow, UnitCutter, parse_unit, split_units

FAIR = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data:  c", b"data", b"data:", b": comment", b":", b"event: x", b"event:y", b"id: 7",
     b"id", b"id: \0", b"retry: 10", b"unknown: z", b"data: \xe4\xb8\xad", b"", b"", b""]
)  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.tuples(st.booleans(), st.lists(st.tuples(LINES, ENDS), max_size=20)).map(
    lambda parts: (BOM if parts[0] else b"") + b"".join(line + end for line, end in parts[1])
)


def parsed(pieces: list[bytes]) -> list[Event]:
    parser = SseReader()
    return [event for piece in pieces for event in parser.feed(piece)]


@FAIR
@given(STREAMS)
def test_the_whole_stream_parses_as_the_standard_says(stream: bytes) -> None:
    assert parsed([stream]) == reference(stream)


@pytest.mark.slow
@FAIR
@given(STREAMS, st.data())
def test_every_cut_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stream)))
    assert parsed([stream[:cut], stream[cut:]]) == reference(stream)
    assert parsed([bytes([byte]) for byte in stream]) == reference(stream)


@FAIR
@given(st.binary(max_size=60), st.integers(1, 7))
def test_units_are_the_stream_and_only_its_unfinished_end_is_held(stream: bytes, size: int) -> None:
    cutter = UnitCutter()
    ready = b"".join(cutter.take(stream[at : at + size]) for at in range(0, len(stream), size))
    assert ready + cutter.rest() == stream
    assert b"".join(split_units(ready)) == ready


@pytest.mark.slow
@FAIR
@given(STREAMS)
def test_what_is_released_never_ends_inside_an_event(stream: bytes) -> None:
    cutter = UnitCutter()
    released = b""
    for byte in stream:
        released += cutter.take(bytes([byte]))
        assert reference(released) == reference(released + b"\n\n")


def test_a_comment_line_does_not_wait_for_a_blank_line() -> None:
    cutter = UnitCutter()
    assert cutter.take(b": ping\n") == b": ping\n"
    assert cutter.take(b": pi") == b""
    assert cutter.take(b"ng\r\ndata: x\n") == b": ping\r\n"
    assert cutter.take(b": inside\n") == b""
    assert cutter.take(b"\n") == b"data: x\n: inside\n\n"


def test_a_multi_line_event_joins_its_lines() -> None:
    assert parse_unit(b"event: e\rdata: {\r\ndata:  }\n\n") == (b"e", b"{\n }")


@pytest.mark.parametrize("torn", [b"data: x", b": c", b"data: x\r", b"data: x\ndata: y\n", b"data: x\r\ny"])
def test_splitting_a_torn_block_ends_and_loses_nothing(torn: bytes) -> None:
    assert list(split_units(torn)) == [torn]


def test_an_event_without_data_is_not_dispatched() -> None:
    assert parsed([b"event: x\n\nid: 3\n\ndata: a\n\n"]) == [Event("message", b"a", b"3")]


@pytest.mark.parametrize("piece", [1, 100])
def test_an_endless_line_is_refused_at_its_bound(piece: int) -> None:
    cutter = UnitCutter(max_bytes=1000)
    for _ in range(1000 // piece):
        assert cutter.take(b"x" * piece) == b""
    with pytest.raises(SseOverflow, match="1000 bytes"):
        cutter.take(b"x" * piece)


def test_a_long_event_in_many_reads_is_not_quadratic_and_whole() -> None:
    cutter = UnitCutter()
    body = b"data: " + b"x" * 3_000_000 + b"\n\n"
    ready = b"".join(cutter.take(body[at : at + 1000]) for at in range(0, len(body), 1000))
    assert ready == body
