"""Bodies that are no UTF-8 are found wherever the fault stands, before anybody is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.bodies import parse_body
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.utf8 import fault_at

PIECE = 65_536


@pytest.mark.parametrize("before", [0, 1, PIECE - 2, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE - 1])
@pytest.mark.parametrize(
    "fault", [b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
)
@pytest.mark.parametrize("after", [b"", b"a", "ü".encode() * PIECE])
def test_the_first_fault_is_found_where_it_stands(before: int, fault: bytes, after: bytes) -> None:
    assert fault_at(b"a" * before + fault + after) == before


@pytest.mark.parametrize("character", ["a", "ü", "€", "𝄞"])
@pytest.mark.parametrize("shift", range(4))
def test_characters_on_the_border_of_pieces_are_no_fault(character: str, shift: int) -> None:
    assert fault_at(b"a" * shift + character.encode() * PIECE) is None


@given(st.binary(max_size=64), st.integers(0, 8))
def test_it_says_what_decoding_the_whole_says(raw: bytes, shift: int) -> None:
    raw = b"a" * (PIECE - shift) + raw
    assert fault_at(raw) == fault_of_the_whole(raw)


def fault_of_the_whole(raw: bytes) -> int | None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


@pytest.mark.parametrize(
    ("dialect", "raw"),
    [
        ("openai", b'{"model":"fast","messages":[{"role":"user","content":"\xff"}]}'),
        ("openai", b'{"model":"fast","messages":[],"unknown":["\xff"]}'),
        ("anthropic", b'{"model":"fast","system":"\xff","messages":[]}'),
        ("openai-responses", b'{"model":"fast","input":"\xff"}'),
        ("openai-embeddings", b'{"model":"fast","input":["\xff"]}'),
    ],
)
def test_no_dialect_takes_text_that_is_no_utf_8(dialect: Any, raw: bytes) -> None:
    with pytest.raises(GatewayError, match="not UTF-8: byte") as refused:
        parse_body(raw, dialect)
    assert refused.value.code == "body_invalid"
    parse_body(raw.replace(b"\xff", "ü".encode()), dialect)
