"""What a model said is counted in bytes of text: in every spelling of an event, and however events are put together."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.types import Dialect
from tidegate.gateway.dialects.for_client import Context
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.phases import StreamPhases
from tidegate.gateway.said import Said, is_plausible, produced_tokens

FAT = "word " * 800
DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic", "openai-responses")


def data_of(value: Any, name: str = "") -> bytes:
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: " + orjson.dumps(value) + b"\n\n"


def chunk(delta: Any, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return data_of({"id": "c", "model": "m", "choices": [choice], "usage": None, **more})


def message(kind: str, **delta: Any) -> bytes:
    fields = {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **delta}}
    return data_of(fields, "content_block_delta")


def response(kind: str, **fields: Any) -> bytes:
    return data_of({"type": kind, "item_id": "i", "output_index": 0, **fields, "obfuscation": "abcdef"}, kind)


def text_event(dialect: Dialect, text: str) -> bytes:
    if dialect == "openai":
        return chunk({"content": text})
    if dialect == "anthropic":
        return message("text_delta", text=text)
    return response("response.output_text.delta", delta=text)


def said(dialect: Dialect, *blocks: bytes) -> int:
    found = Said(dialect)
    for block in blocks:
        found.add(block)
    return found.size_bytes


def call(arguments: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, **more, "function": {"arguments": arguments}}


CHAT: list[tuple[Any, int]] = [
    ({"content": "hello"}, 5),
    ({"role": "assistant", "content": "hello"}, 5),
    ({"role": None, "content": "hello", "reasoning_content": None, "tool_calls": []}, 5),
    ({"content": "", "reasoning_content": "hello"}, 5),
    ({"reasoning": "hello", "reasoning_content": "hello"}, 5),
    ({"content": "one", "reasoning_content": "hello"}, 8),
    ({"content": "", "reasoning": "hello", "reasoning_details": [{"text": "hello", "index": 0}]}, 5),
    ({"reasoning_details": [{"text": "hello"}, {"summary": "one"}, {"data": "c2VhbGVk"}]}, 8),
    ({"refusal": "hello"}, 5),
    ({"tool_calls": [call("hello")]}, 5),
    ({"tool_calls": [call("hello", id="call_1", type="function")]}, 5),
    ({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": "hello"}, "type": "function"}]}, 5),
    ({"tool_calls": [call("hello"), call("one", 1)]}, 8),
    ({"content": "one", "tool_calls": [call("hello")]}, 8),
    ({"tool_calls": [{"index": 0, "custom": {"input": "hello"}}]}, 5),
    ({"function_call": {"name": "look", "arguments": "hello"}}, 5),
    ({"content": [{"type": "text", "text": "hello"}]}, 5),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hello"}]}]}, 5),
    ({"audio": {"id": "a", "data": "UklGRg" * 1_000, "transcript": "hello"}}, 5),
    ({"images": [{"image_url": {"url": "data:image/png;base64," + "iVBO" * 1_000}}]}, 0),
    ({"content": "ends in a backslash \\"}, 22),
    ({"content": '{"delta":{"content":"quoted"}}'}, 36),
    ({"content": 'a "b" \\"c\\" \n'}, 20),
    ({"content": "né 🌊"}, 8),
    ({"content": "hello", "annotations": [{"url": "https://example.test"}]}, 5),
    ({"tool_calls": [call('{"a":{"b":"c"}}]}'), call("one", 1)]}, 26),
    ({"tool_calls": [call("")], "content": "hello"}, 5),
    ({"role": "assistant", "content": ""}, 0),
    ({}, 0),
    (None, 0),
    ("x", 0),
]  # fmt: skip


@pytest.mark.parametrize(("delta", "size"), CHAT)
def test_a_chunk_counts_all_that_its_delta_says_once(delta: Any, size: int) -> None:
    assert said("openai", chunk(delta)) == size


OTHER: list[tuple[Dialect, bytes, int]] = [
    ("anthropic", message("text_delta", text="hello"), 5),
    ("anthropic", message("thinking_delta", thinking='say "x"'), 9),
    ("anthropic", message("input_json_delta", partial_json='{"a":"b'), 10),
    ("anthropic", message("signature_delta", signature="c2VhbGVk" * 100), 0),
    ("anthropic", message("citations_delta", citation={"cited_text": FAT}), 0),
    ("anthropic", data_of({"type": "content_block_delta", "delta": {"text": "hello"}}), 5),
    ("openai-responses", response("response.output_text.delta", delta="hello", logprobs=[]), 5),
    ("openai-responses", response("response.function_call_arguments.delta", delta='{"a"'), 6),
    ("openai-responses", response("response.reasoning_summary_text.delta", delta="hello"), 5),
    ("openai-responses", response("response.audio.delta", delta="UklGRg" * 1_000), 0),
    ("openai-responses", response("response.audio.transcript.delta", delta="hello"), 5),
    ("openai-responses", response("response.output_text.done", text="hello"), 0),
    ("openai-responses", response("response.image_generation_call.partial_image", partial_image_b64="iVBO"), 0),
]  # fmt: skip


def opened(**block: Any) -> bytes:
    return data_of({"type": "content_block_start", "index": 0, "content_block": block}, "content_block_start")


OPENED: list[tuple[Any, int]] = [
    ({"type": "text", "text": "hello"}, 5),
    ({"type": "thinking", "thinking": "hello", "signature": "c2VhbGVk"}, 5),
    ({"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}}, 9),
    ({"type": "tool_use", "id": "t", "name": "look", "input": {}}, 0),
    ({"type": "mcp_tool_result", "content": [{"type": "text", "text": FAT}]}, 0),
    ({"type": "redacted_thinking", "data": "c2VhbGVk"}, 0),
]


@pytest.mark.parametrize(("block", "size"), OPENED)
def test_a_block_that_opens_with_words_counts_them(block: Any, size: int) -> None:
    assert said("anthropic", opened(**block)) == size
    both = opened(**block) + message("text_delta", text="hello")
    assert said("anthropic", both) == size + 5
    assert said("anthropic", b'data: {"type":"content_block_start","content_block":1}\n\n') == 0


ITEMS: list[tuple[Any, int]] = [
    ({"type": "message", "content": [{"type": "output_text", "text": "hello"}, {"refusal": "one"}]}, 8),
    ({"type": "function_call", "name": "look", "arguments": '{"a"'}, 6),
    ({"type": "custom_tool_call", "input": "hello"}, 5),
    ({"type": "reasoning", "summary": [{"text": "hello"}], "encrypted_content": "c2VhbGVk"}, 5),
    ({"type": "image_generation_call", "result": "iVBO" * 1_000}, 0),
    (None, 0),
]


@pytest.mark.parametrize(("item", "size"), ITEMS)
def test_an_item_that_comes_whole_counts_where_no_delta_said_it(item: Any, size: int) -> None:
    done = response("response.output_item.done", item=item)
    assert said("openai-responses", done) == said("openai-responses", b": c\n\n" + done) == size
    streamed = response("response.output_text.delta", delta="hello")
    assert said("openai-responses", streamed + done) == max(5, size)
    assert said("openai-responses", done + done) == 2 * size


@pytest.mark.parametrize(("dialect", "event", "size"), OTHER)
def test_an_event_counts_what_its_delta_says(dialect: Dialect, event: bytes, size: int) -> None:
    assert said(dialect, event) == size


@pytest.mark.parametrize("dialect", DIALECTS)
def test_letters_that_come_as_escapes_count_as_the_letters_that_they_are(dialect: Dialect) -> None:
    event = text_event(dialect, "né 🌊 日")
    for letter, escape in (("é", rb"\u00e9"), ("🌊", rb"\ud83c\udf0a"), ("日", rb"\u65e5")):
        event = event.replace(letter.encode(), escape)
    assert event.isascii()
    assert said(dialect, event + text_event(dialect, "plain")) == len("né 🌊 日".encode()) + 5
    half = event.replace(rb"\udf0a", b"")
    assert 0 < said(dialect, half) < 30


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_event_with_blanks_between_its_fields_counts_like_one_without(dialect: Dialect) -> None:
    event = text_event(dialect, "hello, you").replace(b'":', b'": ').replace(b',"', b', "')
    assert said(dialect, event) == 10


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_event_on_two_data_lines_counts_like_one_on_one(dialect: Dialect) -> None:
    event = text_event(dialect, "hello")
    at = event.index(b'"delta":') + len(b'"delta":')
    assert said(dialect, event[:at] + b"\ndata: " + event[at:]) == 5


def test_what_is_no_chunk_says_nothing() -> None:
    for odd in (
        b'data: {"delta"\n\n',
        b'data: ["delta"]\n\n',
        b'data: {"choices":"delta"}\n\n',
        b": delta\n",
    ):
        assert said("openai", odd) == 0
    assert said("openai", data_of({"choices": ["delta", {"delta": {"content": 1}}]})) == 0


TEXTS = st.text(
    st.characters(codec="utf-8") | st.sampled_from(list('"\\{}:,\n')), max_size=12
) | st.sampled_from(["delta", '"delta":{"content":"x"}', "audio.delta;", '"}', "\\" * 6, '\\\\"'])


@given(st.sampled_from(DIALECTS), st.lists(TEXTS, max_size=5), st.integers(0, 4))
def test_what_is_counted_does_not_depend_on_how_events_are_put_together(
    dialect: Dialect, texts: list[str], odd: int
) -> None:
    events = [text_event(dialect, text) for text in texts]
    events.insert(
        min(odd, len(events)), chunk({"content": [{"text": "one"}]}) if dialect == "openai" else b""
    )
    as_json = sum(len(orjson.dumps(text)) - 2 for text in texts)
    expected = as_json + 3 * (dialect == "openai")
    assert said(dialect, *events) == said(dialect, b"".join(events)) == expected


@pytest.mark.parametrize(
    ("events", "size", "limit", "tokens"),
    [(20, 80_000, None, 20_000), (20, 80_000, 4_096, 4_096), (20, 40, 4_096, 20), (0, 1, None, 1), (0, 0, 9, 0),
     (300, 400, 100, 300)],
)  # fmt: skip
def test_a_stream_produced_its_events_or_a_quarter_of_its_bytes_within_its_limit(
    events: int, size: int, limit: int | None, tokens: int
) -> None:
    assert produced_tokens(events, size, limit) == tokens


def test_a_count_from_before_the_answer_is_believed_only_where_the_answer_is_as_short() -> None:
    assert is_plausible(1, 1, 5)
    assert is_plausible(600, 20, 4_000)
    assert not is_plausible(1, 20, 80)
    assert not is_plausible(1, 1, 4_000)
    assert not is_plausible(None, 0, 0)


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("bytewise", [False, True])
def test_every_stream_counts_what_was_said_however_it_is_read(
    client: Any, upstream: Any, *, bytewise: bool
) -> None:
    phases: StreamPhases | TranslatedPhases = (
        StreamPhases(upstream, client_wants_usage=True)
        if client == upstream
        else TranslatedPhases(upstream, client, Context())
    )
    start = data_of(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    )
    stream = start if upstream == "anthropic" else b""
    stream += b"".join(text_event(upstream, FAT) for _ in range(3)) + text_event(upstream, '"é"')
    for at in range(0, len(stream), step := 7 if bytewise else len(stream)):
        phases.feed(stream[at : at + step])
    assert phases.said_bytes == 3 * len(FAT) + 6
    assert phases.content_events == 4


@pytest.mark.parametrize("client", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("counted", "closing", "output"),
    [(1, None, None), (2_000, None, 2_000), (1, 7, 7), (None, None, None)],
)
def test_a_placeholder_is_no_count_of_a_long_answer_that_ended_without_one(
    client: Any, counted: int | None, closing: int | None, output: int | None
) -> None:
    phases: StreamPhases | TranslatedPhases = (
        StreamPhases("anthropic", client_wants_usage=True)
        if client == "anthropic"
        else TranslatedPhases("anthropic", client, Context())
    )
    usage = {"input_tokens": 9} | ({} if counted is None else {"output_tokens": counted})
    end: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    end |= {} if closing is None else {"usage": {"output_tokens": closing}}
    events = [
        {"type": "message_start", "message": {"id": "x", "model": "m", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": FAT}},
        {"type": "content_block_stop", "index": 0},
        end,
    ]
    phases.feed(b"".join(map(data_of, events)))
    assert phases.feed(data_of({"type": "message_stop"})).terminal is not None
    assert (phases.tokens.input_uncached, phases.tokens.output) == (9, output)
