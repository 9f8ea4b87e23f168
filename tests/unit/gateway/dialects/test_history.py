"""History that another provider produced loses its ids and signatures, never its words and tool pairs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.dialects import proofs, translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.history import NOBODY, Trust, clean

SIGNED = [
    {"type": "thinking", "thinking": "hm", "signature": "signed-by-them"},
    {"type": "redacted_thinking", "data": "hidden-by-them"},
]
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]}
MESSAGES: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [*SIGNED, USE]},
        RESULT,
        {"role": "assistant", "content": [SIGNED[0], {"type": "text", "text": "x"}]},
        {"role": "user", "content": "z"},
    ]
}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "x",
            "reasoning_content": "hm",
            "reasoning_details": [{"type": "reasoning.text", "signature": "signed-by-them"}],
            "tool_calls": [
                {"id": "c1", "extra_content": {"google": {"thought_signature": "thought-of-theirs"}}},
                "odd",
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ]
}
ITEMS: dict[str, Any] = {
    "input": [
        {"role": "user", "content": "q", "id": "u1"},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "content": [{"type": "output_text", "text": "x"}],
        },
    ]
}
BODIES: list[tuple[Wire, dict[str, Any]]] = [
    ("anthropic", MESSAGES),
    ("openai", CHAT),
    ("openai-responses", ITEMS),
]


def proved(client: Wire, value: Any) -> frozenset[bytes]:
    """What a provider has proved in this value."""
    return frozenset(proofs.found(client, json.dumps(value).encode()))


def cleaned(
    client: Wire, body: dict[str, Any], foreign: Any, *, own: Any = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body without what others proved in the values `foreign`, or with nothing that is not proved in `own`."""
    before = copy.deepcopy(body)
    notes = Notes()
    trust = Trust("ours", proved(client, foreign), None if own is None else proved(client, own))
    made = clean(client, body, trust, notes)
    assert body == before
    return made, notes.names()


def test_foreign_thinking_is_dropped_and_the_words_stay() -> None:
    made, names = cleaned("anthropic", MESSAGES, MESSAGES["messages"][1]["content"][1])
    assert made["messages"][1]["content"] == [USE]
    assert made["messages"][2:] == MESSAGES["messages"][2:]
    assert names == ("thinking",)


def test_a_turn_of_nothing_but_foreign_thinking_disappears() -> None:
    body = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": SIGNED}]}
    assert cleaned("anthropic", body, SIGNED)[0] == {"messages": body["messages"][:1]}


def test_what_a_chat_turn_carries_for_its_provider_is_dropped() -> None:
    made, names = cleaned("openai", CHAT, CHAT)
    assert made["messages"][1] == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c1"}, "odd"],
    }
    assert names == ("history.reasoning_details", "history.extra_content")


def test_foreign_items_lose_their_ids_and_sealed_reasoning() -> None:
    made, names = cleaned("openai-responses", ITEMS, ITEMS["input"])
    assert made["input"] == [
        ITEMS["input"][0],
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ITEMS["input"][3],
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
    ]
    assert names == ("reasoning", "history.id")


def test_only_the_turns_of_others_are_touched() -> None:
    made, _ = cleaned("openai-responses", ITEMS, ITEMS["input"][4])
    assert made["input"][:4] == ITEMS["input"][:4]
    assert "id" not in made["input"][4]


def test_an_item_id_that_occurs_twice_is_dropped_the_second_time() -> None:
    item = {"type": "message", "role": "assistant", "id": "msg_1", "content": "x"}
    made, names = cleaned(
        "openai-responses", {"input": [item, item, {"type": "item_reference", "id": "msg_1"}]}, []
    )
    assert [entry.get("id") for entry in made["input"]] == ["msg_1", None, "msg_1"]
    assert names == ("history.id",)


def test_a_reference_into_another_providers_store_is_refused() -> None:
    with pytest.raises(RequestRefused, match="item_reference"):
        cleaned("openai-responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, [], own=[])


@pytest.mark.parametrize(("client", "body"), BODIES)
def test_history_of_ones_own_is_not_touched_at_all(client: Wire, body: dict[str, Any]) -> None:
    assert cleaned(client, body, [], own=body) == (body, ())
    assert cleaned(client, body, []) == (body, ())
    assert clean(client, body, NOBODY, Notes()) is body
    assert clean(client, body, Trust("ours"), Notes()) is body


@pytest.mark.parametrize(("client", "body"), BODIES)
def test_what_nobody_proved_to_be_ones_own_can_be_held_to_be_foreign(
    client: Wire, body: dict[str, Any]
) -> None:
    assert cleaned(client, body, [], own=[]) == cleaned(client, body, body)
    assert cleaned(client, body, [], own=[])[0] != body


def test_a_turn_is_told_as_one_provider_made_it() -> None:
    """A call whose reasoning is gone must lose its id as well: a provider that has the one asks for the other."""
    made, _ = cleaned("openai-responses", ITEMS, ITEMS["input"][1])
    assert [item.get("id") for item in made["input"]] == ["u1", None, None, "msg_1"]
    made, _ = cleaned("openai-responses", ITEMS, [], own=[ITEMS["input"][1], ITEMS["input"][4]])
    assert [item.get("id") for item in made["input"]] == ["u1", None, None, "msg_1"]


@pytest.mark.parametrize(("client", "body"), BODIES)
def test_cleaning_twice_is_cleaning_once(client: Wire, body: dict[str, Any]) -> None:
    once, _ = cleaned(client, body, body)
    again, names = cleaned(client, once, body)
    assert (again, names) == (once, ())
    assert again is once


def test_proofs_are_the_same_in_events_in_answers_and_where_they_are_quoted() -> None:
    block = {
        "type": "thinking",
        "thinking": 'a "signature": "forged-in-words"',
        "signature": "signed-by-them",
    }
    event = b'data: {"delta":{"type":"signature_delta","signature":"signed-by-them"}}\n\n'
    assert proved("anthropic", [block]) == frozenset(proofs.found("anthropic", event))
    assert len(proved("anthropic", [block])) == 1
    hidden = {"data": "hidden-by-them", "type": "redacted_thinking"}
    assert proved("anthropic", hidden) == proved("anthropic", SIGNED) - proved("anthropic", block)
    assert proved("anthropic", {"type": "image", "data": "a-picture"}) == frozenset()
    sealed = {"type": "reasoning.encrypted", "data": "sealed-by-them"}
    assert len(proved("openai", [sealed, {"signature": "signed-by-them"}])) == 2
    done = b'data: {"type":"response.output_item.done","item":{"id":"rs_1","encrypted_content":"e"}}\n\n'
    assert frozenset(proofs.found("openai-responses", done)) == proved("openai-responses", ITEMS["input"][1])
    assert list(proofs.found("openai-responses", b'{"item_id":"rs_1","delta":"x"}')) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "type", "content", "id", "tool_calls"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(["openai", "anthropic", "openai-responses"]), JSON)
def test_what_has_no_form_is_left_to_the_reader(client: Wire, value: Any) -> None:
    name = "input" if client == "openai-responses" else "messages"
    for body in (
        {name: value},
        {name: [value]},
        {name: [{"role": "assistant", "content": value, "tool_calls": value}]},
    ):
        for trust in (Trust("ours", own=frozenset()), Trust("ours", proved(client, value))):
            clean(client, body, trust, Notes())


def test_translation_cleans_first() -> None:
    for upstream in ("anthropic", "openai-responses"):
        made = translate.request(
            "anthropic",
            upstream,
            MESSAGES | {"max_tokens": 99},
            model="m",
            trust=Trust("ours", own=frozenset()),
        )
        assert made.warnings == ("thinking",)
        assert b"signature" not in made.body
        assert b"t1" in made.body


LOOP: dict[str, Any] = {
    "max_tokens": 9_000,
    "thinking": {"type": "enabled", "budget_tokens": 4_000},
    "messages": MESSAGES["messages"][:3],
}


def told_another(**changes: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a provider of the same dialect is told that made none of it."""
    trust = Trust("ours", own=frozenset())
    made = translate.request("anthropic", "anthropic", LOOP | changes, model="m", trust=trust)
    return json.loads(made.body), made.warnings


def test_a_loop_of_calls_goes_on_without_thinking_where_the_thinking_that_began_it_is_left_out() -> None:
    """A provider wants it back, and refuses to think without it."""
    clears = {"edits": [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}]}
    made, names = told_another(context_management=clears)
    assert "thinking" not in made
    assert made["context_management"] == {"edits": [{"type": "clear_tool_uses_20250919"}]}
    assert names == ("thinking",)
    assert "context_management" not in told_another()[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"thinking": {"type": "adaptive"}},
        {"messages": MESSAGES["messages"]},
        {"messages": [*MESSAGES["messages"][:2], {"role": "user", "content": "never mind"}]},
        {"messages": [RESULT]},
        {"messages": []},
    ],
)
def test_where_no_loop_was_begun_another_provider_thinks_as_asked(changes: dict[str, Any]) -> None:
    assert told_another(**changes)[0]["thinking"] == (LOOP | changes)["thinking"]


def test_a_loop_that_has_its_thinking_goes_on_thinking() -> None:
    trust = Trust("ours", own=proved("anthropic", SIGNED))
    made = translate.request("anthropic", "anthropic", LOOP, model="m", trust=trust)
    assert json.loads(made.body)["thinking"] == LOOP["thinking"]


def test_a_turn_nested_too_deep_to_be_looked_through_proves_nothing() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    turn = {"role": "assistant", "content": [*SIGNED, {"type": "text", "text": "x", "odd": deep}]}
    body = {"messages": [{"role": "user", "content": "q"}, turn]}
    assert clean("anthropic", body, Trust("me", frozenset({b"theirs"})), Notes()) is body
