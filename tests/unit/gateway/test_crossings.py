"""One request in several dialects: each made once, told to the targets that take it, refused by name elsewhere."""

from __future__ import annotations

import gc
from typing import Any

import orjson
import pytest

from support.around import joined
from support.dialect_answers import WIRES
from tidegate.gateway.crossings import MAX_OBJECTS, MAX_VALUES, Crossings, Speech, crossed_dialects
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.history import NOBODY, Trust
from tidegate.gateway.dialects.quirks import Quirks
from tidegate.gateway.errors import GatewayError


def crossings(client: Wire = "openai", **fields: Any) -> Crossings:
    body = {"model": "r", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, **fields}
    return Crossings(client, orjson.dumps(body), created_s=1, answer_id="a")


def sent(made: Crossings, speech: Speech) -> dict[str, Any]:
    crossed = made.for_target(speech)
    assert crossed is not None
    found: dict[str, Any] = orjson.loads(joined(crossed.around_model, b'"real"'))
    assert found["model"] == "real"
    return found


def test_only_dialects_of_targets_that_do_not_speak_the_clients_are_asked_for() -> None:
    assert crossed_dialects("openai", [("openai",), ("openai", "anthropic")]) == ()
    assert crossed_dialects("openai", [("anthropic",), ("openai-responses", "anthropic")]) == (
        "openai-responses",
        "anthropic",
    )
    assert crossed_dialects("anthropic", [("openai", "openai-embeddings")]) == ("openai",)
    assert crossed_dialects("openai-embeddings", [("openai",)]) == ()


def test_a_target_is_told_in_the_best_dialect_it_speaks() -> None:
    made = crossings()
    crossed = made.for_target(Speech(("anthropic", "openai-responses")))
    assert crossed is not None
    assert crossed.upstream == "openai-responses"
    assert crossed.rewrites_stream
    assert made.for_target(Speech(("anthropic", "openai-responses"))) is crossed
    assert made.for_target(Speech(("openai", "anthropic"))) is None
    assert made.can_tell(Speech(("openai", "anthropic")))


def test_quirks_rewrite_the_request_also_within_a_dialect_and_the_answer_stays() -> None:
    made = crossings(stream=True)
    plain = made.for_target(
        Speech(("openai",), Quirks(max_tokens_field="max_tokens", no_developer_role=True))
    )
    assert plain is not None
    assert (plain.upstream, plain.rewrites_stream) == ("openai", False)
    found = sent(made, Speech(("openai",), Quirks(max_tokens_field="max_tokens")))
    assert found["max_tokens"] == 9
    assert found["stream_options"] == {"include_usage": True}
    assert "stream_options" not in sent(made, Speech(("openai",), Quirks(no_stream_options=True)))
    endless = made.for_target(Speech(("openai",), Quirks(ends_without_done=True)))
    assert endless is not None
    assert endless.rewrites_stream


def test_what_a_target_cannot_be_told_is_remembered_by_field() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    made = crossings(response_format=schema)
    assert made.possible(("anthropic",)) == ("anthropic",)
    assert not made.can_tell(Speech(("anthropic",), Quirks(no_structured_output=True)))
    assert made.refusal is not None
    assert made.refusal.field == "response_format"
    assert crossings(n=2).possible(("anthropic", "openai-responses")) == ()
    assert crossings().for_target(Speech(("openai-embeddings",))) is None


@pytest.mark.parametrize("raw", [b'{"a":"\\ud800"}', b"[1]"])
def test_a_body_that_cannot_be_read_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(GatewayError, match="Request body"):
        Crossings("openai", raw, created_s=0, answer_id="")


TURN = {"role": "user", "content": [{"type": "text", "text": "{" * 50}]}


@pytest.mark.parametrize(
    ("client", "fields", "fits"),
    [
        ("openai", {"messages": [TURN] * (MAX_OBJECTS // 2 - 1)}, True),
        ("openai", {"messages": [TURN] * (MAX_OBJECTS // 2)}, False),
        ("anthropic", {"messages": [{"role": "user", "content": TURN["content"] * MAX_OBJECTS}]}, False),
        ("anthropic", {"tools": [{"name": "t", "input_schema": {}}] * MAX_OBJECTS}, False),
        ("openai-responses", {"input": [TURN] * MAX_OBJECTS}, False),
    ],
)
def test_a_body_of_more_objects_than_the_loop_may_be_held_for_is_put_in_no_other_dialect(
    client: Wire, fields: dict[str, Any], fits: bool
) -> None:
    made = crossings(client, **fields)
    assert bool(made.possible(["openai", "anthropic", "openai-responses"])) is fits
    if not fits:
        assert made.refusal is not None
        assert made.refusal.field == ("input" if client == "openai-responses" else "messages")
        assert made.refusal.reason == f"more than {MAX_OBJECTS} objects"
    assert made.can_tell(Speech((client,)))


def test_while_an_answer_is_awaited_a_request_is_held_as_bytes_alone() -> None:
    schema = b'{"type":"object","x":[%b[]]}' % (b"[]," * 60_000)
    written = b'{"format":{"type":"json_schema","name":"a","schema":{"type":"object"}}}'
    tools = b'[{"type":"function","name":"f","parameters":%b}]' % schema
    raw = b'{"model":"r","input":"hi","tools":%b,"text":%b}' % (tools, written)
    before = len(gc.get_objects())
    made = Crossings("openai-responses", raw, created_s=1, answer_id="a")
    assert made.possible(("openai", "anthropic"))
    assert made.into("anthropic", Quirks(no_structured_output=True)) is None
    assert len(gc.get_objects()) - before < 10_000


def test_a_request_is_told_differently_where_its_history_is_not_trusted() -> None:
    nobody = Trust("a", own=frozenset())
    sealed = {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}
    quoting = [sealed, {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]
    assert crossings("openai-responses", input=quoting).differ(NOBODY, nobody)
    assert not crossings("openai-responses", input=quoting).differ(NOBODY, Trust("a"))
    assert not crossings("openai-responses", input=quoting[1:]).differ(NOBODY, nobody)
    stored = [{"type": "item_reference", "id": "rs_1"}]
    assert not crossings("openai-responses", input=stored).differ(NOBODY, nobody)


@pytest.mark.parametrize("client", WIRES)
def test_a_body_of_more_values_than_may_be_parsed_is_told_to_its_own_dialect_alone(client: Wire) -> None:
    made = crossings(client, input="hi", metadata=[0] * MAX_VALUES)
    assert made.possible(["openai", "anthropic", "openai-responses"]) == ()
    assert made.refusal is not None
    assert made.refusal.reason == f"more than {MAX_VALUES} values"
    assert not made.differ(NOBODY, Trust("a", own=frozenset()))
    assert made.can_tell(Speech((client,)))
