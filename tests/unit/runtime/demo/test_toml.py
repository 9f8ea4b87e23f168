"""What is written as TOML is read back the same."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.runtime.demo.toml import dumps

KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
# TOML has no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = PLAIN | st.lists(PLAIN, max_size=3)
DOCUMENTS = st.recursive(
    st.dictionaries(KEYS, VALUES, max_size=4),
    lambda inner: st.dictionaries(KEYS, VALUES | inner | st.lists(inner, min_size=1, max_size=3), max_size=4),
    max_leaves=12,
)


@pytest.mark.unmeasured
@given(DOCUMENTS)
def test_every_document_is_read_back_as_it_was(document: dict[str, Any]) -> None:
    assert tomllib.loads(dumps(document)) == document


def test_what_toml_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"pools\.limit"):
        dumps({"pools": {"limit": None}})
