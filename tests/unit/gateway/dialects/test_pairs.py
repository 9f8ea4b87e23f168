"""Calls and their results stand side by side in dialects that demand it, and blank words are told to nobody who minds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dialect_answers import CHAT, MESSAGES, RESPONSES
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Message, Text, Thinking, ToolCall, ToolResult, Wire
from tidegate.gateway.dialects.pairs import calls_last, side_by_side
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.simulator import anthropic_ask, openai_ask
from tidegate.simulator.ask import Ask

CALL, OTHER = ToolCall("c", "f", "{}"), ToolCall("d", "f", "{}")
RESULT, SECOND = ToolResult("c", (Text("r"),)), ToolResult("d", (Text("s"),))
SAID = Text("x")
PAIRS: tuple[tuple[Wire, Wire], ...] = (
    (CHAT, MESSAGES),
    (RESPONSES, MESSAGES),
    (RESPONSES, CHAT),
    (MESSAGES, CHAT),
)


def user(*blocks: Any) -> Message:
    return Message("user", blocks)


def assistant(*blocks: Any) -> Message:
    return Message("assistant", blocks)


NOTE = Message("developer", (SAID,))


def heard(upstream: Wire, body: bytes) -> Ask:
    """What a provider understands, after it found nothing to refuse."""
    ask = anthropic_ask.read(body) if upstream == MESSAGES else openai_ask.read(body)
    if ask.talk.problem is not None:
        raise ask.talk.problem
    return ask


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ((assistant(CALL), NOTE, user(RESULT)), (assistant(CALL), user(RESULT), NOTE)),
        (
            (assistant(CALL), user(SAID), user(RESULT), user(SAID)),
            (assistant(CALL), user(RESULT), user(SAID), user(SAID)),
        ),
        (
            (assistant(CALL, OTHER), user(RESULT), NOTE, user(SECOND)),
            (assistant(CALL, OTHER), user(RESULT, SECOND), NOTE),
        ),
        ((assistant(CALL), user(), user(RESULT)), (assistant(CALL), user(RESULT), user())),
        (
            (assistant(CALL), user(SAID), assistant(OTHER), user(SECOND, RESULT)),
            (assistant(CALL), user(RESULT), user(SAID), assistant(OTHER), user(SECOND)),
        ),
        ((assistant(CALL), assistant(SAID), user(RESULT)), (assistant(CALL, SAID), user(RESULT))),
    ],
)
def test_what_stood_between_a_call_and_its_result_comes_after(
    messages: tuple[Message, ...], wanted: tuple[Message, ...]
) -> None:
    assert side_by_side(messages) == wanted
    assert side_by_side(wanted) == wanted


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (user(SAID), assistant(SAID), user(SAID)),
        (assistant(CALL, OTHER), user(SECOND), user(RESULT, SAID)),
        (assistant(CALL), user(SAID, RESULT)),
        (assistant(SAID), assistant(SAID), assistant(CALL)),
        (user(RESULT), assistant(CALL), NOTE),
        (assistant(CALL), user(RESULT), user(RESULT)),
        # Some vendors number their calls anew in each turn.
        (assistant(CALL), user(RESULT), assistant(CALL), user(RESULT)),
        (assistant(CALL), user(SAID), assistant(CALL), user(RESULT)),
    ],
)
def test_what_is_in_order_or_has_no_counterpart_stays_as_it_is(messages: tuple[Message, ...]) -> None:
    assert side_by_side(messages) == messages


def test_words_behind_a_call_are_said_before_it() -> None:
    thought = Thinking("t", "s")
    assert calls_last((thought, CALL, SAID, OTHER, Text("y"))) == (thought, SAID, Text("y"), CALL, OTHER)
    for kept in ((), (SAID,), (thought, SAID, CALL, SAID, OTHER)):
        assert calls_last(kept) == kept


def call(number: int) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def as_items(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A chat message as items of responses."""
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        }
        return
    for each in message.get("tool_calls", ()):
        yield {"type": "function_call", "call_id": each["id"], **each["function"]}
    if message["content"] is not None:
        yield {"role": message["role"], "content": message["content"]}


WORDS = st.sampled_from(["words", " ", "\n\n", ""])
BETWEEN = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "developer", "system", "assistant"]),
        WORDS,
    ),
    max_size=2,
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[int]]:
    """Chat messages, and the lengths at which all calls so far are answered."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "begin"}]
    whole, number = [1], 0
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 3))
        said: dict[str, Any] = {"role": "assistant", "content": draw(WORDS)}
        if count:
            said |= {"tool_calls": [call(number + each) for each in range(count)]}
        messages.append(said)
        for each in draw(st.permutations(range(number, number + count))):
            messages += draw(BETWEEN)
            messages.append({"role": "tool", "tool_call_id": f"call_{each}", "content": draw(WORDS)})
        number += count
        messages += draw(BETWEEN)
        messages.append({"role": "user", "content": draw(WORDS)})
        whole.append(len(messages))
    return messages, whole


def told(client: Wire, upstream: Wire, messages: list[dict[str, Any]], quirks: Quirks) -> bytes:
    if client == RESPONSES:
        body: dict[str, Any] = {"input": [item for each in messages for item in as_items(each)]}
    else:
        body = {"messages": messages}
    return translate.request(client, upstream, body, model="m", quirks=quirks).body


def flat(body: bytes) -> list[Any]:
    """The pieces of the prompt in order, with whose they are."""
    turns = json.loads(body)["messages"]
    return [
        (turn["role"], json.dumps(block))
        for turn in turns
        for block in (
            turn["content"] if isinstance(turn["content"], list) and "tool_calls" not in turn else [turn]
        )
    ]


@pytest.mark.parametrize(("client", "upstream"), PAIRS[:3])
@pytest.mark.parametrize("quirks", [PLAIN, Quirks(system_anywhere=True, no_developer_role=True)])
def test_every_conversation_is_valid_and_grows_only_at_its_end(
    client: Wire, upstream: Wire, quirks: Quirks
) -> None:
    @given(conversations())
    def check(conversation: tuple[list[dict[str, Any]], list[int]]) -> None:
        messages, whole = conversation
        before: list[Any] = []
        for length in whole:
            body = told(client, upstream, messages[:length], quirks)
            heard(upstream, body)
            pieces = flat(body)
            assert pieces[: len(before)] == before
            before = pieces

    check()


def test_a_message_between_does_not_break_the_pair() -> None:
    note = {"role": "developer", "content": "note"}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call(1)]},
        note,
        {"role": "tool", "tool_call_id": "call_1", "content": "r"},
    ]
    turns = json.loads(told(RESPONSES, CHAT, messages, PLAIN))["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "developer"]
    for client in (CHAT, RESPONSES):
        turns = json.loads(told(client, MESSAGES, messages, PLAIN))["messages"]
        assert [block["type"] for block in turns[2]["content"]] == ["tool_result", "text"]
        heard(MESSAGES, told(client, MESSAGES, messages, PLAIN))


def test_responses_keep_the_clients_order() -> None:
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call(1)]},
        {"role": "user", "content": "q"},
        {"role": "tool", "tool_call_id": "call_1", "content": "r"},
    ]
    items = json.loads(translate.request(CHAT, RESPONSES, {"messages": messages}, model="m").body)["input"]
    assert [item["type"] for item in items] == ["function_call", "message", "function_call_output"]


def asked(*messages: dict[str, Any], **more: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    made = translate.request(CHAT, MESSAGES, {"messages": list(messages), **more}, model="m")
    heard(MESSAGES, made.body)
    return json.loads(made.body), made.warnings


def test_blank_words_are_left_out_and_an_answer_of_nothing_else_with_them() -> None:
    made, warnings = asked(
        {"role": "system", "content": " "},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "\n\n", "tool_calls": [call(1)]},
        {"role": "tool", "tool_call_id": "call_1", "content": " \n"},
        {"role": "assistant", "content": "\n\n"},
        {"role": "user", "content": [{"type": "text", "text": "\t"}, {"type": "text", "text": "go"}]},
    )
    assert "system" not in made
    assert [block["type"] for turn in made["messages"] for block in turn["content"]] == [
        "text",
        "tool_use",
        "tool_result",
        "text",
    ]
    assert warnings == ()


def test_a_user_who_said_nothing_keeps_the_turn() -> None:
    q, a, blank = (
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "\n"},
    )
    made, warnings = asked(q, a, blank)
    assert made["messages"][2] == {"role": "user", "content": [{"type": "text", "text": "(empty)"}]}
    assert warnings == ("messages.content.blank",)
    assert [turn["role"] for turn in asked(blank, a, q)[0]["messages"]] == ["user", "assistant", "user"]
    assert asked(q, blank, a)[0] == asked(q, a)[0]
    assert asked(blank, q)[0] == asked(q)[0]


def test_a_cache_mark_on_blank_words_is_named() -> None:
    marked = {"type": "text", "text": " ", "cache_control": {"type": "ephemeral"}}
    _, warnings = asked({"role": "user", "content": [{"type": "text", "text": "q"}, marked]})
    assert warnings == ("cache_control",)
