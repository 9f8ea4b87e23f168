"""What each parser promises for any bytes: one function a parser, which ends, or raises where a promise is broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any, Literal

import httptools
import msgspec
import orjson

from support.around import joined
from support.dialect_answers import WIRES
from support.dialect_calls import CONTEXT
from support.sse_reader import Event, SseReader, reference
from tidegate.events.types import Dialect
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.faults import AnswerMalformed, RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.outbound.framing import MAX_HEADERS, FramingFault, ResponseReader
from tidegate.gateway.phases import StreamPhases
from tidegate.gateway.rate_limits import Limit, limits_of, told
from tidegate.gateway.refusals import Refusal
from tidegate.gateway.request_head import Fields, read_head
from tidegate.gateway.server_limits import ServerLimits
from tidegate.gateway.splice import Around, SpliceRefused, around_model, around_parsed_model
from tidegate.gateway.sse import UnitCutter, split_units
from tidegate.gateway.taxonomy import classify_answer
from tidegate.gateway.timing import MAX_AHEAD_NS
from tidegate.gateway.usage import MAX_COUNT
from tidegate.runtime.pricebook import csv_table, litellm, price_file
from tidegate.runtime.pricebook.entries import Unreadable

PAIRS = list(product(WIRES, WIRES))
"""Client and upstream; the first byte of an input chooses one."""
QUIRKS = (PLAIN, Quirks(thinking="budget", no_strict_tools=True, no_developer_role=True, no_sampling=True))
LIMITS = ServerLimits()
ENOUGH_READS = 512


def reads(data: bytes, step: int) -> Iterator[bytes]:
    """The same bytes in pieces of one size; 0 is at once."""
    size = max(step or len(data), len(data) // ENOUGH_READS, 1)
    return (data[at : at + size] for at in range(0, len(data), size))


def sse(data: bytes) -> None:
    """First byte: size of the reads. The events are those of the standard, and no byte is lost or made."""
    size, stream = data[:1], data[1:]
    cutter, reader = UnitCutter(), SseReader()
    released = b""
    events: list[Event] = []
    for piece in reads(stream, size[0] if size else 0):
        block = cutter.take(piece)
        assert b"".join(split_units(block)) == block
        released += block
        events += reader.feed(piece)
    assert released + cutter.rest() == stream
    assert events == reference(stream)


def _outcome(phases: StreamPhases | TranslatedPhases, pieces: Iterator[bytes]) -> Any:
    """All that a stream came to, however it was read."""
    out = b""
    ends: list[Any] = []
    for piece in pieces:
        step = phases.feed(piece)
        out += step.forward
        assert not step.forward or step.committed or step.finished
        ends += [(step.terminal, step.error, step.fault)] if step.finished and not ends else []
    step = phases.end()
    out += step.forward
    ends = ends or [(step.terminal, step.error, step.fault)]
    assert sum(part is not None for part in ends[0]) <= 1, "one end at most"
    return out, ends, phases.committed, phases.tokens, phases.model, phases.content_events


def phases(data: bytes) -> None:
    """First byte: dialect and whether usage was asked for; second: size of the reads."""
    head, stream = data[:2], data[2:]
    if len(head) < 2:
        return
    dialect, wants_usage = WIRES[head[0] % 3], bool(head[0] & 128)
    made = [
        _outcome(StreamPhases(dialect, client_wants_usage=wants_usage), reads(stream, size))
        for size in (0, head[1])
    ]
    assert made[0] == made[1]


def decoders(data: bytes) -> None:
    """First byte: client and upstream; second: size of the reads."""
    head, stream = data[:2], data[2:]
    if len(head) < 2:
        return
    client, upstream = PAIRS[head[0] % 9]
    made = [
        _outcome(TranslatedPhases(upstream, client, CONTEXT), reads(stream, size)) for size in (0, head[1])
    ]
    assert made[0] == made[1]
    text = made[0][0]
    assert not text or text.endswith(b"\n\n")


def answers(data: bytes) -> None:
    """First byte: client and upstream. A whole answer is read, or refused as malformed."""
    if data:
        client, upstream = PAIRS[data[0] % 9]
        with suppress(AnswerMalformed):
            made = translate.answer(client, upstream, data[1:], CONTEXT)
            assert client == upstream or isinstance(orjson.loads(made), dict)


def requests(data: bytes) -> None:
    """First byte: client, upstream and quirks. A request is read, or refused with the field's name."""
    try:
        body = orjson.loads(data[1:])
    except orjson.JSONDecodeError:
        return
    if not isinstance(body, dict):
        return
    client, upstream = PAIRS[data[0] % 9]
    before = orjson.dumps(body)
    with suppress(RequestRefused):
        made = translate.request(
            client,
            upstream,
            body,
            model="real",
            quirks=QUIRKS[data[0] >= 128],
            trust=translate.Trust("a", own=frozenset()),
        )
        assert orjson.loads(made.body)["model"] == "real"
    assert orjson.dumps(body) == before, "the client's body is used for other targets, too"


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # a text, so that a NaN is equal to itself


class _HasModel(msgspec.Struct):
    model: str


_HAS_MODEL = msgspec.json.Decoder(_HasModel)


def splice(data: bytes) -> None:
    """First byte: whether usage is asked for. Only what was to be changed is changed, or the body is refused."""
    body, include_usage = data[1:], bool(data[:1] > b"\x7f")
    try:
        body.decode()
        _HAS_MODEL.decode(body)
        edits: list[Callable[..., Around]] = [around_model, around_parsed_model]
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        edits = [around_model]
    made: set[bytes | None] = set()
    for edit in edits:
        try:
            made.add(joined(edit(body, include_usage=include_usage), b'"real"'))
        except SpliceRefused:
            made.add(None)
    for edited in made - {None}:
        assert edited is not None
        try:
            before, after = json.loads(body), json.loads(edited)
        except (ValueError, RecursionError):
            continue  # not text, or too deep: nobody reads it
        before["model"] = "real"
        if include_usage:
            before["stream_options"] = (before.get("stream_options") or {}) | {"include_usage": True}
        assert _plain(after) == _plain(before)
    assert len(made) == 1, "both ways make the same edit"


class _Head:
    """What the HTTP parser tells of one request's head."""

    def __init__(self) -> None:
        self.url = b""
        self.fields: Fields = []
        self.is_whole = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_whole = True


def request_head(data: bytes) -> None:
    """A head that passes has one meaning: one host, one framing, a path that no other reader reads differently."""
    head = _Head()
    parser = httptools.HttpRequestParser(head)
    with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        parser.feed_data(data)
    if not head.is_whole:
        return
    found = read_head(parser.get_method(), parser.get_http_version(), head.url, head.fields, LIMITS)
    if isinstance(found, Refusal):
        return
    names = [name for name, _ in head.fields]
    assert names.count(b"host") == 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    assert 0 <= found.content_length <= LIMITS.max_body_bytes
    assert found.path.isprintable()
    assert found.raw_path[:1] in {b"/", b"*"}
    assert not {b"\r", b"\n", b"\0"} & {bytes([each]) for _, value in found.fields for each in value}
    assert all(b"_" not in name or name == b"session_id" for name, _ in found.fields)


def _read_response(data: bytes, size: int, *, is_head_request: bool) -> Any:
    """What an upstream's bytes come to: None where they break the protocol."""
    reader = ResponseReader()
    reader.begin(is_head_request=is_head_request)
    try:
        for piece in reads(data, size):
            reader.feed(piece)
    except FramingFault:
        return None
    body = b"".join(reader.parts)
    assert reader.is_complete or not reader.may_reuse()
    assert not (reader.is_complete and reader.ends_at_eof())
    assert reader.is_head_complete or not (body or reader.is_complete)
    if reader.is_head_complete:
        assert 200 <= reader.status < 600
        assert len(reader.headers) <= MAX_HEADERS
        assert not body or not (is_head_request or reader.status in {204, 304})
        for name, value in reader.headers:
            assert name == name.lower()
            assert not {b"\r", b"\n", b"\0"} & {bytes([each]) for each in name + value}
    # Of a head that is not whole, how much was seen depends on where it was cut.
    return reader.is_head_complete and (
        reader.status,
        reader.headers,
        body,
        reader.is_complete,
        reader.may_reuse(),
    )


def framing(data: bytes) -> None:
    """First byte: whether HEAD was asked; second: size of the reads. An answer is the same however it was read."""
    head, answer = data[:2], data[2:]
    if len(head) == 2:
        made = [_read_response(answer, size, is_head_request=head[0] >= 128) for size in (0, head[1])]
        assert made[0] == made[1]


_NOW_NS = 1_800_000_000_000_000_000
_LIMIT_DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic")


def limits(data: bytes) -> None:
    """Lines of headers. What is left of a limit is bounded, and told in either dialect it is read as the same."""
    lines = [line.partition(b":") for line in data.split(b"\n")]
    fields = [(name.strip().lower(), value.strip()) for name, _, value in lines]
    found = limits_of(fields, _NOW_NS)
    assert [limit.scope for limit in found] == sorted({limit.scope for limit in found})
    named = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields}
    failure = classify_answer(429, named, b"", _NOW_NS)
    waits_ns = [(failure.retry_after_ms or 0) * 1_000_000, (failure.reset_at_ns or _NOW_NS) - _NOW_NS]
    assert all(0 <= wait_ns <= MAX_AHEAD_NS for wait_ns in waits_ns)
    for limit in found:
        assert all(0 <= count <= MAX_COUNT for count in (limit.limit, limit.remaining) if count is not None)
        assert limit.resets_at_ns is None or _NOW_NS < limit.resets_at_ns <= _NOW_NS + MAX_AHEAD_NS
        for dialect in _LIMIT_DIALECTS:
            _check_told(limit, dialect)


def _check_told(limit: Limit, dialect: Dialect) -> None:
    said = list(told([limit], dialect, _NOW_NS))
    assert all(text.isascii() and text.decode().isprintable() for field in said for text in field)
    for again in limits_of(said, _NOW_NS):  # scopes with digits have no name in OpenAI's dialect
        assert (again.scope, again.limit, again.remaining) == (limit.scope, limit.limit, limit.remaining)
        if again.resets_at_ns is not None:
            assert limit.resets_at_ns is not None
            assert 0 <= again.resets_at_ns - limit.resets_at_ns < 2_000_000_000


def prices(data: bytes) -> None:
    """First byte: CSV, LiteLLM's table or a price file. Models that can be written and read back, or a refusal."""
    text = data[1:].decode("utf-8", "replace")
    with suppress(Unreadable):
        if data[:1] < b"\x55":
            models = csv_table.read(text, "t").models
        elif data[:1] < b"\xaa":
            models = litellm.read(text.encode(), "t").models
        else:
            models = list(price_file.parse(text, "t"))
        try:
            again = price_file.parse(price_file.written(models, "t"), "t")
        except Unreadable as error:
            raise AssertionError(str(error)) from error
        assert list(again) == models


Kind = Literal["stream", "json", "text"]
TARGETS: dict[str, tuple[Callable[[bytes], None], Kind, int]] = {
    "sse": (sse, "text", 1),
    "phases": (phases, "stream", 2),
    "decoders": (decoders, "stream", 2),
    "answers": (answers, "json", 1),
    "requests": (requests, "json", 1),
    "splice": (splice, "json", 1),
    "request_head": (request_head, "text", 0),
    "framing": (framing, "text", 2),
    "limits": (limits, "text", 0),
    "prices": (prices, "text", 1),
}
"""Name → promise, what its input looks like, and how many bytes in front of that choose."""
