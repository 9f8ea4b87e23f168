"""Fields of a JSON object: which have been asked for is remembered, however often they are."""

from __future__ import annotations

import pytest

from tidegate.gateway.dialects.faults import RequestRefused
from tidegate.gateway.dialects.fields import Fields


def test_an_object_looked_into_twice_is_one_and_knows_its_place() -> None:
    found = Fields({"a": {"b": "x"}, "n": None}, "input")
    inner = found.inner("a")
    assert inner is not None
    assert found.inner("a") is inner
    assert found.inner("n") is None
    with pytest.raises(RequestRefused, match=r"input\.a\.b"):
        inner.integer("b")
