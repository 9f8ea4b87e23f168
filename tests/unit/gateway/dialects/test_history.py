"""History that another provider produced loses its ids and signatures, never its words and tool pairs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.history import NOBODY, Turns, clean, count

SIGNED = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
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
            "reasoning_details": [{"type": "reasoning.text", "signature": "s"}],
            "tool_calls": [{"id": "c1", "extra_content": {"google": {"thought_signature": "s"}}}, "odd"],
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


def cleaned(
    client: Wire, body: dict[str, Any], *produced_by: str | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    before = copy.deepcopy(body)
    notes = Notes()
    made = clean(client, body, Turns("ours", produced_by), notes)
    assert body == before
    return made, notes.names()


def test_foreign_thinking_is_dropped_and_the_words_stay() -> None:
    made, names = cleaned("anthropic", MESSAGES, "other", "ours")
    assert made["messages"][1]["content"] == [USE]
    assert made["messages"][2:] == MESSAGES["messages"][2:]
    assert names == ("thinking",)


def test_a_turn_of_nothing_but_foreign_thinking_disappears() -> None:
    body = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": SIGNED}]}
    assert cleaned("anthropic", body, "other")[0] == {"messages": body["messages"][:1]}


def test_what_a_chat_turn_carries_for_its_provider_is_dropped() -> None:
    made, names = cleaned("openai", CHAT, "other")
    assert made["messages"][1] == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c1"}, "odd"],
    }
    assert names == ("history.reasoning_details", "history.extra_content")


def test_foreign_items_lose_their_ids_and_sealed_reasoning() -> None:
    made, names = cleaned("openai-responses", ITEMS, "other", "other")
    assert made["input"] == [
        ITEMS["input"][0],
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ITEMS["input"][3],
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
    ]
    assert names == ("reasoning", "history.id")


def test_only_the_turns_of_others_are_touched() -> None:
    made, _ = cleaned("openai-responses", ITEMS, "ours", "other")
    assert made["input"][:4] == ITEMS["input"][:4]
    assert "id" not in made["input"][4]


def test_an_item_id_that_occurs_twice_is_dropped_the_second_time() -> None:
    item = {"type": "message", "role": "assistant", "id": "msg_1", "content": "x"}
    made, names = cleaned(
        "openai-responses", {"input": [item, item, {"type": "item_reference", "id": "msg_1"}]}, "ours"
    )
    assert [entry.get("id") for entry in made["input"]] == ["msg_1", None, "msg_1"]
    assert names == ("history.id",)


def test_a_reference_into_another_providers_store_is_refused() -> None:
    with pytest.raises(RequestRefused, match="item_reference"):
        cleaned("openai-responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, "other")


@pytest.mark.parametrize(("client", "body"), BODIES)
def test_history_of_ones_own_is_not_touched_at_all(client: Wire, body: dict[str, Any]) -> None:
    assert cleaned(client, body, "ours", "ours") == (body, ())
    assert clean(client, body, NOBODY, Notes()) is body
    assert clean(client, body, Turns("ours", (None,)), Notes()) is body


@pytest.mark.parametrize(("client", "body"), BODIES)
def test_unknown_turns_can_be_held_to_be_foreign(client: Wire, body: dict[str, Any]) -> None:
    distrusting = clean(client, body, Turns("ours", (), keep_unknown=False), Notes())
    assert distrusting == cleaned(client, body, "other", "other")[0]


@pytest.mark.parametrize(("client", "body"), BODIES)
def test_cleaning_twice_is_cleaning_once(client: Wire, body: dict[str, Any]) -> None:
    once, _ = cleaned(client, body, "other", "other")
    again, names = cleaned(client, once, "other", "other")
    assert (again, names) == (once, ())
    assert again is once


def test_turns_are_counted_as_the_provider_saw_them() -> None:
    assert count("anthropic", MESSAGES) == 2
    assert count("openai", CHAT) == 1
    assert count("openai-responses", ITEMS) == 2
    assert count("openai-responses", {"input": "hi"}) == 0
    assert count("openai", {"messages": [5, None]}) == 0


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
        clean(client, body, Turns("ours", ("other",)), Notes())
        count(client, body)


def test_translation_cleans_first() -> None:
    for upstream in ("anthropic", "openai-responses"):
        made = translate.request(
            "anthropic",
            upstream,
            MESSAGES | {"max_tokens": 99},
            model="m",
            turns=Turns("ours", ("other", "other")),
        )
        assert made.warnings == ("thinking",)
        assert b"signature" not in made.body
        assert b"t1" in made.body
