"""Whatever a client adds to any object of a request is carried, named in a warning or refused: never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from support.dialect_answers import WIRES
from support.dialect_calls import LEAST
from support.dialect_corpus import asked
from support.dialect_everything import EVERYTHING
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN, Quirks

PAIRS: list[tuple[Wire, Wire]] = [
    (client, upstream) for client in WIRES for upstream in WIRES if client != upstream
]
KEEPS = Quirks(cache_control=True, reasoning_details=True, reasoning_field="reasoning_content")
ODD = "odd_one_out"
Path = tuple[str | int, ...]


def objects(value: Any, path: Path = ()) -> Iterator[Path]:
    """Places of all objects of a body, its own first."""
    if isinstance(value, dict):
        yield path
        for name, inner in value.items():
            yield from objects(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, (*path, index))


def at(body: Any, path: Path) -> Any:
    for step in path:
        body = body[step]
    return body


def told(client: Wire, upstream: Wire, body: dict[str, Any], quirks: Quirks) -> translate.Translated | None:
    """None when refused."""
    with suppress(RequestRefused):
        return translate.request(client, upstream, body, model="m", quirks=quirks)
    return None


def is_left_out(body: dict[str, Any], path: Path, warnings: tuple[str, ...]) -> bool:
    """Was something that holds the object named already: by its place, with or without its type?

    Cache marks are named as one, wherever they stand.
    """
    for length in range(1, len(path) + 1):
        names = [step for step in path[:length] if isinstance(step, str)]
        place = ".".join(names)
        value = at(body, path[:length])
        kind = value.get("type") if isinstance(value, dict) else None
        if {place, f"{place}.{kind}", f"{names[0]}.{names[-1]}", names[-1]} & set(warnings):
            return True
    return False


def lost(client: Wire, upstream: Wire, body: dict[str, Any], quirks: Quirks) -> list[Path]:
    plain = told(client, upstream, body, quirks)
    found: list[Path] = []
    for path in objects(body):
        odd = deepcopy(body)
        at(odd, path)[ODD] = 1
        made = told(client, upstream, odd, quirks)
        if made is None or ODD.encode() in made.body or any(ODD in name for name in made.warnings):
            continue
        before = () if plain is None else plain.warnings
        if set(made.warnings) - set(before) or is_left_out(body, path, made.warnings):
            continue
        found.append(path)
    return found


@pytest.mark.parametrize("quirks", [PLAIN, KEEPS], ids=["plain", "keeps"])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_unknown_field_of_any_object_is_carried_or_named_or_refused(
    client: Wire, upstream: Wire, quirks: Quirks
) -> None:
    bodies = [LEAST[client] | body for body in EVERYTHING[client]]
    bodies += [asked(Random(seed), client) for seed in range(4)]
    for body in bodies:
        assert lost(client, upstream, body, quirks) == []


@pytest.mark.nightly
@pytest.mark.parametrize("quirks", [PLAIN, KEEPS], ids=["plain", "keeps"])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_nothing_vanishes_from_any_conversation_of_the_corpus(
    client: Wire, upstream: Wire, quirks: Quirks
) -> None:
    for seed in range(4, 150):
        assert lost(client, upstream, asked(Random(seed), client), quirks) == [], seed


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_of_the_requests_that_hold_everything_at_least_one_is_not_refused(
    client: Wire, upstream: Wire
) -> None:
    """What is always refused would show nothing."""
    bodies = [LEAST[client] | body for body in EVERYTHING[client]]
    assert told(client, upstream, bodies[0], KEEPS) is not None, json.dumps(bodies[0])


PNG = f"https://a.test/{ODD}.png"
PDF = f"data:application/pdf;base64,{ODD}"
PARTS: dict[Wire, list[dict[str, Any]]] = {
    "openai": [
        {"type": "text", "text": ODD},
        {"type": "refusal", "refusal": ODD},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "file", "file": {"file_data": PDF}},
    ],
    "anthropic": [
        {"type": "text", "text": ODD},
        {"type": "thinking", "thinking": ODD, "signature": "s"},
        {"type": "redacted_thinking", "data": ODD},
        {"type": "image", "source": {"type": "url", "url": PNG}},
        {"type": "document", "source": {"type": "url", "url": PNG}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": ODD}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ODD}},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": ODD}]},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": ODD}},
        {"type": "tool_result", "tool_use_id": "c", "content": ODD},
        {"type": "tool_reference", "tool_name": ODD},
        {"type": "server_tool_use", "id": "c", "name": ODD, "input": {}},
    ],
    "openai-responses": [
        {"type": "input_text", "text": ODD},
        {"type": "output_text", "text": ODD},
        {"type": "refusal", "refusal": ODD},
        {"type": "input_image", "image_url": PNG},
        {"type": "input_file", "filename": "f", "file_data": PDF},
        {"type": "input_file", "file_url": PNG},
    ],
}
ROLES = ("system", "developer", "user", "assistant", "tool")


def placed(client: Wire, part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Requests with the part wherever parts may stand."""
    begun: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
    if client == "openai-responses":
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        yield {"input": [*begun, call, {"type": "function_call_output", "call_id": "c", "output": [part]}]}
    if client == "openai":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        begun.append({"role": "assistant", "content": None, "tool_calls": [call]})
    if client == "anthropic":
        call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": [part]}
        said = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        yield {"messages": [*begun, *said]}
        yield {"messages": begun, "system": [part]}
    name = "input" if client == "openai-responses" else "messages"
    for role in ROLES:
        turn: dict[str, Any] = {"role": role, "content": [part]}
        if role == "tool":
            turn["tool_call_id"] = "c"
        yield {name: [*begun, turn]}
        yield {name: [turn, *begun]}
        yield {name: [turn]}


@pytest.mark.parametrize("quirks", [PLAIN, KEEPS], ids=["plain", "keeps"])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_part_in_any_place_is_carried_or_named_or_refused(
    client: Wire, upstream: Wire, quirks: Quirks
) -> None:
    carried = 0
    for part in PARTS[client]:
        for body in placed(client, part):
            made = told(client, upstream, LEAST[client] | body, quirks)
            is_carried = made is not None and ODD.encode() in made.body
            carried += is_carried
            assert made is None or is_carried or made.warnings, body
    assert carried >= len(ROLES)


def said(upstream: Wire, body: dict[str, Any]) -> tuple[str, str]:
    """The instructions, and whose turn follows them."""
    if upstream == "openai":
        return body["messages"][0]["content"], body["messages"][1]["role"]
    if upstream == "anthropic":
        return body["system"][0]["text"], body["messages"][0]["role"]
    return body["instructions"], body["input"][0]["role"]


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("client", ["openai", "openai-responses"])
def test_what_a_system_message_shows_goes_to_the_users_side_and_its_words_stay(
    client: Wire, role: str
) -> None:
    shown = next(part for part in PARTS[client] if "image" in part["type"])
    words = {"type": "text" if client == "openai" else "input_text", "text": "words"}
    name = "messages" if client == "openai" else "input"
    for upstream in WIRES:
        if upstream == client:
            continue
        turns = [{"role": role, "content": [words, shown]}, {"role": "user", "content": "q"}]
        made = told(client, upstream, LEAST[client] | {name: turns}, PLAIN)
        assert made is not None
        assert made.warnings == ("messages.role.system",)
        assert said(upstream, json.loads(made.body)) == ("words", "user")
        assert ODD.encode() in made.body


def test_words_and_refusal_of_one_turn_are_both_told_to_chat_completions() -> None:
    said = [{"type": "output_text", "text": "I see. "}, {"type": "refusal", "refusal": "But no."}]
    items = [{"role": "user", "content": "q"}, {"type": "message", "role": "assistant", "content": said}]
    made = told("openai-responses", "openai", {"model": "route", "input": items}, PLAIN)
    assert made is not None
    assert json.loads(made.body)["messages"][1]["content"] == "I see. But no."


def test_readable_reasoning_beside_sealed_one_is_kept() -> None:
    sealed = {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "d"}
    turn = {"role": "assistant", "content": "a", "reasoning": ODD, "reasoning_details": [sealed]}
    messages = [{"role": "user", "content": "q"}, turn, {"role": "user", "content": "q"}]
    made = told("openai", "anthropic", {"model": "route", "messages": messages}, PLAIN)
    assert made is not None
    assert "thinking" in made.warnings


def test_an_entry_of_reasoning_details_that_says_nothing_is_named() -> None:
    turn = {
        "role": "assistant",
        "content": "a",
        "reasoning_details": [{"type": "reasoning.summary", "summary": "x"}],
    }
    messages = [{"role": "user", "content": "q"}, turn, {"role": "user", "content": "q"}]
    for upstream in ("anthropic", "openai-responses"):
        made = told("openai", upstream, {"model": "route", "messages": messages}, PLAIN)
        assert made is not None
        assert made.warnings == ("messages.reasoning_details",)


def test_what_says_nothing_is_left_out_in_silence() -> None:
    """SDKs send these back with every answer: a warning would be noise."""
    said = [
        {"type": "text", "text": "a", "citations": []},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}, "caller": {"type": "direct"}},
    ]
    items = [
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}],
        }
    ]
    turn = {
        "role": "assistant",
        "content": "a",
        "annotations": [],
        "refusal": None,
        "tool_calls": [
            {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    }
    asked: list[tuple[Wire, dict[str, Any]]] = [
        ("anthropic", {"messages": [{"role": "assistant", "content": said}]}),
        ("openai-responses", {"input": items}),
        ("openai", {"messages": [turn]}),
    ]  # fmt: skip
    for client, body in asked:
        for upstream in WIRES:
            if upstream != client:
                made = told(client, upstream, LEAST[client] | body, PLAIN)
                assert made is not None
                assert made.warnings == (), upstream


def test_citations_that_are_sent_back_are_named() -> None:
    cited = {"type": "text", "text": "a", "citations": [{"type": "char_location", "cited_text": "x"}]}
    made = told(
        "anthropic",
        "openai",
        LEAST["anthropic"] | {"messages": [{"role": "assistant", "content": [cited]}]},
        PLAIN,
    )
    assert made is not None
    assert made.warnings == ("messages.content.citations",)


def test_where_more_is_left_out_than_a_header_holds_it_says_so() -> None:
    """Once, and a name that is met again is no other."""
    notes = Notes()
    names = [f"field_{number}" for number in range(40)]
    for name in [*names, *names]:
        notes.drop(name)
    assert notes.names() == (*names[:31], "more")
