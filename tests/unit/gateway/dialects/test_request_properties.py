"""What holds for every request: nothing is lost on the way back, the prefix stays as it was, nothing crashes."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from support.dialect_answers import CHAT, MESSAGES, RESPONSES, WIRES
from support.dialect_corpus import asked
from support.dialect_mutations import mutated
from tidegate.gateway.dialects import (
    chat_reader,
    chat_writer,
    messages_reader,
    messages_writer,
    responses_reader,
    responses_writer,
    translate,
)
from tidegate.gateway.dialects.blocks import Document, Message, Request, Text, ToolCall, ToolResult, Wire
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.media import document_as_text
from tidegate.gateway.dialects.names import ToolNames
from tidegate.gateway.dialects.quirks import PLAIN, Quirks

ROOMS: dict[Wire, tuple[Any, Any]] = {
    CHAT: (chat_reader, chat_writer),
    MESSAGES: (messages_reader, messages_writer),
    RESPONSES: (responses_reader, responses_writer),
}
KEEPS_ALL = Quirks(
    cache_control=True, reasoning_details=True, reasoning_field="reasoning_content", system_anywhere=True
)
PAIRS: list[tuple[Wire, Wire]] = [
    (client, upstream) for client in WIRES for upstream in WIRES if client != upstream
]


def there_and_back(wire: Wire, request: Request) -> Request:
    reader, writer = ROOMS[wire]
    notes = Notes()
    body = writer.write(request, "m", KEEPS_ALL, ToolNames(128), notes)
    back: Request = reader.read(json.loads(json.dumps(body)), notes)
    assert set(notes.names()) <= {"temperature", "temperature.above_1", "reasoning"}
    return back


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_written_in_its_own_dialect_reads_the_same(wire: Wire) -> None:
    for seed in range(40):
        first = ROOMS[wire][0].read(asked(Random(seed), wire), Notes())
        once = there_and_back(wire, first)
        assert there_and_back(wire, once) == once
        assert [
            type(block) for message in once.messages for block in message.blocks if message.role == "user"
        ] == [type(block) for message in first.messages for block in message.blocks if message.role == "user"]
        assert (once.system, once.tools, once.tool_choice, once.output) == (
            first.system,
            first.tools,
            first.tool_choice,
            first.output,
        ) or wire != MESSAGES


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_words_and_tool_pairs_survive_every_translation(client: Wire, upstream: Wire) -> None:
    """What the upstream's own reader finds in the translated body is what the client said."""

    def said(request: Request) -> tuple[list[str], list[Any]]:
        blocks = [block for message in request.messages for block in message.blocks]
        texts = "".join(
            document_as_text(block) if isinstance(block, Document) else block.text
            for block in [*request.system, *blocks]
            if isinstance(block, Text | Document)
        )
        results = [
            (b.call_id, "".join(c.text for c in b.content if isinstance(c, Text)))
            for b in blocks
            if isinstance(b, ToolResult)
        ]
        calls = [(b.id, b.name, json.loads(b.arguments)) for b in blocks if isinstance(b, ToolCall)]
        return ["".join(texts.split())], [*results, *calls]

    for seed in range(40):
        question = asked(Random(seed), client)
        made = translate.request(client, upstream, question, model="m")
        first = ROOMS[client][0].read(question, Notes())
        assert said(ROOMS[upstream][0].read(json.loads(made.body), Notes())) == said(first)


def test_what_only_one_dialect_has_is_written_there() -> None:
    document = Document(media_type="text/plain", text="x", title="t", context="c")
    request = Request(messages=(Message("user", (ToolResult("t", (document,), is_error=True),)),))
    assert there_and_back(MESSAGES, request) == Request(messages=request.messages, max_output_tokens=8192)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_the_prompts_prefix_is_the_same_bytes_in_the_next_turn(client: Wire, upstream: Wire) -> None:
    """A longer conversation begins with the bytes of the shorter one, wherever its marks have moved."""
    name = "input" if client == RESPONSES else "messages"
    for seed in range(25):
        random = Random(seed)
        question = asked(random, client)
        if isinstance(question[name], str):
            continue
        more = [{"role": "assistant", "content": "an answer"}, {"role": "user", "content": "more"}]
        first = translate.request(client, upstream, question, model="m").body
        second = translate.request(
            client, upstream, question | {name: [*_unmarked(question[name]), *more]}, model="m"
        ).body
        again = translate.request(client, upstream, question, model="m").body
        assert first == again
        if b"cache_control" in first:
            continue
        key = b'"input":[' if upstream == RESPONSES else b'"messages":['
        start = first.index(key)
        turns = json.loads(first)["input" if upstream == RESPONSES else "messages"]
        whole = json.dumps(turns[:-1], ensure_ascii=False, separators=(",", ":")).encode()[:-1]
        assert second[:start] == first[:start]
        assert second[start + len(key) - 1 :].startswith(whole)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def test_what_does_not_change_stands_before_what_does() -> None:
    tool = {"name": "f", "input_schema": {}}
    body = {
        "max_tokens": 9,
        "system": "s",
        "tools": [tool],
        "messages": [{"role": "user", "content": "q"}],
        "temperature": 1,
    }
    for upstream in (CHAT, RESPONSES):
        made = list(json.loads(translate.request(MESSAGES, upstream, body, model="m").body))
        turns = "messages" if upstream == CHAT else "input"
        assert made.index("tools") < made.index(turns) < made.index("temperature")


def _attack(client: Wire, upstream: Wire, seed: int) -> None:
    random = Random(seed)
    question = asked(random, client)
    for _ in range(random.randint(1, 3)):
        question = {
            name: mutated(value, random) if random.random() < 0.4 else value
            for name, value in question.items()
        }
    quirks = random.choice(
        (PLAIN, Quirks(thinking="budget", no_strict_tools=True, no_developer_role=True, no_sampling=True))
    )
    with suppress(RequestRefused):
        translate.request(
            client, upstream, question, model="m", quirks=quirks, trust=translate.Trust("a", own=frozenset())
        )


@pytest.mark.parametrize("client", WIRES)
@pytest.mark.parametrize("upstream", WIRES)
def test_a_malformed_request_is_refused_and_never_a_crash(client: Wire, upstream: Wire) -> None:
    for seed in range(80):
        _attack(client, upstream, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("client", WIRES)
@pytest.mark.parametrize("upstream", WIRES)
def test_many_malformed_requests_are_refused(client: Wire, upstream: Wire) -> None:
    for seed in range(5_000):
        _attack(client, upstream, seed)
