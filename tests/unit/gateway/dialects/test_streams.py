"""What each dialect's streams may look like, and what the client gets then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dialect_calls import CONTEXT, events, streamed
from tidegate.gateway.dialects import sequencer
from tidegate.gateway.dialects.blocks import Answer, Thinking, Wire
from tidegate.gateway.dialects.faults import AnswerMalformed
from tidegate.gateway.dialects.for_client import Context
from tidegate.gateway.dialects.quirks import Quirks
from tidegate.gateway.dialects.sequencer import MAX_ANSWER_CHARACTERS, Sequencer
from tidegate.gateway.dialects.sink import Head
from tidegate.gateway.dialects.stream import MAX_HEAD_EVENTS, StreamTranslator, TranslatedPhases
from tidegate.gateway.usage_rules import UsageRules

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "model": "u",
        "created": 5,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def call(
    text: str | None, index: int | None = 0, call_id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": text}
    made: dict[str, Any] = {"function": {k: v for k, v in function.items() if v is not None}}
    return chunk(tool_calls=[made | {k: v for k, v in (("index", index), ("id", call_id)) if v is not None}])


def blocks(data: bytes, upstream: Wire = C, context: Context = CONTEXT) -> list[tuple[str, str]]:
    """(kind and name, text) of the blocks an Anthropic client puts together; sequence and framing are checked."""
    step, found = streamed(M, upstream, data, context)
    assert (step.fault, step.error) == (None, None)
    made: list[list[str]] = []
    is_open = False
    for event in found[1:]:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(made)
            is_open = True
            block = event["content_block"]
            made.append([f"{block['type']} {block.get('name', '')}".strip(), block.get("data", "")])
        elif event["type"] == "content_block_delta":
            assert is_open
            assert event["index"] == len(made) - 1
            delta = event["delta"]
            made[-1][1] += delta.get("text", delta.get("thinking", delta.get("partial_json", "")))
            made[-1][1] += f"|{delta['signature']}" if "signature" in delta else ""
        elif event["type"] == "content_block_stop":
            is_open = False
    assert not is_open
    assert found[0]["type"] == "message_start"
    return [(kind, text.removesuffix("|tidegate:plain:")) for kind, text in made]


def test_parallel_calls_that_come_mixed_are_put_in_order() -> None:
    data = events(
        chunk(content="t"),
        call("", 0, "c0", "f"),
        call('{"a"', 0),
        call('{"b', 1, "c1", "g"),
        call(": 1", 0),
        call('": 2}', 1),
        call("", 2, "c2", "h"),
        call("}", 0),
        call("{}", 2),
        chunk("tool_calls"),
        "[DONE]",
    )
    assert blocks(data) == [
        ("text", "t"),
        ("tool_use f", '{"a": 1}'),
        ("tool_use g", '{"b": 2}'),
        ("tool_use h", "{}"),
    ]


def test_a_call_streams_on_when_those_before_it_are_whole() -> None:
    translator = StreamTranslator(C, M, CONTEXT)
    for event in (call('{"a": 1}', 0, "c0", "f"), call('{"b"', 1, "c1", "g")):
        step = translator.feed(events(event))
    assert b"g" in step.forward
    assert b'{\\"b\\"' in step.forward


def test_a_call_waits_no_longer_than_it_must() -> None:
    translator = StreamTranslator(C, M, CONTEXT)
    steps = [
        translator.feed(events(event))
        for event in (call('{"a"', 0, "c0", "f"), call('{"b"', 1, "c1", "g"), call(":1}", 0))
    ]
    assert b'"g"' not in steps[1].forward
    assert b'"g"' in steps[2].forward


def test_calls_without_index_or_id_are_told_apart() -> None:
    data = events(
        call("{", None, "c0", "f"),
        call("}", None),
        call("{", None, "c1", "g"),
        call("}", None, "c1"),
        "[DONE]",
    )
    assert blocks(data) == [("tool_use f", "{}"), ("tool_use g", "{}")]
    two = chunk(
        tool_calls=[
            {"function": {"name": "f", "arguments": "{}"}},
            {"function": {"name": "g", "arguments": "{}"}},
        ]
    )
    step, found = streamed(M, C, events(two, "[DONE]"))
    assert step.terminal
    ids = [event["content_block"]["id"] for event in found if event["type"] == "content_block_start"]
    assert ids == ["call_x_0", "call_x_1"]


@pytest.mark.parametrize("gap", [0, 3])
def test_calls_that_share_an_index_are_told_apart_by_their_ids(gap: int) -> None:
    data = events(
        call('{"a"', gap, "c0", "f"),
        call(": 1}", gap, "c0", "f"),
        call("{", gap, "c1", "g"),
        call("}", gap),
        call("{}", 9, "c2", "h"),
        "[DONE]",
    )
    assert blocks(data) == [("tool_use f", '{"a": 1}'), ("tool_use g", "{}"), ("tool_use h", "{}")]


def test_a_call_opens_when_its_name_is_known() -> None:
    data = events(
        chunk(tool_calls=[{"index": 0, "id": "c0"}]), call('{"a":', 0), call("1}", 0, None, "f"), "[DONE]"
    )
    assert blocks(data) == [("tool_use f", '{"a":1}')]
    assert blocks(events(call("{}", 0, "c0"), chunk(content="t"), "[DONE]")) == [("text", "t")]


def test_words_and_thinking_take_turns() -> None:
    data = events(
        chunk(role="assistant", content=""),
        chunk(reasoning_content="a", content=None),
        chunk(reasoning="b"),
        chunk(reasoning_content="", reasoning="c"),
        chunk(content="d"),
        chunk(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": "e"}]},
                {"type": "text", "text": "f"},
            ]
        ),
        call("{}", 0, "c0", "g"),
        chunk(content="h"),
        chunk(refusal="i"),
        "[DONE]",
    )
    assert blocks(data) == [
        ("thinking", "abc"), ("text", "d"), ("thinking", "e"), ("text", "f"), ("tool_use g", "{}"), ("text", "h"), ("text", "i"),
    ]  # fmt: skip


def test_what_proves_thinking_in_chat_is_kept() -> None:
    detail = {"format": "anthropic-claude-v1", "index": 0}
    data = events(
        chunk(reasoning="hm", reasoning_details=[detail | {"type": "reasoning.text", "text": "hm"}]),
        chunk(reasoning_details=[detail | {"type": "reasoning.text", "signature": "s"}]),
        chunk(reasoning_details=[detail | {"type": "reasoning.encrypted", "data": "r"}]),
        chunk(content="t"),
        chunk(
            reasoning_details=[
                {
                    "type": "reasoning.encrypted",
                    "format": "openai-responses-v1",
                    "data": "e",
                    "id": "rs",
                    "summary": "w",
                }
            ]
        ),
        "[DONE]",
    )
    assert blocks(data) == [
        ("thinking", "hm|s"), ("redacted_thinking", "r"), ("text", "t"), ("thinking", "w|tidegate:openai:encrypted:rs:e"),
    ]  # fmt: skip


def test_other_choices_and_chunks_without_any_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0}]}
    data = events({"id": "x"}, {"choices": []}, other, chunk(content="t"), {"usage": None}, "[DONE]")
    assert blocks(data) == [("text", "t")]


def test_free_text_tools_of_chat_reach_responses_clients() -> None:
    first = chunk(
        tool_calls=[{"index": 0, "id": "c", "type": "custom", "custom": {"name": "p", "input": ""}}]
    )
    rest = [chunk(tool_calls=[{"index": 0, "custom": {"input": text}}]) for text in ("*** ", "x")]
    step, found = streamed(R, C, events(first, *rest, call("{}", 1, "d", "f"), "[DONE]"))
    assert step.terminal
    output = found[-1]["response"]["output"]
    assert [(item["type"], item.get("input", item.get("arguments"))) for item in output] == [
        ("custom_tool_call", "*** x"),
        ("function_call", "{}"),
    ]
    assert [
        event["delta"] for event in found if event["type"] == "response.custom_tool_call_input.delta"
    ] == ["*** ", "x"]


def test_free_text_sent_as_a_function_comes_back_as_free_text() -> None:
    context = Context(
        answer_id="a", custom_tools=frozenset({"patch"}), tool_names={"p": "patch", "q": "long.name"}
    )
    data = events(
        call('{"input":', 0, "c", "p"),
        call(' "*** x"}', 0),
        call("{}", 1, "d", "q"),
        call("", 2, "e", "patch"),
        "[DONE]",
    )
    _, found = streamed(R, C, data, context)
    output = found[-1]["response"]["output"]
    assert [(item["type"], item["name"], item.get("input")) for item in output] == [
        ("custom_tool_call", "patch", "*** x"), ("function_call", "long.name", None), ("custom_tool_call", "patch", ""),
    ]  # fmt: skip
    assert output[1]["arguments"] == "{}"
    _, found = streamed(R, C, events(call("", 0, "c", "f"), "[DONE]"))
    assert found[-1]["response"]["output"][0]["arguments"] == "{}"
    _, found = streamed(C, R, responses_events(tool_item("p", '{"input": "*** x"}')), context)
    choices = [choice for event in found for choice in event["choices"]]
    deltas = [choice["delta"]["tool_calls"][0] for choice in choices if "tool_calls" in choice["delta"]]
    assert [delta["custom"] for delta in deltas] == [{"name": "patch", "input": ""}, {"input": "*** x"}]


def test_a_vendor_that_does_not_say_done_is_believed_where_declared() -> None:
    data = events(chunk(content="t"), chunk("stop"))
    step, _ = streamed(M, C, data)
    assert step.terminal is None
    step, _ = streamed(M, C, data, quirks=Quirks(ends_without_done=True))
    assert step.terminal
    step, _ = streamed(M, C, events(chunk(content="t")), quirks=Quirks(ends_without_done=True))
    assert step.terminal is None


def test_chunks_of_the_clients_own_dialect_are_passed_on_as_they_are() -> None:
    odd = {
        "id": "x",
        "brand_new": 1,
        "choices": [
            {"index": 0, "delta": {"content": "t"}, "logprobs": {"content": []}},
            {"index": 1, "delta": {"content": "other"}},
        ],
    }
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    first, last = chunk(role="assistant", content=""), chunk("stop") | {"usage": None}
    data = events(first, odd, last, usage)
    quirks = Quirks(ends_without_done=True)
    for wants, expected in ((True, [first, odd, last, usage]), (False, [first, odd, last])):
        step, found = streamed(C, C, data[:-1], Context(answer_id="a", wants_usage=wants), quirks)
        assert step.terminal == b"data: [DONE]\n\n"
        assert found == expected
    phases = TranslatedPhases(C, C, CONTEXT)
    assert phases.feed(events(first)).forward == b""
    assert phases.feed(b"data: {\ndata: }\r\n\r\n" + events(odd)).forward == events(
        first
    ) + b"data: {\ndata: }\n\n" + events(odd)
    assert phases.feed(b"data: [DONE]\n\n").terminal
    assert streamed(C, C, events(odd, {"error": {"message": "m"}}))[0].error == {"error": {"message": "m"}}


def test_an_empty_answer_is_still_an_answer() -> None:
    step, found = streamed(M, C, events("[DONE]"))
    assert step.terminal
    assert not step.committed
    assert [event["type"] for event in found] == ["message_start", "message_delta", "message_stop"]
    assert found[0]["message"]["id"] == "a1"
    _, found = streamed(C, M, events({"type": "message_stop"}))
    assert (found[0]["id"], found[0]["created"], found[0]["model"]) == ("a1", 7, "route")


def test_usage_comes_when_it_was_asked_for() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "my_hits": 4}
    rules = UsageRules(cached=("my_hits",))
    data = events(
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "message_stop"},
    )
    _, found = streamed(C, M, data, Context(answer_id="a"))
    assert found[-1]["usage"]["prompt_tokens"] == 3
    assert found[-1]["choices"] == []
    _, found = streamed(C, M, events({"type": "message_stop"}), Context(answer_id="a"))
    assert all("usage" not in event for event in found)
    _, found = streamed(C, M, data, Context(answer_id="a", wants_usage=False))
    assert all("usage" not in event for event in found)
    _, found = streamed(
        M,
        C,
        events(chunk(content="t") | {"usage": usage}, "[DONE]"),
        Context(answer_id="a", usage_rules=rules),
    )
    assert found[-2]["usage"] == {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 2}


def test_anthropics_first_output_count_is_a_placeholder() -> None:
    phases = TranslatedPhases(M, C, CONTEXT)
    start = {
        "type": "message_start",
        "message": {"id": "x", "model": "u", "usage": {"input_tokens": 3, "output_tokens": 1}},
    }
    phases.feed(
        events(
            start, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        )
    )
    assert (phases.tokens.input_uncached, phases.tokens.output) == (3, None)
    assert (phases.model, phases.committed, phases.content_events) == ("u", False, 0)
    phases.feed(
        events({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "t"}})
    )
    assert (phases.committed, phases.content_events) == (True, 1)
    phases.feed(
        events({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}})
    )
    assert phases.tokens.output == 9


def anthropic(*found: dict[str, Any], stop: str = "end_turn") -> bytes:
    """A message stream of these blocks; each holds its start, its deltas and, if it has one, its odd index."""
    out: list[Any] = [{"type": "message_start", "message": {"id": "x", "model": "u"}}, {"type": "ping"}]
    for index, block in enumerate(found):
        out.append({"type": "content_block_start", "index": index, "content_block": block["start"]})
        out += [
            {"type": "content_block_delta", "index": index, "delta": delta}
            for delta in block.get("deltas", [])
        ]
        out.append({"type": "content_block_stop", "index": index})
    return events(
        *out,
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}},
        {"type": "message_stop"},
    )


def chat(data: bytes, upstream: Wire = M, context: Context = CONTEXT) -> dict[str, Any]:
    """The message a chat client puts together."""
    step, found = streamed(C, upstream, data, context)
    assert (step.fault, step.error) == (None, None)
    made: dict[str, Any] = {"calls": {}}
    for event in found:
        for choice in event["choices"]:
            made["finish"] = choice["finish_reason"]
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    function = value[0]["function"]
                    held = made["calls"].setdefault(
                        value[0]["index"], [value[0].get("id"), function.get("name"), ""]
                    )
                    held[2] += function["arguments"]
                elif isinstance(value, str) and name != "role":
                    made[name] = made.get(name, "") + value
                elif name == "reasoning_details":
                    made.setdefault(name, []).extend(value)
    return made


def test_anthropics_blocks_in_chat() -> None:
    made = chat(
        anthropic(
            {"start": {"type": "thinking", "thinking": "h", "signature": ""}, "deltas": [{"type": "thinking_delta", "thinking": "m"}, {"type": "signature_delta", "signature": "s"}]},
            {"start": {"type": "redacted_thinking", "data": "r"}},
            {"start": {"type": "thinking", "thinking": "plain", "signature": ""}},
            {"start": {"type": "text", "text": "t"}, "deltas": [{"type": "text_delta", "text": "u"}, {"type": "citations_delta", "citation": {}}]},
            {"start": {"type": "text", "text": ""}},
            {"start": {"type": "server_tool_use", "id": "s", "name": "w"}, "deltas": [{"type": "input_json_delta", "partial_json": "{}"}]},
            {"start": {"type": "tool_use", "id": "c0", "name": "f", "input": {}}, "deltas": [{"type": "input_json_delta", "partial_json": ""}]},
            {"start": {"type": "tool_use", "id": "c1", "name": "g", "input": {"a": 1}}},
            {"start": {"type": "tool_use", "id": "c2", "name": "h", "input": {"a": 1}}, "deltas": [{"type": "input_json_delta", "partial_json": '{"b":2}'}]},
            stop="tool_use",
        )
    )  # fmt: skip
    assert made["content"] == "tu"
    assert made["reasoning_content"] == "hmplain"
    assert [entry.get("signature", entry.get("data")) for entry in made["reasoning_details"]] == ["s", "r"]
    assert [entry["index"] for entry in made["reasoning_details"]] == [0, 1]
    assert made["reasoning_details"][0]["text"] == "hm"
    assert list(made["calls"].values()) == [["c0", "f", "{}"], ["c1", "g", '{"a":1}'], ["c2", "h", '{"b":2}']]
    assert made["finish"] == "tool_calls"


def test_a_stop_sequence_is_told_by_its_name() -> None:
    data = events(
        {"type": "message_start"},
        {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "x"}},
        {"type": "message_delta"},
        {"type": "message_delta", "delta": {}},
        {"type": "message_stop"},
    )
    translator = StreamTranslator(M, C, CONTEXT)
    forward = b"".join(translator.feed(event + b"\n\n").forward for event in data.split(b"\n\n"))
    assert b'"finish_reason":"stop"' in forward
    assert translator.model is None


def test_blocks_that_were_not_closed_are_closed_at_the_end() -> None:
    data = events(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        },
        {"type": "message_stop"},
    )
    assert list(chat(data)["calls"].values()) == [["c", "f", '{"a":1}']]


def test_an_event_is_known_by_its_name_when_its_data_has_no_type() -> None:
    data = b"event: message_start\ndata: {}\n\nevent: content_block_start\n" + events(
        {"index": 0, "content_block": {"type": "text", "text": "t"}}
    )
    assert chat(data + b"event: message_stop\ndata: {}\n\n")["content"] == "t"


def responses_events(*items: dict[str, Any], **final: Any) -> bytes:
    response = {"id": "x", "model": "u", "created_at": 5.5}
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(items)
    ]
    return events(
        {"type": "response.created", "response": response},
        *done,
        {"type": "response.completed", "response": response | final},
    )


def tool_item(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": "c", "name": name, "arguments": arguments}


def test_items_that_were_not_streamed_are_taken_whole() -> None:
    message = {
        "type": "message",
        "content": [
            {"type": "output_text", "text": ""},
            {"type": "refusal", "refusal": "no"},
            {"type": "output_text", "text": "t"},
        ],
    }
    reasoning = {
        "type": "reasoning",
        "id": "rs",
        "summary": [{"text": "a"}, {"text": "b"}],
        "encrypted_content": "e",
    }
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "{}"}
    found = [reasoning, message, tool_item("f", '{"a":1}'), {"type": "web_search_call"}, custom]
    expected = [
        ("thinking", "a\n\nb|tidegate:openai:encrypted:rs:e"), ("text", "no"), ("text", "t"), ("tool_use f", '{"a":1}'), ("tool_use p", "{}"),
    ]  # fmt: skip
    assert blocks(responses_events(*found), R) == expected
    assert blocks(responses_events(output=found), R) == expected
    redacted = {"type": "reasoning", "summary": [], "encrypted_content": "tidegate:anthropic:redacted:r"}
    assert blocks(responses_events(redacted, {"type": "reasoning", "summary": []}), R) == [
        ("redacted_thinking", "r")
    ]


def test_parts_of_a_summary_have_a_blank_line_between() -> None:
    def say(kind: str, text: str, **place: int) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": 0, "delta": text, **place}

    data = events(
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "reasoning", "summary": []},
        },
        say("reasoning_summary_text", "a", summary_index=0),
        say("reasoning_summary_text", "b", summary_index=0),
        say("reasoning_text", "whole", content_index=0),
        say("reasoning_summary_text", "c", summary_index=1),
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "reasoning", "summary": [{"text": "ab"}, {"text": "c"}]},
        },
        {"type": "response.completed", "response": {}},
    )
    assert blocks(data, R) == [("thinking", "ab\n\nc")]
    sealed = {
        "type": "reasoning",
        "summary": [],
        "content": [{"text": "whole"}, {"text": "more"}],
        "encrypted_content": "e",
    }
    parted = events(
        say("reasoning_text", "whole", content_index=0),
        {"type": "response.content_part.done", "output_index": 0, "content_index": 0},
        say("reasoning_text", "more", content_index=1),
        {"type": "response.output_item.done", "output_index": 0, "item": sealed},
        {"type": "response.completed", "response": {}},
    )
    assert blocks(parted, R) == [("thinking", "whole\n\nmore|tidegate:openai:encrypted::e")]
    only = events(
        say("reasoning_text", "whole", content_index=0), {"type": "response.completed", "response": {}}
    )
    assert blocks(only, R) == [("thinking", "whole")]


def test_words_without_an_announcement_are_words() -> None:
    data = events(
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "t"},
        {"type": "response.output_text.delta", "output_index": 0, "delta": None},
        {"type": "response.content_part.done", "output_index": 0, "content_index": 0},
        {"type": "response.refusal.delta", "output_index": 1, "delta": "no"},
        {"type": "response.content_part.added", "output_index": 2, "part": {"type": "reasoning_text"}},
        {"type": "response.content_part.added", "output_index": 2},
        {"type": "response.output_item.added", "output_index": 3},
        {"type": "response.output_item.done", "output_index": 3},
        {"type": "response.some_new_thing"},
        {"type": "response.function_call_arguments.delta", "output_index": 7, "delta": "lost"},
        {"type": "response.completed", "response": {"model": "u"}},
    )
    assert blocks(data, R) == [("text", "t"), ("text", "no")]


def test_every_event_of_a_responses_stream_is_numbered_in_order() -> None:
    data = events(
        chunk(reasoning="hm"), chunk(content="t"), chunk(refusal="no"), call("{}", 0, "c", "f"), "[DONE]"
    )
    _, found = streamed(R, C, data)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[0]["response"]["status"] == "in_progress"
    assert found[-1]["type"] == "response.completed"


ERRORS: list[tuple[Wire, bytes, dict[str, Any]]] = [
    (C, events({"error": {"message": "m", "code": "c"}}), {"error": {"message": "m", "code": "c"}}),
    (C, b"event: error\n" + events({"message": "m"}), {"error": {"message": "m"}}),
    (C, b"event: error\n" + events({"error": {"message": "m"}}), {"error": {"message": "m"}}),
    (
        M,
        events({"type": "error", "error": {"type": "overloaded_error"}}),
        {"type": "error", "error": {"type": "overloaded_error"}},
    ),
    (M, b"event: error\n" + events({"error": {"type": "x"}}), {"type": "error", "error": {"type": "x"}}),
    (R, events({"type": "error", "code": "c", "message": "m"}), {"error": {"code": "c", "message": "m"}}),
    (R, events({"type": "response.failed", "response": {"error": {"code": "c"}}}), {"error": {"code": "c"}}),
    (R, events({"type": "response.failed", "response": {}}), {"error": {}}),
]


@pytest.mark.parametrize(("upstream", "data", "error"), ERRORS)
def test_an_error_in_a_stream_is_handed_over_as_one(
    upstream: Wire, data: bytes, error: dict[str, Any]
) -> None:
    clients: list[Wire] = [wire for wire in (C, M, R) if wire != upstream]
    for client in clients:
        step, found = streamed(client, upstream, data)
        assert step.error == error
        assert (step.terminal, step.committed, found) == (None, False, [])


def test_what_was_said_before_an_error_is_sent() -> None:
    step, found = streamed(M, C, events(chunk(content="t"), {"error": {"message": "m"}}))
    assert step.committed
    assert step.error
    assert found[-1]["delta"]["text"] == "t"


FAULTS: list[tuple[Wire, Wire, bytes]] = [
    (M, C, events({"choices": 5})),
    (M, C, events({"choices": [{"delta": 5}]})),
    (M, C, events(chunk(content=5))),
    (M, C, events(chunk(tool_calls={}))),
    (C, M, events({"type": "content_block_start", "content_block": {}})),
    (C, M, events({"type": "content_block_start", "index": "0"})),
    (C, M, events({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}})),
    (
        C,
        R,
        events({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call"}}),
    ),
    (C, R, events({"type": "response.completed", "response": 5})),
]


@pytest.mark.parametrize(("client", "upstream", "data"), FAULTS)
def test_an_event_out_of_form_is_a_fault_with_a_name(client: Wire, upstream: Wire, data: bytes) -> None:
    step, _ = streamed(client, upstream, data)
    assert step.fault
    assert step.terminal is None


@pytest.mark.parametrize("text", ["[]", "{", "x}", "nothing", '{"a": 1}}'])
def test_arguments_that_are_no_object_are_the_models_mistake_and_no_fault(text: str) -> None:
    data = events(call(text, 0, "c", "f"), call("{}", 1, "d", "g"), chunk("tool_calls"), "[DONE]")
    step, _ = streamed(M, C, data)
    assert (step.fault, step.terminal) == (None, b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert blocks(data) == [("tool_use f", text), ("tool_use g", "{}")]


def test_arguments_cut_by_the_length_limit_are_no_fault() -> None:
    assert blocks(events(call('{"a', 0, "c", "f"), chunk("length"), "[DONE]")) == [("tool_use f", '{"a')]


def test_an_event_without_its_parts_is_passed_over() -> None:
    data = events(
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": {}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    )
    assert chat(data)["finish"] == "stop"
    assert blocks(events(chunk(tool_calls=[{"index": 0}]), {"choices": [{"index": 0}]}, "[DONE]")) == []


def test_a_stream_without_content_is_given_up() -> None:
    translator = StreamTranslator(C, M, CONTEXT)
    unit = events(chunk(role="assistant"))
    for _ in range(MAX_HEAD_EVENTS):
        assert not translator.feed(unit).finished
    assert translator.feed(unit).fault == f"no content within {MAX_HEAD_EVENTS} events"
    assert translator.feed(unit).finished
    assert translator.feed_last(b"").finished


@pytest.mark.parametrize(
    ("data", "commits"),
    [
        (events(chunk(role="assistant", content="")), False),
        (events(call("", 0, "c", "f")), False),
        (events(call("{", 0, "c", "f")), True),
        (events(chunk(reasoning="h")), True),
        (events(chunk(refusal="h")), True),
        (events(chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "r"}])), True),
        (events({"usage": {"prompt_tokens": 4}, "choices": []}), False),
    ],
)
def test_nothing_is_sent_before_the_first_content(data: bytes, commits: bool) -> None:
    phases = TranslatedPhases(C, M, CONTEXT)
    step = phases.feed(data)
    assert (step.committed, bool(step.forward)) == (commits, commits)
    assert phases.committed == commits


class Recorder:
    """A sink that writes down what it is told, and insists on the order."""

    def __init__(self) -> None:
        self.blocks: list[list[Any]] = []
        self.is_open = False

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        raise AssertionError

    def open(self, head: Head) -> None:
        assert not self.is_open
        self.is_open = True
        self.blocks.append([head.name, "", None])

    def piece(self, text: str) -> None:
        assert self.is_open
        assert text
        self.blocks[-1][1] += text

    def close(self, proof: Thinking | None) -> None:
        assert self.is_open
        self.is_open = False
        self.blocks[-1][2] = proof

    def end(self, stop: Any, stop_sequence: str | None, tokens: Any, tier: str | None = None) -> None:
        raise AssertionError


KEYS = st.integers(0, 3)
DEEDS = st.lists(
    st.tuples(st.just("open"), KEYS, st.booleans())
    | st.tuples(st.just("piece"), KEYS, st.sampled_from(["", "x", "yz"]))
    | st.tuples(st.just("close"), KEYS, st.booleans()),
    max_size=40,
)


@given(DEEDS)
def test_any_order_of_deeds_gives_blocks_one_after_the_other(deeds: list[tuple[str, int, Any]]) -> None:
    recorder = Recorder()
    sequencer = Sequencer(recorder)
    texts: dict[int, list[str]] = {}
    kinds: dict[int, bool] = {}
    proofs: dict[int, Thinking | None] = {}
    for deed, key, detail in deeds:
        if deed == "open":
            sequencer.open(key, Head("tool" if detail else "text", name=str(key)))
            if key not in kinds:
                kinds[key], texts[key] = detail, []
        elif deed == "piece":
            sequencer.piece(key, detail)
            if key in kinds and key not in proofs:
                texts[key].append(detail)
        else:
            proof = Thinking(signature="s") if detail else None
            sequencer.close(key, proof)
            if key in kinds:
                proofs.setdefault(key, proof)
    sequencer.close_all()
    assert not recorder.is_open
    expected = [
        [str(key), "".join(texts[key]), proofs.get(key)]
        for key in kinds
        if kinds[key] or "".join(texts[key]) or proofs.get(key) is not None
    ]
    assert recorder.blocks == expected


def test_the_length_of_an_answer_is_bounded() -> None:
    sequencer = Sequencer(Recorder())
    sequencer.open(0, Head("text"))
    half = "x" * (MAX_ANSWER_CHARACTERS // 2)
    sequencer.piece(0, half)
    sequencer.piece(0, half)
    with pytest.raises(AnswerMalformed, match="longer"):
        sequencer.piece(0, "x")


def test_an_answer_has_defaults() -> None:
    assert Answer().stop == "end"
    assert json.loads(events({})[6:]) == {}


def test_a_responses_stream_that_breaks_off_is_not_whole_even_where_its_vendor_ends_as_it_likes() -> None:
    data = events(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": "t"},
    )
    step, _ = streamed(C, R, data, quirks=Quirks(ends_without_done=True))
    assert step.terminal is None


def test_an_input_that_came_whole_and_is_too_long_is_told_when_its_stream_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequencer, "MAX_ANSWER_CHARACTERS", 5)
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": "long"}}
    data = events(
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_stop"},
    )
    step, _ = streamed(C, M, data)
    assert step.fault == "the answer is longer than 5 characters"
    assert step.terminal is None


def test_the_tier_that_a_stream_tells_is_known_as_soon_as_it_is_told() -> None:
    phases = TranslatedPhases(C, M, CONTEXT)
    assert phases.told_tier is None
    phases.feed(events(chunk(content="t") | {"service_tier": "priority"}))
    assert phases.told_tier == "priority"
