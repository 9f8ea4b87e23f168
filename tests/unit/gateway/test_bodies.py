"""Bodies of responses and embeddings: what is measured, and what is refused by name."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tidegate.events.types import Dialect
from tidegate.gateway.asks import ALL_TURNS_BELOW_BYTES, FIRST_TURNS
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.errors import GatewayError

ITEMS = [
    {"type": "reasoning", "encrypted_content": "x"},
    {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
]


def responses(**fields: Any) -> bytes:
    return orjson.dumps({"model": "r", "input": "hi there", **fields})


def test_a_responses_body_is_measured() -> None:
    body = parse_body(
        responses(
            instructions="be brief",
            tools=[{"type": "function"}],
            max_output_tokens=9,
            reasoning={"effort": "low"},
        ),
        "openai-responses",
    )
    assert body.max_output_tokens == 9
    assert body.has_tools()
    assert body.wants_usage_chunk
    assert body.wants_reasoning("openai-responses")
    assert body.measured().tokens == -(
        -(len('"hi there"') + len('"be brief"') + len('[{"type":"function"}]')) // 4
    )
    assert body.first_user_message() == b'"hi there"'
    assert not body.has_images()


def test_the_first_user_item_tells_sessions_apart_and_an_image_is_seen() -> None:
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y.png"}]}
    body = parse_body(responses(input=[*ITEMS, image]), "openai-responses")
    assert body.first_user_message() == orjson.dumps(ITEMS[1]["content"])
    assert body.has_images()
    plain = parse_body(responses(input=ITEMS[:1], reasoning={"effort": "none"}), "openai-responses")
    assert plain.first_user_message() is None
    assert not plain.wants_reasoning("openai-responses")
    assert not parse_body(b'{"model":"r"}', "openai-responses").has_tools()
    assert parse_body(b'{"model":"r"}', "openai-responses").first_user_message() is None
    assert not parse_body(responses(reasoning="odd"), "openai-responses").wants_reasoning("openai-responses")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input"),
    ],
)
def test_what_a_provider_would_have_to_keep_is_refused_by_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(GatewayError, match="stateless") as caught:
        parse_body(responses(**fields), "openai-responses")
    assert (caught.value.code, caught.value.status, caught.value.param) == ("state_unsupported", 400, param)


@pytest.mark.parametrize(
    "item", [rb'{"type" : "item\u005freference"}', rb'{"\u0074ype":"\u0069tem_referenc\u0065","id":"rs_1"}']
)
def test_a_reference_is_seen_however_it_is_spelled(item: bytes) -> None:
    with pytest.raises(GatewayError, match="stateless"):
        parse_body(b'{"model":"r","input":[%b]}' % item, "openai-responses")


def test_words_about_stored_things_are_no_references() -> None:
    quoted = {"role": "user", "content": 'say "item_reference"'}
    for given in (
        '"item_reference"',
        [quoted],
        [{"role": "user", "content": [{"text": "x", "item_reference": 1}]}],
    ):
        assert parse_body(responses(input=given, previous_response_id=None), "openai-responses").model == "r"
    assert parse_body(b'{"model":"r","input":"\\"item_reference\\""}', "openai-responses").model == "r"
    assert parse_body(b'{"model":"r","input":[1,"item_reference"]}', "openai-responses").model == "r"
    spelled = rb'{"role":"user","content":"\u00e9 \\u0022type\u0022:\u0022item_reference\u0022"}'
    assert parse_body(b'{"model":"r","input":[%b]}' % spelled, "openai-responses").model == "r"


@pytest.mark.parametrize(
    ("raw", "dialect", "says"),
    [
        (responses(input=5), "openai-responses", "`input` must be"),
        (responses(max_output_tokens=0), "openai-responses", "max tokens"),
        (responses(input=[5]), "openai-responses", "`input`"),
        (b'{"model":"r"}', "openai-embeddings", "input"),
        (b'{"model":"r","input":{}}', "openai-embeddings", "`input` must be"),
        (b'{"model":"r","input":"a","stream":true}', "openai-embeddings", "no `stream`"),
        (b'{"model":"","input":"a"}', "openai-embeddings", "must name a route"),
    ],
)
def test_an_odd_body_is_refused_by_name(raw: bytes, dialect: Any, says: str) -> None:
    with pytest.raises(GatewayError, match=says) as caught:
        parse_body(raw, dialect).first_user_message()
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("text", "tokens"),
    [('"12345678"', 3), ('["12345678"]', 3), ("[1,2,3]", 3), ("[[1,2],[3,4]]", 4), ('["1,2"]', 2), ("[]", 1)],
)
def test_embedded_tokens_are_counted_and_text_is_estimated(text: str, tokens: int) -> None:
    body = parse_body(b'{"model":"r","input":%b}' % text.encode(), "openai-embeddings")
    assert body.measured().tokens == tokens
    assert (body.max_output_tokens, body.wants_usage_chunk, body.has_images(), body.has_tools()) == (
        0,
        False,
        False,
        False,
    )
    assert not body.wants_reasoning("openai-embeddings")
    assert body.first_user_message() is None


@pytest.mark.parametrize(
    ("thinking", "wanted"),
    [
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
        ({"type": "disabled"}, False),
        (None, False),
    ],
)
def test_every_way_to_think_is_reasoning_except_none(thinking: Any, *, wanted: bool) -> None:
    raw = orjson.dumps({"model": "r", "messages": [], "thinking": thinking})
    assert parse_body(raw, "anthropic").wants_reasoning("anthropic") is wanted
    assert not parse_body(b'{"model":"r","messages":[]}', "anthropic").wants_reasoning("anthropic")


def test_the_first_user_of_a_long_conversation_is_found_among_its_first_turns() -> None:
    system = {"role": "system", "content": "x" * (ALL_TURNS_BELOW_BYTES // FIRST_TURNS)}
    user = {"role": "user", "content": "hi"}

    def first(before: int, turn: object = user) -> bytes | None:
        turns = [system] * before + [turn] + [user] * 9
        return parse_body(orjson.dumps({"model": "a", "messages": turns}), "openai").first_user_message()

    assert first(FIRST_TURNS - 1) == b'"hi"'
    assert first(FIRST_TURNS) is None
    with pytest.raises(GatewayError, match="`messages`"):
        first(FIRST_TURNS - 1, 5)


def test_fields_that_are_longer_than_any_word_are_not_looked_into() -> None:
    long = "x" * 300
    raw = orjson.dumps(
        {"model": "a", "messages": [], "reasoning_effort": long, "service_tier": long, "speed": long}
    )
    body = parse_body(raw, "openai")
    assert body.wants_reasoning("openai")
    assert body.asked_tier("openai") is None
    assert body.asked_tier("anthropic") is None
    assert parse_body(responses(reasoning={"effort": long}), "openai-responses").wants_reasoning("openai")
    with pytest.raises(GatewayError, match="stateless"):
        parse_body(responses(conversation={"id": long}), "openai-responses")


@pytest.mark.parametrize("value", [None, False, "", [], {}, 0])
def test_a_stored_thing_that_is_none_is_not_refused(value: object) -> None:
    body = parse_body(responses(previous_response_id=value, conversation=value), "openai-responses")
    assert body.model == "r"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"include_usage": True}, True),
        ({"include_usage": False}, False),
        ({"other": 1}, False),
        (None, False),
    ],
)
def test_usage_is_an_event_of_its_own_where_it_was_asked_for(options: object, *, wanted: bool) -> None:
    raw = orjson.dumps({"model": "a", "messages": [], "stream_options": options})
    assert parse_body(raw, "openai").wants_usage_chunk is wanted


PDF = "JVBERi0xLjQK"
OF_URL = {"type": "url", "url": "https://x.test/a"}
WORDS = {"type": "text", "media_type": "text/plain", "data": "words"}
PARTS: list[tuple[Dialect, dict[str, Any], int]] = [
    ("openai", {"type": "file", "file": {"filename": "a", "file_data": f"data:application/pdf;base64,{PDF}"}}, 1),
    ("openai", {"type": "file", "file": {"filename": "a", "file_data": f"data:text/csv;base64,{PDF}"}}, 1),
    ("openai", {"type": "file", "file": {"file_id": "f"}}, 1),
    ("openai", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PDF}"}}, 0),
    ("openai", {"type": "image_url", "image_url": {"url": "https://x.test/a"}}, 0),
    ("openai", {"type": "input_audio", "input_audio": {"data": PDF, "format": "wav"}}, 0),
    ("openai", {"type": "text", "text": '{"type":"file","file":{"file_id":"f"}}'}, 0),
    ("anthropic", {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}, 1),
    ("anthropic", {"type": "document", "source": OF_URL}, 1),
    ("anthropic", {"source": OF_URL, "type": "document"}, 1),
    ("anthropic", {"type": "document", "source": {"type": "file", "file_id": "f"}}, 1),
    ("anthropic", {"type": "document", "source": WORDS}, 0),
    ("anthropic", {"type": "document", "source": {"type": "content", "content": "words"}}, 0),
    ("anthropic", {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PDF}}, 0),
    ("anthropic", {"type": "image", "source": OF_URL}, 0),
    ("anthropic", {"type": "tool_use", "id": "t", "name": "open", "input": {"file": "a", "type": "document"}}, 0),
    ("openai-responses", {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}"}, 1),
    ("openai-responses", {"type": "input_file", "file_url": "https://x.test/a"}, 1),
    ("openai-responses", {"type": "input_file", "file_id": "f"}, 1),
    ("openai-responses", {"type": "input_image", "image_url": "https://x.test/a"}, 0),
    ("openai-responses", {"type": "input_text", "text": "the document"}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "part", "documents"), PARTS)
def test_a_file_is_seen_whatever_it_is_named_by_and_words_are_none(
    dialect: Dialect, part: dict[str, Any], documents: int
) -> None:
    field = "input" if dialect == "openai-responses" else "messages"
    raw = orjson.dumps({"model": "r", field: [{"role": "user", "content": [part, part]}]})
    assert parse_body(raw, dialect).measured().documents == 2 * documents
