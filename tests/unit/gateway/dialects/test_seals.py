"""Opaque reasoning carried through another dialect comes out as it went in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.dialects import responses_answer, seals, translate
from tidegate.gateway.dialects.blocks import Answer, Text, Thinking
from tidegate.gateway.dialects.faults import Notes
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
    for made in (seals.as_signature(Thinking("hm")), seals.as_encrypted(Thinking("hm"))):
        assert seals.from_signature("hm", made) == seals.from_encrypted("hm", made, "rs_1") == Thinking("hm")
    assert seals.from_signature("hm", "") == Thinking("hm")
    assert seals.from_encrypted("hm", None, "rs_1") == Thinking("hm")


SEALED_HERE = ["tidegate:openai:encrypted:rs_1:e", "tidegate:plain:"]


@pytest.mark.parametrize("signature", SEALED_HERE)
def test_no_vendor_is_asked_to_check_what_was_made_here(signature: str) -> None:
    ours = {"type": "thinking", "thinking": "hm", "signature": signature}
    own = {"type": "thinking", "thinking": "hm", "signature": "real"}
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [ours, own, unsigned, "odd"]},
        {"role": "assistant", "content": [ours]},
        "odd",
    ]
    notes = Notes()
    made = seals.without("anthropic", {"messages": turns}, notes)
    assert made == {"messages": [turns[0], {"role": "assistant", "content": [own, unsigned, "odd"]}, "odd"]}
    assert notes.names() == ("thinking",)
    assert seals.without("anthropic", made, notes) is made
    assert seals.may_be_in(json.dumps({"messages": turns}).encode())
    assert not seals.may_be_in(json.dumps(made).encode())
    assert seals.without("anthropic", {"messages": 5}, notes) == {"messages": 5}
    body = {
        "messages": [{"role": "assistant", "content": [ours, {"type": "text", "text": "x"}]}],
        "max_tokens": 9,
    }
    assert b"hm" not in translate.request("anthropic", "anthropic", body, model="m").body


def test_items_made_here_lose_what_their_provider_would_look_up() -> None:
    sealed = [
        {"type": "reasoning", "id": "rs_1", "encrypted_content": f"tidegate:{kind}"}
        for kind in ("plain:", "anthropic:signature:s")
    ]
    message = {"type": "message", "role": "assistant", "content": "x"}
    own = {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}
    body = {
        "input": [
            *sealed,
            message | {"id": "msg_tidegate_a_0"},
            message | {"id": "msg_9"},
            own,
            "odd",
            {"id": 5},
        ]
    }
    made = seals.without("openai-responses", body, Notes())
    assert made == {"input": [message, message | {"id": "msg_9"}, own, "odd", {"id": 5}]}
    assert seals.without("openai", body, Notes()) is body
    answer = responses_answer.write(Answer(id="a", blocks=(Text("x"), Thinking("hm"))), {})
    made = seals.without("openai-responses", {"input": answer["output"]}, Notes())
    assert [item.get("id") for item in made["input"]] == [None]


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
