"""Whole answers: content, stops and usage, from each dialect into each."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dialect_answers import WIRES, Said, Spec, whole
from support.dialect_calls import CONTEXT, answered
from tidegate.events.money import Tokens
from tidegate.gateway.dialects import translate, usage_shape
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import AnswerMalformed
from tidegate.gateway.dialects.for_client import Context
from tidegate.gateway.usage import from_answer
from tidegate.gateway.usage_rules import UsageRules

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"


def chat_answer(finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "model": "u",
        "created": 5,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
    }


def message(*blocks: dict[str, Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "model": "u",
        "type": "message",
        "role": "assistant",
        "content": list(blocks),
        "stop_reason": stop,
        **more,
    }


def response(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "x", "model": "u", "created_at": 5, "status": "completed", "output": list(items), **more}


TEXT = {"type": "text", "text": "t"}
OUTPUT_TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CALL_ITEM = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "stop"),
        ("tool_use", "stop"),
        ("something_new", "stop"),
        (None, "stop"),
    ],
)
def test_anthropics_stops_in_chat_words(stop: Any, expected: str) -> None:
    made = answered(C, M, message(TEXT, stop=stop))
    assert made["choices"][0]["finish_reason"] == expected


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end_turn"),
        ("eos", "end_turn"),
    ],
)
def test_chats_stops_in_anthropics_words(finish: str, expected: str) -> None:
    assert answered(M, C, chat_answer(finish, content="t"))["stop_reason"] == expected


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
def test_an_answer_with_calls_ends_at_them(finish: str) -> None:
    made = answered(M, C, chat_answer(finish, content=None, tool_calls=[CALL]))
    assert made["stop_reason"] == "tool_use"
    assert made["content"] == [USE]
    assert answered(C, R, response(CALL_ITEM))["choices"][0]["finish_reason"] == "tool_calls"
    assert answered(M, R, response(CALL_ITEM))["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("reason", "chat", "anthropic"),
    [
        ("max_output_tokens", "length", "max_tokens"),
        ("content_filter", "content_filter", "refusal"),
        ("steered", "length", "max_tokens"),
        (None, "stop", "end_turn"),
    ],
)
def test_incomplete_responses_say_why(reason: str | None, chat: str, anthropic: str) -> None:
    answer = response(OUTPUT_TEXT, incomplete_details={"reason": reason})
    assert answered(C, R, answer)["choices"][0]["finish_reason"] == chat
    assert answered(M, R, answer)["stop_reason"] == anthropic


def test_responses_clients_are_told_why_an_answer_is_incomplete() -> None:
    made = answered(R, M, message(TEXT, stop="max_tokens"))
    assert (made["status"], made["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    made = answered(R, C, chat_answer("content_filter", content="t"))
    assert made["incomplete_details"] == {"reason": "content_filter"}
    made = answered(R, C, chat_answer("stop", content="t"))
    assert (made["status"], made["incomplete_details"], made["error"]) == ("completed", None, None)


def test_a_stop_sequence_is_named() -> None:
    assert answered(M, C, chat_answer(content="t"))["stop_sequence"] is None
    answer = translate.read_answer(M, message(TEXT, stop="stop_sequence", stop_sequence="x"), CONTEXT)
    assert (answer.stop, answer.stop_sequence) == ("stop_sequence", "x")
    assert translate.write_answer(M, answer, CONTEXT)["stop_sequence"] == "x"


def test_a_refusal_is_one_in_every_dialect() -> None:
    refused = chat_answer(content=None, refusal="no")
    assert answered(M, C, refused)["content"] == [{"type": "text", "text": "no"}]
    assert answered(M, C, refused)["stop_reason"] == "refusal"
    made = answered(R, C, refused)
    assert made["output"][0]["content"] == [{"type": "refusal", "refusal": "no"}]
    assert made["status"] == "completed"
    back = answered(C, R, made)["choices"][0]
    assert (back["message"]["refusal"], back["message"]["content"], back["finish_reason"]) == (
        "no",
        None,
        "stop",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_content": "", "reasoning": "hm"},
        {"reasoning_content": None, "reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning": "other"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "t"},
                {"type": "image"},
            ]
        },
    ],
)
def test_thinking_is_found_where_vendors_put_it(fields: dict[str, Any]) -> None:
    made = answered(M, C, chat_answer(**{"content": "t"} | fields))
    assert made["content"] == [{"type": "thinking", "thinking": "hm", "signature": "tidegate:plain:"}, TEXT]
    made = answered(R, C, chat_answer(**{"content": "t"} | fields))
    assert made["output"][0]["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert made["output"][0]["encrypted_content"] == "tidegate:plain:"


def test_opaque_thinking_comes_back_byte_for_byte() -> None:
    """From an answer, through the client's history, to the next request of the same provider."""
    signature = "EqQB+/=:π\n"
    thinking = {"type": "thinking", "thinking": "hm", "signature": signature}
    redacted = {"type": "redacted_thinking", "data": signature}
    answer = message(thinking, redacted, TEXT)
    said = answered(R, M, answer)["output"]
    made = translate.request(R, M, {"input": [{"role": "user", "content": "q"}, *said]}, model="m")
    assert json.loads(made.body)["messages"][1]["content"] == [thinking, redacted, TEXT]
    said = answered(C, M, answer)["choices"][0]["message"]
    made = translate.request(C, M, {"messages": [{"role": "user", "content": "q"}, said]}, model="m")
    assert json.loads(made.body)["messages"][1]["content"] == [thinking, redacted, TEXT]
    wrapped = {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": f"tidegate:anthropic:redacted:{signature}",
    }
    assert answered(M, R, response(wrapped))["content"] == [redacted]
    sealed = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": signature}
    said = answered(M, R, response(sealed, OUTPUT_TEXT))["content"]
    body = {
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": said}],
    }
    made = translate.request(M, R, body, model="m")
    assert json.loads(made.body)["input"][1] == sealed


def test_custom_tools_and_long_names_come_back_as_the_client_knows_them() -> None:
    context = Context(
        answer_id="a",
        tool_names={"short": "a.long.name", "ns": "files\x1fread"},
        custom_tools=frozenset({"patch"}),
    )
    use = [USE | {"name": name, "input": {"input": "*** x"}} for name in ("short", "ns", "patch")]
    made = answered(R, M, message(*use), context)["output"]
    assert [item["name"] for item in made] == ["a.long.name", "read", "patch"]
    assert made[1]["namespace"] == "files"
    assert (made[2]["type"], made[2]["input"]) == ("custom_tool_call", "*** x")
    made = answered(C, M, message(*use), context)["choices"][0]["message"]["tool_calls"]
    assert made[2] == {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
    custom = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
    made = answered(R, C, chat_answer(tool_calls=[custom]), context)["output"]
    assert (made[0]["type"], made[0]["input"]) == ("custom_tool_call", "*** x")
    item = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** x"}
    made = answered(C, R, response(item), context)["choices"][0]["message"]["tool_calls"]
    assert made[0]["custom"]["input"] == "*** x"


@pytest.mark.parametrize("arguments", ["not json", '{"other": 1}', "[]", '{"input": 5}'])
def test_free_text_that_has_no_wrapping_is_taken_as_it_is(arguments: str) -> None:
    context = Context(answer_id="a", custom_tools=frozenset({"f"}))
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    assert answered(R, C, chat_answer(tool_calls=[call]), context)["output"][0]["input"] == arguments


def test_what_the_upstream_does_not_say_is_filled_in() -> None:
    bare = {"choices": [{"message": {"content": "t", "tool_calls": [{"function": {"name": "f"}}]}}]}
    made = answered(M, C, bare)
    assert (made["id"], made["model"]) == ("a1", "route")
    assert made["content"][1] == {"type": "tool_use", "id": "call_a1_0", "name": "f", "input": {}}
    made = answered(R, C, bare)
    assert made["created_at"] == 7
    assert made["output"][1]["arguments"] == "{}"
    made = answered(C, M, {"content": [TEXT, {"type": "text", "text": ""}, {"type": "server_tool_use"}]})
    assert (made["id"], made["created"], made["model"]) == ("a1", 7, "route")
    assert made["choices"][0]["message"]["content"] == "t"
    assert made["usage"] is None
    assert answered(R, M, {"content": [TEXT]})["usage"] is None
    assert answered(M, C, bare)["usage"] == {"input_tokens": 0, "output_tokens": 0}
    made = answered(
        C, R, {"output": [OUTPUT_TEXT, {"type": "reasoning", "summary": []}, {"type": "web_search_call"}]}
    )
    assert made["choices"][0]["message"]["content"] == "t"


def test_a_response_repeats_what_was_asked() -> None:
    made = translate.request(R, M, {"input": "q", "temperature": 0.5, "tools": [], "store": False}, model="m")
    assert orjson.dumps(made.context.echo) == b'{"temperature":0.5,"tools":[],"store":false}'
    answer = json.loads(translate.answer(R, M, json.dumps(message(TEXT)).encode(), made.context))
    assert answer["temperature"] == 0.5
    assert answer["object"] == "response"
    assert answer["parallel_tool_calls"] is True


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a": 1, "b": {"c": [1, 2', {"a": 1, "b": {"c": [1]}}),
        ('{"a": "x", "b": "y', {"a": "x"}),
        ('{"a": "x\\"}', {}),
        ('{"a": "[{", "b": [{"c": "d"}', {"a": "[{", "b": [{"c": "d"}]}),
        ('{"a": 1, ', {"a": 1}),
        ("{", {}),
        ('{"a": {"b": 1}, "c": nul', {"a": {"b": 1}}),
    ],
)
def test_arguments_that_break_off_keep_what_is_whole(text: str, kept: Any) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": text}}
    for reason in ("length", "tool_calls"):
        assert answered(M, C, chat_answer(reason, tool_calls=[call]))["content"][0]["input"] == kept


@pytest.mark.parametrize(
    "text", ["nothing", '"', "[1]", "5", '{"a": x}', '{"a": 1}}', "{'a': 1}", '[{"a"', "null"]
)
@pytest.mark.parametrize("upstream", [C, R])
def test_arguments_that_are_no_object_are_the_models_mistake_and_shown_whole(
    upstream: Wire, text: str
) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": text}}
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}
    made = chat_answer("tool_calls", tool_calls=[call]) if upstream == C else response(item)
    assert answered(M, upstream, made)["content"][0]["input"] == {"INVALID_JSON": text}


MALFORMED: list[tuple[Wire, Any]] = [
    (C, {}),
    (C, {"choices": []}),
    (C, {"choices": [{}]}),
    (C, {"choices": [5]}),
    (C, {"choices": {"0": 1}}),
    (C, chat_answer(content=5)),
    (C, chat_answer(content=[5])),
    (C, chat_answer(tool_calls=[{"id": "c"}])),
    (C, chat_answer(tool_calls=[{"id": "c", "function": {}}])),
    (C, chat_answer(refusal=[])),
    (M, {}),
    (M, {"content": "t"}),
    (M, message({"text": "t"})),
    (M, message({"type": "tool_use", "id": "c"})),
    (M, message({"type": "tool_use", "id": "c", "name": "f", "input": []})),
    (R, {}),
    (R, {"output": 5}),
    (R, response(status="failed")),
    (R, response(5)),  # type: ignore[arg-type]
    (R, response({"type": "function_call"})),
    (R, response({"type": "message", "content": [{"type": "hologram"}]})),
]


@pytest.mark.parametrize(("upstream", "answer"), MALFORMED)
def test_an_answer_out_of_form_is_a_fault_with_a_name(upstream: Wire, answer: Any) -> None:
    clients: list[Wire] = [wire for wire in WIRES if wire != upstream]
    for client in clients:
        with pytest.raises(AnswerMalformed) as fault:
            answered(client, upstream, answer)
        assert str(fault.value)


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'"x"', b"\xff"])
def test_an_answer_that_is_no_object_is_a_fault(data: bytes) -> None:
    with pytest.raises(AnswerMalformed):
        translate.answer(C, M, data, CONTEXT)


def test_an_answer_nested_too_deep_is_a_fault() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(AnswerMalformed, match="nested"):
        answered(C, M, message(USE | {"input": deep}))


COUNTS = st.none() | st.integers(0, 10**6)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_usage_keeps_its_classes_in_every_dialect(
    uncached: int | None, read: int | None, written: int | None, output: int | None, reasoning: int | None
) -> None:
    tokens = Tokens(
        input_uncached=uncached, cache_read=read, cache_write_5m=written, output=output, reasoning=reasoning
    )
    for shape, wire in (
        (usage_shape.to_chat, "openai"),
        (usage_shape.to_responses, "openai"),
        (usage_shape.to_messages, "anthropic"),
    ):
        back = from_answer(wire, {"usage": shape(tokens)})  # type: ignore[arg-type]
        assert back.known_input() == tokens.known_input()
        for name in ("cache_read", "cache_write_5m", "output", "reasoning"):
            assert (getattr(back, name) or 0) == (getattr(tokens, name) or 0)


def test_hour_long_cache_writes_count_as_written() -> None:
    tokens = Tokens(input_uncached=1, cache_write_5m=2, cache_write_1h=3, output=4)
    assert usage_shape.to_messages(tokens)["cache_creation_input_tokens"] == 5
    assert usage_shape.to_chat(tokens)["prompt_tokens"] == 6
    only_long = Tokens(input_uncached=1, cache_write_1h=3)
    assert usage_shape.to_chat(only_long)["prompt_tokens_details"] == {"cache_write_tokens": 3}


def test_usage_is_read_as_the_vendor_reports_it() -> None:
    context = Context(answer_id="a", usage_rules=UsageRules(cached=("my_hits",)))
    made = answered(
        M,
        C,
        chat_answer(content="t") | {"usage": {"prompt_tokens": 9, "my_hits": 4, "completion_tokens": 1}},
        context,
    )
    assert made["usage"] == {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}


@pytest.mark.parametrize("upstream", WIRES)
@pytest.mark.parametrize("client", WIRES)
def test_an_answer_survives_the_way_through_every_dialect(client: Wire, upstream: Wire) -> None:
    blocks = (
        Said("thinking", "hm", "" if upstream == C else "s"),
        Said("text", "t"),
        Said("tool", '{"a":1}', call_id="c", name="f"),
    )
    spec = Spec("x", "u", blocks, "tool_use", 5, 4, 3, 2, 1 if upstream != M else 0)
    first = translate.read_answer(upstream, whole(upstream, spec), CONTEXT)
    back = translate.read_answer(client, translate.write_answer(client, first, CONTEXT), CONTEXT)
    assert back.blocks[1:] == first.blocks[1:]
    assert (back.id, back.model, back.stop) == (first.id, first.model, first.stop)
    assert back.tokens.known_total() == first.tokens.known_total()
