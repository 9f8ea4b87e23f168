"""A head seen before is taken without the parser only where the parser would say the same."""

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.gateway.request_head import RequestHead, read_head
from tidegate.gateway.seen_heads import MAX_HEAD_BYTES, MAX_HEADS, SeenHeads
from tidegate.gateway.server_limits import ServerLimits

LIMITS = ServerLimits(max_body_bytes=1_000)
HEAD = b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nX-Api-Key: k\r\nContent-Length: %d\r\n\r\n"


class Sink:
    """What the parser says of bytes: heads and bodies of whole messages."""

    def __init__(self) -> None:
        self.url, self.fields, self.body, self.whole = b"", [], b"", 0

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole += 1


def parsed(data: bytes) -> tuple[RequestHead, bytes] | None:
    """Head and body when the parser and the checks take `data` as exactly one request that keeps alive."""
    sink = Sink()
    parser = httptools.HttpRequestParser(sink)
    try:
        parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    if sink.whole != 1 or not parser.should_keep_alive():
        return None
    head = read_head(parser.get_method(), parser.get_http_version(), sink.url, sink.fields, LIMITS)
    return (head, sink.body) if isinstance(head, RequestHead) else None


def learned(*messages: bytes) -> SeenHeads:
    heads = SeenHeads(LIMITS.max_body_bytes)
    for data in messages:
        found = parsed(data)
        assert found is not None
        heads.learn(data, found[0])
    return heads


def fields_of(found: tuple[RequestHead, bytes] | None) -> object:
    if found is None:
        return None
    head, body = found
    return head.method, head.path, head.raw_path, head.query, list(head.fields), body


def test_the_same_head_with_another_body_is_recognised() -> None:
    heads = learned(HEAD % 3 + b"abc")
    for body in (b"", b"x", b"another\r\n\r\nbody" * 9):
        data = HEAD % len(body) + body
        assert fields_of(heads.find(data)) == fields_of(parsed(data))


@pytest.mark.parametrize(
    "data",
    [
        HEAD % 3 + b"ab",
        HEAD % 3 + b"abcd",
        HEAD % 3 + b"abc" + HEAD % 0,
        HEAD % 1_001 + b"x" * 1_001,
        HEAD.replace(b": %d", b": +3") + b"abc",
        HEAD.replace(b": %d", b": 03") + b"abc",
        HEAD.replace(b": %d", b":  3") + b"abc",
        HEAD.replace(b"Host: h", b"Host: other") % 3 + b"abc",
        HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") % 3 + b"abc",
        b"\r\n\r\n",
        b"",
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    assert learned(HEAD % 3 + b"abc").find(data) is None


SEEDS = (
    HEAD % 3 + b"abc",
    b"GET /v1/models?a=b HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\ncontent-length: 2\r\n\r\nab",
)


@given(st.sampled_from(SEEDS), st.integers(0, 120), st.integers(0, 20), st.binary(max_size=12))
@example(SEEDS[0], 60, 1, b"9")
def test_what_is_recognised_is_what_the_parser_would_have_found(
    seed: bytes, at: int, cut: int, put: bytes
) -> None:
    """Whatever is changed in a learned request: a hit says exactly what parser and checks say of those bytes."""
    heads = learned(*SEEDS)
    data = seed[:at] + put + seed[at + cut :]
    found = heads.find(data)
    if found is not None:
        assert fields_of(found) == fields_of(parsed(data))


def test_chunked_bodies_and_interim_answers_are_never_taken_from_memory() -> None:
    heads = learned(*SEEDS)
    assert [heads.find(seed) is not None for seed in SEEDS] == [True, True, False, False]


def test_the_memory_is_bounded_in_heads_and_in_their_size() -> None:
    one = b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"
    heads = learned(*(one % n for n in range(MAX_HEADS + 1)))
    assert heads.find(one % 0) is None
    assert heads.find(one % 1) is not None
    long = b"GET / HTTP/1.1\r\nHost: h\r\nx: %b\r\n\r\n" % (b"y" * MAX_HEAD_BYTES)
    assert learned(long).find(long) is None
