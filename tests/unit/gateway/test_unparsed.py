"""Fields that stay bytes: what is looked into, and how many values a text holds."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tidegate.gateway.unparsed import ABSENT, MAX_WORD_BYTES, brief, holds_more_values

JSON = st.recursive(
    st.none() | st.integers(-9, 99) | st.text('a,[{"\\', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=9) | st.dictionaries(st.text(',{"\\', max_size=2), inner, max_size=5)
    ),
    max_leaves=40,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"low"', "low"),
        (b"null", None),
        (b" [1] ", [1]),
        (b'"\xff"', "else"),
        (b"9" * (MAX_WORD_BYTES + 1), "else"),
    ],
)
def test_only_a_short_field_is_looked_into(text: bytes, value: Any) -> None:
    assert brief(Raw(text), "else") == value
    assert brief(ABSENT, "else") is None


def values_in(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, inner))


@given(JSON, st.integers(1, 60))
def test_a_text_is_found_to_hold_too_many_values_where_it_does(value: Any, most: int) -> None:
    text = orjson.dumps(value)
    held = values_in(value)
    # An empty array or object is counted once more: nothing follows its opening.
    assert holds_more_values(text, most) is (len(text) > 2 * most and held + empty_in(value) > most)


def empty_in(value: Any) -> int:
    if value in ([], {}):
        return 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(empty_in, inner))
