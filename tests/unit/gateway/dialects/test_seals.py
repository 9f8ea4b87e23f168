"""Opaque reasoning carried through another dialect comes out as it went in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.dialects import seals
from tidegate.gateway.dialects.blocks import Thinking
from tidegate.gateway.dialects.names import fitted, fitted_id, join_namespace, split_namespace

OPAQUE = st.text(min_size=1, max_size=40) | st.just("tidegate:anthropic:signature:x")
TEXT = st.text(max_size=20)
SIGNED = st.builds(lambda text, proof: Thinking(text, signature=proof), TEXT, OPAQUE)
REDACTED = st.builds(lambda data: Thinking(redacted=data), OPAQUE)
SEALED = st.builds(
    lambda text, data, item: Thinking(text, encrypted=data, id=item),
    TEXT,
    OPAQUE.filter(lambda text: not text.startswith("tidegate:")),
    st.none() | st.from_regex(r"rs_[a-z0-9]+", fullmatch=True),
)


@given(SIGNED | REDACTED)
def test_a_signature_survives_in_sealed_reasoning(block: Thinking) -> None:
    assert seals.from_encrypted(block.text, seals.as_encrypted(block), "rs_9") == block


@given(SEALED)
def test_sealed_reasoning_survives_in_a_signature(block: Thinking) -> None:
    assert seals.from_signature(block.text, seals.as_signature(block)) == block
    assert seals.from_encrypted(block.text, seals.as_encrypted(block), block.id) == block


@given(SIGNED.filter(lambda block: not (block.signature or "").startswith("tidegate:")))
def test_a_signature_is_its_own(block: Thinking) -> None:
    assert seals.as_signature(block) == block.signature
    assert seals.from_signature(block.text, seals.as_signature(block)) == block


def test_nothing_to_prove_is_nothing() -> None:
    assert seals.as_signature(Thinking("hm")) == ""
    assert seals.as_encrypted(Thinking("hm")) is None
    assert seals.from_signature("hm", "") == Thinking("hm")
    assert seals.from_encrypted("hm", None, "rs_1") == Thinking("hm")


@given(st.text(max_size=200), st.sampled_from([64, 128]))
def test_a_fitted_name_fits_and_fits_again(name: str, most: int) -> None:
    made = fitted(name, most)
    assert 1 <= len(made) <= most
    assert made.isascii()
    assert fitted(made, most) == made
    assert fitted(name, most) == made


@given(st.text(max_size=80), st.text(max_size=80))
def test_different_ids_stay_different(one: str, other: str) -> None:
    assert (fitted_id(one) == fitted_id(other)) == (one == other) or fitted_id(one) in {one, other}


@given(st.none() | st.from_regex(r"[a-z]+", fullmatch=True), st.from_regex(r"[a-z]+", fullmatch=True))
def test_a_namespace_is_found_again(namespace: str | None, name: str) -> None:
    assert split_namespace(join_namespace(namespace, name)) == (namespace, name)
