"""Translated requests have the form that the vendors' own SDKs declare for their requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from support.dialect_answers import CHAT, MESSAGES, RESPONSES, WIRES
from support.dialect_corpus import asked
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.quirks import PLAIN, Quirks

PAIRS: list[tuple[Wire, Wire]] = [
    (client, upstream) for client in WIRES for upstream in WIRES if client != upstream
]
PARAMS: dict[Wire, Any] = {
    CHAT: CompletionCreateParamsNonStreaming,
    MESSAGES: MessageCreateParamsNonStreaming,
    RESPONSES: ResponseCreateParamsNonStreaming,
}
_BEYOND: dict[Wire, set[str]] = {
    CHAT: {"top_k"},
    MESSAGES: {"temperature", "top_p", "top_k"},
    RESPONSES: set(),
}
"""Fields of the protocol that the SDK declares no more, or not at all."""


@cache
def judge(wire: Wire) -> TypeAdapter[Any]:
    return TypeAdapter(PARAMS[wire])


def read_through(value: Any) -> None:
    """Iterables are checked only while they are read."""
    if isinstance(value, dict):
        for item in value.values():
            read_through(item)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for item in value:
            read_through(item)


def check(client: Wire, upstream: Wire, seed: int) -> None:
    random = Random(seed)
    quirks = random.choice((PLAIN, PLAIN, Quirks(thinking="budget", auto_cache=True)))
    made = json.loads(
        translate.request(client, upstream, asked(random, client), model="m", quirks=quirks).body
    )
    assert made.keys() <= PARAMS[upstream].__annotations__.keys() | _BEYOND[upstream]
    read_through(judge(upstream).validate_python(made))


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_translated_request_has_the_declared_form(client: Wire, upstream: Wire) -> None:
    for seed in range(40):
        check(client, upstream, seed)


@pytest.mark.nightly
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_every_translated_request_of_the_corpus_has_the_declared_form(client: Wire, upstream: Wire) -> None:
    for seed in range(2_000):
        check(client, upstream, seed)


def test_the_judge_knows_a_wrong_request() -> None:
    for wire, body in (
        (CHAT, {"model": "m", "messages": [{"role": "robot", "content": "x"}]}),
        (
            MESSAGES,
            {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]},
        ),
        (
            RESPONSES,
            {"model": "m", "input": [{"type": "message", "role": "user", "content": [{"type": "hologram"}]}]},
        ),
    ):
        with pytest.raises(ValueError):
            read_through(judge(wire).validate_python(body))
