"""What broke a parser is kept as a seed no longer than it must be."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzz_targets import TARGETS

FOLDER = Path(__file__).resolve().parents[2] / "fuzz"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("keep", FOLDER / "keep.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


keep = loaded()


def no_a_before_b(data: bytes) -> None:
    if b"b" in data[data.find(b"a") :] and b"a" in data:
        raise AssertionError
    if b"x" in data:
        raise KeyError


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_no_byte_of_what_is_kept_can_be_left_out_and_it_fails_in_the_same_way(
    first: bytes, second: bytes, third: bytes
) -> None:
    data = first + b"a" + second + b"b" + third
    assert keep.smallest(no_a_before_b, data) == b"ab"


def test_another_error_is_not_taken_for_the_first() -> None:
    assert keep.smallest(no_a_before_b, b"zzxzz") == b"x"
    with pytest.raises(ValueError, match="breaks no promise"):
        keep.smallest(no_a_before_b, b"zz")


def test_what_is_kept_lies_among_the_seeds_of_its_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "sse", (no_a_before_b, "text", 1))
    broken = tmp_path / "sse-broken-1"
    broken.write_bytes(b"--a--b--")
    place = keep.main("sse", broken, tmp_path / "corpus")
    assert place.read_bytes() == b"ab"
    assert place.parent == tmp_path / "corpus" / "sse"
