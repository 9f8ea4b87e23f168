"""Rendering requests: the exact bytes, and what is never sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.outbound.faults import TargetInvalid
from tidegate.gateway.outbound.head import RequestHead, render_headers, without_ours


def test_a_request_is_one_piece_of_exact_bytes() -> None:
    head = RequestHead("POST", b"api.example.com", b"/v1/x?y=1", [(b"authorization", b"Bearer k")])
    assert head.render(b"{}", render_headers([(b"x-attempt", b"7")])) == (
        b"POST /v1/x?y=1 HTTP/1.1\r\nhost: api.example.com\r\nauthorization: Bearer k\r\n"
        b"x-attempt: 7\r\ncontent-length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("method", "lines"), [("POST", 1), ("PUT", 1), ("GET", 0), ("HEAD", 0), ("DELETE", 0)]
)
def test_an_empty_body_has_a_length_only_where_one_is_expected(method: str, lines: int) -> None:
    rendered = RequestHead(method, b"h", b"/", []).render(b"")
    assert rendered.count(b"content-length: 0\r\n") == lines
    assert rendered.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "header",
    [
        (b"x y", b"v"),
        (b"", b"v"),
        (b"x:", b"v"),
        (b"x", b"v\r\nhost: evil"),
        (b"x", b"v\n"),
        (b"x", b"v\0"),
        (b"x", b"\x7f"),
        (b"Host", b"evil"),
        (b"content-length", b"5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"connection", b"close"),
        (b"upgrade", b"h2c"),
        (b"expect", b"100-continue"),
        (b"te", b"trailers"),
        (b"proxy-authorization", b"Basic x"),
    ],
)
def test_headers_that_break_or_frame_the_message_are_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(TargetInvalid):
        render_headers([header])
    with pytest.raises(TargetInvalid):
        RequestHead("POST", b"h", b"/", [header])


def test_refusals_do_not_show_the_value() -> None:
    with pytest.raises(TargetInvalid) as caught:
        render_headers([(b"authorization", b"Bearer canary\n")])
    assert "canary" not in str(caught.value)
    assert "authorization" in str(caught.value)


@pytest.mark.parametrize("target", [b"", b"x", b"/a b", b"/a\r\nx", b"*", b"//\xff"])
def test_request_targets_are_absolute_printable_paths(target: bytes) -> None:
    with pytest.raises(TargetInvalid):
        RequestHead("GET", b"h", target, [])


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "", "GET /\r\n"])
def test_only_known_methods_are_sent(method: str) -> None:
    with pytest.raises(TargetInvalid):
        RequestHead(method, b"h", b"/", [])


def test_what_the_transport_sets_itself_is_dropped_from_an_httpx_request() -> None:
    headers = [(b"Host", b"x"), (b"Content-Length", b"2"), (b"Connection", b"keep-alive"), (b"A", b"b")]
    assert without_ours(headers) == [(b"A", b"b")]


@given(st.binary(max_size=20), st.binary(max_size=40))
def test_a_header_is_either_refused_or_exactly_one_line(name: bytes, value: bytes) -> None:
    try:
        rendered = render_headers([(name, value)])
    except TargetInvalid:
        return
    assert rendered == name + b": " + value + b"\r\n"
    assert rendered.count(b"\r") == rendered.count(b"\n") == 1
