"""Cutting responses out of bytes: what is accepted, what is a fault, and that chunk borders do not matter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.gateway.outbound.framing import FramingFault, ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def read(*pieces: bytes, is_head_request: bool = False) -> ResponseReader:
    reader = ResponseReader()
    reader.begin(is_head_request=is_head_request)
    for piece in pieces:
        reader.feed(piece)
    return reader


FAULTS = {
    "length and chunked": OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": OK + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two equal lengths": OK + b"content-length: 2\r\ncontent-length: 2\r\n\r\nok",
    "two lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "length list": OK + b"content-length: 2, 2\r\n\r\nok",
    "signed length": OK + b"content-length: +2\r\n\r\nok",
    "hex length": OK + b"content-length: 0x2\r\n\r\nok",
    "empty length": OK + b"content-length:\r\n\r\nok",
    "giant length": OK + b"content-length: 99999999999999999999\r\n\r\nok",
    "folded header": OK + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "folded length": OK + b"content-length:\r\n 2\r\n\r\nok",
    "bare LF after status": b"HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n",
    "bare LF after header": OK + b"x: a\ncontent-length: 0\r\n\r\n",
    "bare LF at the end": OK + b"content-length: 0\r\n\n",
    "bare CR": OK + b"x: a\rb: c\r\ncontent-length: 0\r\n\r\n",
    "NUL in a value": OK + b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
    "space before colon": OK + b"content-length : 0\r\n\r\n",
    "space before name": OK + b" content-length: 0\r\n\r\n",
    "empty name": OK + b": x\r\n\r\n",
    "8-bit name": OK + b"x\xff: y\r\n\r\n",
    "blank line first": b"\r\n" + OK + b"content-length: 0\r\n\r\n",
    "garbage": b"SSH-2.0-OpenSSH_9.6\r\n",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n\r\n",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\n\r\n",
    "RTSP": b"RTSP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "two-digit status": b"HTTP/1.1 20 OK\r\n\r\n",
    "four-digit status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status 000": b"HTTP/1.1 000 x\r\ncontent-length: 0\r\n\r\n",
    "status 600": b"HTTP/1.1 600 x\r\ncontent-length: 0\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    "101 without headers": b"HTTP/1.1 101 Switching\r\n\r\n",
    "gzip coding": OK + b"transfer-encoding: gzip\r\n\r\nabc",
    "gzip, chunked": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": OK + b"transfer-encoding: chunked, identity\r\n\r\n",
    "chunked twice": OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "xchunked": OK + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size with 0x": CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n",
    "negative chunk size": CHUNKED + b"-2\r\nok\r\n0\r\n\r\n",
    "giant chunk size": CHUNKED + b"FFFFFFFFFFFFFFFFF\r\n",
    "chunk size before LF": CHUNKED + b"2\nok\r\n0\r\n\r\n",
    "chunk longer than said": CHUNKED + b"2\r\nokk\r\n0\r\n\r\n",
    "body longer than said": OK + b"content-length: 2\r\n\r\nokk",
    "second response": (OK + b"content-length: 2\r\n\r\nok") * 2,
    "second response without body": OK + b"content-length: 2\r\n\r\nok" + OK + b"content-length: 0\r\n\r\n",
    "more after close": OK + b"connection: close\r\ncontent-length: 2\r\n\r\nokk",
    "body in a 204": b"HTTP/1.1 204 None\r\ncontent-length: 2\r\n\r\nok",
    "201 headers": OK + b"x: y\r\n" * 201 + b"\r\n",
    "65 KiB of headers": OK + b"x: " + b"y" * 66_000 + b"\r\n\r\n",
    "a body of an interim answer": b"HTTP/1.1 199 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "65 KiB of interim heads": b"HTTP/1.1 103 Hints\r\nlink: %b\r\n\r\n" % (b"y" * 9000) * 8,
    "72 KiB of headers and the body at once": OK
    + (b"x: %b\r\n" % (b"y" * 8000)) * 9
    + b"content-length: 2\r\n\r\nok",
    "300 trailers": CHUNKED + b"0\r\n" + b"x: y\r\n" * 300 + b"\r\n",
}


@pytest.mark.parametrize("name", FAULTS)
def test_broken_framing_is_a_fault_whole_or_byte_by_byte(name: str) -> None:
    with pytest.raises(FramingFault):
        read(FAULTS[name])
    if len(FAULTS[name]) < 3000:
        with pytest.raises(FramingFault):
            read(*(FAULTS[name][n : n + 1] for n in range(len(FAULTS[name]))))


@pytest.mark.parametrize("endless", [b"HTTP/1.1 200 ", OK, OK + b"y: "])
def test_a_head_without_end_is_a_fault_at_64_kib(endless: bytes) -> None:
    reader = ResponseReader()
    reader.feed(endless)
    assert taken_kib(reader) <= 64


def test_a_trailer_or_chunk_extension_without_end_is_a_fault_at_64_kib() -> None:
    for opening in (b"0\r\nx: ", b"5;x="):
        assert taken_kib(read(CHUNKED + opening)) <= 64


def taken_kib(reader: ResponseReader) -> int:
    """How many further KiB of one letter the reader takes before it is a fault."""
    for kib in range(200):
        try:
            reader.feed(b"z" * 1024)
        except FramingFault:
            return kib
    return 200


def test_fault_texts_hold_no_bytes_of_the_peer() -> None:
    with pytest.raises(FramingFault) as caught:
        read(b"HTTP/1.1 200 OK\r\nx: \0secret-canary\r\n\r\n")
    assert "canary" not in str(caught.value)


ACCEPTED = {
    "length": (OK + b"Content-Length: 2 \r\nX-Y:  v \r\n\r\nok", b"ok"),
    "chunked": (CHUNKED + b"1\r\no\r\n1;ext=\"x\"\r\nk\r\n0\r\nx-trailer: dropped\r\n\r\n", b"ok"),
    "chunked in capitals": (OK + b"Transfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok"),
    "100 and 103 first": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + OK
                          + b"content-length: 2\r\n\r\nok", b"ok"),
    "no reason": (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", b"ok"),
    "204": (b"HTTP/1.1 204 None\r\n\r\n", b""),
    "304 with length": (b"HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n", b""),
    "HTTP/1.0 kept alive": (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", b"ok"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
@settings(max_examples=40)
@given(data=st.data())
def test_any_cut_of_a_response_gives_the_same_response(name: str, data: st.DataObject) -> None:
    whole, body = ACCEPTED[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    once, many = read(whole), read(*pieces)
    for reader in (once, many):
        assert b"".join(reader.parts) == body
        assert reader.is_complete
        assert reader.may_reuse()
        assert not reader.ends_at_eof()
    assert (once.status, once.headers) == (many.status, many.headers)


def test_header_names_are_lower_case_and_values_trimmed() -> None:
    reader = read(ACCEPTED["length"][0])
    assert reader.headers == [(b"content-length", b"2"), (b"x-y", b"v")]


def test_interim_headers_and_trailers_do_not_reach_the_caller() -> None:
    assert read(ACCEPTED["100 and 103 first"][0]).headers == [(b"content-length", b"2")]
    assert read(ACCEPTED["chunked"][0]).headers == [(b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 200 OK\r\n\r\n", OK + b"connection: close\r\n\r\n", OK + b"\r\n"]
)
def test_a_body_without_length_ends_with_the_connection(head: bytes) -> None:
    reader = read(head, b"some", b"thing")
    assert b"".join(reader.parts) == b"something"
    assert reader.ends_at_eof()
    assert not reader.may_reuse()


def test_the_end_of_the_stream_inside_a_framed_body_is_no_proper_end() -> None:
    assert not read(OK + b"content-length: 9\r\n\r\nshort").ends_at_eof()
    assert not read(CHUNKED + b"5\r\nshort\r\n").ends_at_eof()
    assert not read(OK + b"x: y\r\n").ends_at_eof()


def test_the_answer_to_head_has_no_body_and_its_connection_is_not_reused() -> None:
    reader = read(OK + b"content-length: 2\r\n\r\n", is_head_request=True)
    assert reader.is_complete
    assert not reader.may_reuse()
    with pytest.raises(FramingFault):
        reader.feed(b"ok")


def test_close_is_honoured() -> None:
    assert not read(OK + b"connection: close\r\ncontent-length: 2\r\n\r\nok").may_reuse()
    assert not read(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok").may_reuse()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"timeout=5", 5.0),
        (b"max=10, timeout=7", 7.0),
        (b"Timeout = 0", 0.0),
        (b"max=3", None),
        (b"xtimeout=9", None),
    ],
)
def test_the_servers_keep_alive_is_read(value: bytes, seconds: float | None) -> None:
    assert read(OK + b"keep-alive: %b\r\ncontent-length: 0\r\n\r\n" % value).keep_alive_s() == seconds
    assert read(OK + b"content-length: 0\r\n\r\n").keep_alive_s() is None


def test_one_reader_cuts_response_after_response() -> None:
    reader = ResponseReader()
    for n in range(3):
        reader.begin()
        reader.feed(OK + b"keep-alive: timeout=9\r\ncontent-length: 1\r\n\r\n%d" % n)
        assert (reader.parts, reader.is_complete, reader.status) == ([b"%d" % n], True, 200)
    reader.begin()
    reader.feed(OK + b"content-length: 0\r\n\r\n")
    assert reader.keep_alive_s() is None


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=20))
def test_no_bytes_make_the_reader_raise_anything_but_a_fault(pieces: list[bytes]) -> None:
    reader = read(OK)
    try:
        for piece in pieces:
            reader.feed(piece)
    except FramingFault:
        pass
