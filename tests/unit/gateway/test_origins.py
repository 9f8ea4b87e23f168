"""Which provider made what is quoted of earlier answers; a request that quotes nothing costs nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.history import NOBODY, Trust
from tidegate.gateway.dialects.proofs import found
from tidegate.gateway.mending import is_about_history
from tidegate.gateway.origins import Origins
from tidegate.gateway.taxonomy import classify_answer

CLIENT: Wire = "anthropic"


def signed(*names: str) -> bytes:
    blocks = [{"type": "thinking", "thinking": "x", "signature": f"signed by {name}"} for name in names]
    return json.dumps(blocks).encode()


def digests(*names: str) -> frozenset[bytes]:
    return frozenset(found(CLIENT, signed(*names)))


def always(_: Trust, trust: Trust) -> bool:
    return trust.own is not None


def knowing(**made: str) -> Origins:
    origins = Origins()
    for name, provider in made.items():
        origins.learn(CLIENT, provider, signed(name))
    return origins


def test_what_one_provider_made_is_foreign_to_every_other_one() -> None:
    origins = knowing(one="a", two="b")
    raw = signed("one", "two", "nobody")
    assert origins.trust(CLIENT, "s", "a", raw) == Trust("a", digests("two"))
    assert origins.trust(CLIENT, "s", "b", raw) == Trust("b", digests("one"))
    assert origins.trust(CLIENT, "any other session", "c", raw) == Trust("c", digests("one", "two"))


def test_what_nobody_is_known_to_have_made_is_told_as_it_is() -> None:
    assert knowing(one="a", two="b").trust(CLIENT, "s", "b", signed("nobody")) is None
    assert Origins().trust(CLIENT, "s", "b", signed("one")) is None


def test_where_one_provider_answers_requests_are_not_searched() -> None:
    raw: Any = object()
    origins = knowing(one="a")
    assert origins.trust(CLIENT, "s", "a", raw) is None
    assert origins.trust("openai", "s", "b", raw) is None
    with pytest.raises(TypeError):
        origins.trust(CLIENT, "s", "b", raw)


def test_a_session_in_which_a_provider_refused_is_told_it_only_with_what_is_its_own() -> None:
    origins = knowing(two="b")
    raw = signed("lost", "two")
    assert origins.distrust(CLIENT, "s", "b", raw, always)
    assert origins.trust(CLIENT, "s", "b", raw) == Trust("b", own=digests("two"))
    assert origins.trust(CLIENT, "s", "c", raw) == Trust("c", digests("two"))
    assert origins.trust(CLIENT, "another", "b", raw) is None


def test_what_a_provider_refuses_of_its_own_is_not_its_own_any_more() -> None:
    origins = knowing(two="b")
    told: list[tuple[Trust, Trust]] = []

    def only_of_nothing(before: Trust, after: Trust) -> bool:
        told.append((before, after))
        return not after.own

    assert origins.distrust(CLIENT, "s", "b", signed("two"), only_of_nothing)
    assert told == [(NOBODY, Trust("b", own=digests("two"))), (NOBODY, Trust("b", own=frozenset()))]
    assert origins.trust(CLIENT, "s", "b", signed("two")) == Trust("b", own=frozenset())


def test_a_request_that_would_be_told_just_so_again_is_not() -> None:
    origins = knowing(two="b")
    assert not origins.distrust(CLIENT, "s", "b", signed("two"), lambda *_: False)
    assert origins.trust(CLIENT, "s", "b", signed("two")) is None


def test_the_oldest_are_forgotten_first() -> None:
    origins = Origins(max_proofs=2, max_sessions=2)
    for name in ("one", "two", "one", "three"):
        origins.learn(CLIENT, "a", signed(name))
    assert origins.trust(CLIENT, "s", "b", signed("one", "two", "three")) == Trust(
        "b", digests("one", "three")
    )
    for session in ("1", "2", "3"):
        origins.distrust(CLIENT, session, "a", b"", always)
    assert origins.trust(CLIENT, "1", "a", b"") is None
    assert origins.trust(CLIENT, "2", "a", b"") is not None


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
        "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
        "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be decrypted.",
        "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "Invalid 'input[2].id': 'x'. Expected an ID that begins with 'rs'.",
        "Thought signature is not valid",
    ],
)
def test_refusals_of_what_another_provider_signed_are_known(message: str) -> None:
    body = json.dumps({"error": {"type": "invalid_request_error", "message": message}}).encode()
    assert is_about_history(classify_answer(400, {}, body, 0))
    busy = json.dumps({"error": {"type": "overloaded_error", "message": message}}).encode()
    assert not is_about_history(classify_answer(529, {}, busy, 0))


@pytest.mark.parametrize(
    "message", ["max_tokens: Field required", "prompt is too long", "Unknown parameter: 'x'"]
)
def test_other_refusals_are_final(message: str) -> None:
    body = json.dumps({"error": {"type": "invalid_request_error", "message": message}}).encode()
    assert not is_about_history(classify_answer(400, {}, body, 0))
