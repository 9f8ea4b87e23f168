"""Arguments of tools keep every digit across dialects: whole, streamed, and in the history of a request."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.around import joined
from support.dialect_answers import WIRES, Said, Spec, Wire, stream, whole
from support.dialect_calls import CONTEXT, LEAST
from tidegate.gateway.attempt import parse_json
from tidegate.gateway.crossings import Crossings, Speech
from tidegate.gateway.dialects import exact_numbers, translate
from tidegate.gateway.dialects.history import NOBODY, Trust
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.dialects.stream import TranslatedPhases

CROSS = [(client, upstream) for client in WIRES for upstream in WIRES if client != upstream]
NUMBERS = (
    "18446744073709551616", "-9223372036854775809", "123456789012345678901234567890", "9007199254740993", "7",
    "1e400", "-1E+400", "-0", "-0.0", "1.0", "1.10", "1e5", "0.1", "3.141592653589793238462643383279",
)  # fmt: skip


def arguments(*numbers: str) -> str:
    inner = ",".join(f'"n{at}":[{number},{{"deep":{number}}}]' for at, number in enumerate(numbers))
    return f'{{"z":"1e5 \\"-0","a":null,{inner}}}'


def spec(text: str) -> Spec:
    call = Said("tool", text, call_id="call_1", name="f")
    return Spec("x1", "m", (Said("text", "now"), call), "tool_use", 5, 0, 0, 9, 0)


def whole_answer(wire: Wire, text: str) -> bytes:
    """As a provider spells it: the object as it is, or as a string."""
    made = whole(wire, spec('{"mark":1}'))
    spelled = json.dumps(made)
    for mark, put in (('{"mark": 1}', text), (json.dumps('{"mark":1}'), json.dumps(text))):
        spelled = spelled.replace(mark, put)
    return spelled.encode()


def said(wire: Wire, body: bytes) -> str:
    """The arguments of the only call, as the bytes have them."""
    if wire == "anthropic":
        found = re.search(rb'"name": ?"f","input":(\{.*?\]\})\}', body)
        assert found is not None, body
        return found[1].decode()
    found = re.search(rb'"arguments": ?("(?:[^"\\]|\\.)*")', body)
    assert found is not None, body
    return str(json.loads(found[1]))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_a_whole_answer_keeps_the_digits_of_every_number(client: Wire, upstream: Wire, number: str) -> None:
    text = arguments(number)
    given_answer = whole_answer(upstream, text)
    assert parse_json(given_answer) is not None
    assert said(client, translate.answer(client, upstream, given_answer, CONTEXT)) == text


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_a_stream_says_the_same_arguments_as_the_whole_answer(client: Wire, upstream: Wire) -> None:
    text = arguments(*NUMBERS)
    phases = TranslatedPhases(upstream, client, CONTEXT)
    out = b"".join(step.forward for step in (phases.feed(streamed_answer(upstream, text)), phases.end()))
    assert (
        pieces(client, out)
        == text
        == said(client, translate.answer(client, upstream, whole_answer(upstream, text), CONTEXT))
    )


def streamed_answer(wire: Wire, text: str) -> bytes:
    if wire != "anthropic":
        return stream(wire, spec(text), Random(1))
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": "MARK"},
    }
    begin = {
        "type": "message_start",
        "message": {"id": "x1", "type": "message", "role": "assistant", "model": "m", "content": []},
    }
    events = [begin, start, {"type": "content_block_stop", "index": 0}, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}, {"type": "message_stop"}]  # fmt: skip
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in events).replace(
        b'"MARK"', text.encode()
    )


def pieces(client: Wire, out: bytes) -> str:
    """What the deltas of arguments say together."""
    found = ""
    for line in out.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        event: dict[str, Any] = json.loads(line[6:])
        if client == "openai":
            for choice in event["choices"]:
                calls = choice["delta"].get("tool_calls") or ()
                found += "".join(call["function"].get("arguments", "") for call in calls)
        elif event["type"] == "response.function_call_arguments.delta":
            found += event["delta"]
        else:
            found += event.get("delta", {}).get("partial_json", "") if client == "anthropic" else ""
    return found


def history(client: Wire, text: str) -> bytes:
    turn: list[dict[str, Any]]
    if client == "openai-responses":
        turn = [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "MARK"},
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
        ]
        body = LEAST[client] | {"input": turn}
    elif client == "anthropic":
        turn = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "MARK"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
        ]
        body = LEAST[client] | {"messages": turn}
    else:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "MARK"}}
        turn = [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]
        body = LEAST[client] | {"messages": [*LEAST[client]["messages"], *turn]}
    put = text if client == "anthropic" else json.dumps(text)
    return json.dumps(body).replace('"MARK"', put).encode()


@pytest.mark.parametrize("number", [each for each in NUMBERS if "400" not in each])
@pytest.mark.parametrize(("client", "upstream"), [*CROSS, ("anthropic", "anthropic")])
def test_the_history_of_a_request_keeps_the_digits_of_every_number(
    client: Wire, upstream: Wire, number: str
) -> None:
    text = arguments(number)
    quirks = Quirks(no_sampling=True) if client == upstream else PLAIN
    made = Crossings(client, history(client, text), created_s=1, answer_id="a")
    for trust in (NOBODY, Trust("x", own=frozenset())):  # the body is parsed again for another history
        crossed = made.for_target(Speech((upstream,), quirks), trust)
        assert crossed is not None
        assert said(upstream, joined(crossed.around_model, b'"real"').replace(b": ", b":")) == text


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": "tool_use", "x": "\\"tool_use\\""}',
        b'{"messages": [{"content": [{"type": "tool_use", "input": 5}]}]}',
        b'{"messages": [{"content": [5]}], "y": {"tool_use": {"type":"tool_use"}}, "z": "tool_use"}',
        b'{"messages": null, "z": ["tool_use"]}',
        b'{"messages": [{"content": "tool_use"}, {"content": null}, {}], "z": ["tool_use"]}',
        b'{"messages": [], "messages": [{"content": [{"type": "tool_use"}]}]}',
        b'{"content": 5, "z": ["tool_use"]}',
        b'{"content": [{"type": "tool_use", "input": {"a": 1}}, {"type": "text", "text": "1.0"}]}',
        b'{"content": [], "messages": []}',
    ],
)
def test_a_body_out_of_form_is_left_to_the_reader(body: bytes) -> None:
    read = orjson.loads(body)
    exact_numbers.restore_conversation(read, body)
    assert read == orjson.loads(body)
    answer = orjson.loads(body)
    exact_numbers.restore_answer(answer, body)
    assert answer == orjson.loads(body)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a":1e400,"b":"\\ud800"}', "[1e400", "[1e400,NaN]", ""]
)
def test_what_is_no_json_stays_none(text: str) -> None:
    for read in (exact_numbers.parsed, exact_numbers.exactly):
        for form in (text, text.encode()):
            with pytest.raises(orjson.JSONDecodeError):
                read(form)


def test_what_is_nested_deeper_than_is_read_exactly_keeps_its_value() -> None:
    deep = "[" * 1_000 + "0.5" + "]" * 1_000
    value = exact_numbers.exactly(deep)
    for _ in range(1_000):
        (value,) = value
    assert value == 0.5


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.unmeasured
@settings(max_examples=150)
@given(values)
def test_any_json_written_again_is_the_same_text(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    again = orjson.dumps(exact_numbers.exactly(text))
    assert json.loads(again, parse_float=str, parse_int=str) == json.loads(
        text, parse_float=str, parse_int=str
    )
