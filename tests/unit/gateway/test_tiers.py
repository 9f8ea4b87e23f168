"""A tier keeps its meaning from one dialect to the other, and is asked for in the words of each."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.types import Dialect
from tidegate.gateway import tiers
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.phases import StreamPhases
from tidegate.gateway.usage import UsageTally, from_answer, tally_of

TEXT: dict[Wire, dict[str, Any]] = {
    "openai": {"messages": [{"role": "user", "content": "hi"}]},
    "anthropic": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    "openai-responses": {"input": "hi"},
}
ASKED: list[tuple[Wire, dict[str, Any], dict[Wire, str | None]]] = [
    ("openai", {}, {"openai": None, "anthropic": None, "openai-responses": None}),
    *(
        (
            client,
            {"service_tier": word},
            {"openai": tier, "openai-responses": tier, "anthropic": None},
        )
        for client in ("openai", "openai-responses")
        for word, tier in (
            ("auto", None), ("default", None), ("flex", "flex"), ("priority", "priority"),
            ("fast", "priority"), ("scale", "scale"), (None, None),
        )
    ),
    ("anthropic", {"service_tier": "auto"}, {"anthropic": None, "openai": None, "openai-responses": None}),
    ("anthropic", {"service_tier": "standard_only"}, {"anthropic": None, "openai": None}),
    ("anthropic", {"speed": "fast"}, {"anthropic": "fast", "openai": None, "openai-responses": None}),
    ("anthropic", {"speed": "standard", "service_tier": "priority"}, {"anthropic": "priority"}),
    ("openai", {"service_tier": 7}, {"openai": None}),
    ("openai", {"service_tier": "not a tier"}, {"openai": None}),
]  # fmt: skip


@pytest.mark.parametrize(("client", "fields", "sent"), ASKED)
def test_what_is_asked_of_an_upstream_is_known_in_its_own_words(
    client: Wire, fields: dict[str, Any], sent: dict[Wire, str | None]
) -> None:
    """Also where the request is written anew in its dialect; what is not passed on is not asked for."""
    body = {"model": "r", **TEXT[client], **fields}
    assert parse_body(orjson.dumps(body), client).asked_tier(client) == sent[client]
    for upstream, tier in sent.items():
        if fields.get("service_tier") == 7 and upstream != client:
            continue
        made = translate.request(client, upstream, body, model="m")
        assert made.service_tier == tier, upstream
        assert tiers.told(client, upstream, sent[client]) == tier, "it can be planned with before it is said"
        assert (orjson.loads(made.body).get("service_tier") is None) <= (tier in {None, "fast"})


def test_vectors_have_no_tier() -> None:
    body = orjson.dumps({"model": "r", "input": "hi", "service_tier": "priority"})
    assert parse_body(body, "openai-embeddings").asked_tier("openai-embeddings") is None


@given(st.text(max_size=40) | st.none() | st.integers())
def test_whatever_word_comes_it_is_a_tier_nothing_or_as_usual(word: Any) -> None:
    tier = tiers.named(word)
    assert tier in {None, tiers.STANDARD, word}
    assert (tiers.priced(tier) is None) is (tier in {None, tiers.STANDARD})


TOLD: list[tuple[Dialect, dict[str, Any]]] = [
    ("openai", {"service_tier": "{}"}),
    ("openai-responses", {"service_tier": "{}"}),
    ("anthropic", {"usage": {"service_tier": "{}"}}),
]


@pytest.mark.parametrize(("dialect", "answer"), TOLD)
@pytest.mark.parametrize("word", ["default", "standard", "priority", "flex", "on_demand", "auto", None])
def test_to_be_told_of_the_usual_tier_is_more_than_to_be_told_nothing(
    dialect: Dialect, answer: dict[str, Any], word: str | None
) -> None:
    told = orjson.loads(orjson.dumps(answer).replace(b'"{}"', orjson.dumps(word)))
    tally = tally_of(dialect, told)
    usual = {"default", "standard"}
    assert tally.told_tier == (None if word in {None, "auto"} else "standard" if word in usual else word)
    assert tally.tokens().service_tier == (None if word in {None, "auto", *usual} else word)
    assert from_answer(dialect, told) == tally.tokens()


def test_what_decides_nothing_takes_back_nothing() -> None:
    tally = UsageTally("openai")
    for word in ("priority", "auto", None):
        tally.observe(None, word)
    assert tally.told_tier == "priority"
    tally.observe(None, "default")
    assert (tally.told_tier, tally.tokens().service_tier) == ("standard", None)


@pytest.mark.parametrize("word", ["default", "priority"])
def test_a_stream_that_is_left_before_its_usage_has_told_its_tier_already(word: str) -> None:
    def event(data: dict[str, Any]) -> bytes:
        return b"data: %b\n\n" % orjson.dumps(data)

    chat = StreamPhases("openai", client_wants_usage=False)
    chat.feed(event({"choices": [{"index": 0, "delta": {"role": "assistant"}}], "service_tier": word}))
    messages = StreamPhases("anthropic", client_wants_usage=False)
    message = {"usage": {"input_tokens": 3, "output_tokens": 1, "service_tier": word}}
    messages.feed(event({"type": "message_start", "message": message}))
    expected = "standard" if word == "default" else word
    assert (chat.told_tier, messages.told_tier) == (expected, expected)


@pytest.mark.parametrize("tier", [None, "standard", "flex", "scale", "priority", "batch", "fast", "ultrafast", "on_demand"])  # fmt: skip
def test_a_dialect_tells_only_what_it_has_words_for(tier: str | None) -> None:
    beside, inside = tiers.for_openai(tier), tiers.for_messages(tier)
    assert set(beside.values()) <= {"default", "flex", "scale", "priority", "ultrafast"}
    assert inside.get("service_tier") in {None, "standard", "priority", "batch"}
    assert (not beside) is (tier in {None, "batch", "on_demand"})
    assert (not inside) is (tier in {None, "flex", "scale", "ultrafast", "on_demand"})
    assert ("speed" in inside) is (tier == "fast")
