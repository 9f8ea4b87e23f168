"""The official SDKs put a translated stream together to the same answer as the translated whole one."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import orjson
import pytest

from support.dialect_answers import CHAT, MESSAGES, RESPONSES, WIRES, Spec, stream, whole
from support.dialect_corpus import asked, spec
from support.dialect_sdks import Heard, Judge
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.stream import TranslatedPhases

PAIRS = [(client, upstream) for client in WIRES for upstream in WIRES if client != upstream]
SLICE = 8
CONVERSATIONS = 300
_STOPS = {
    CHAT: {"end": "stop", "length": "length", "tool_use": "tool_calls", "refusal": "content_filter"},
    MESSAGES: {"end": "end_turn", "length": "max_tokens", "tool_use": "tool_use", "refusal": "refusal"},
    RESPONSES: {
        "end": "completed",
        "length": "max_output_tokens",
        "tool_use": "completed",
        "refusal": "content_filter",
    },
}
_OPENAI = {"standard": "default", "flex": "flex", "priority": "priority", "fast": "priority"}
_TIERS = {
    CHAT: _OPENAI,
    MESSAGES: {"standard": "standard", "priority": "priority", "batch": "batch", "fast": "standard"},
    RESPONSES: _OPENAI,
}
"""How each dialect names a tier; what it has no word for it does not tell."""


@cache
def judge(client: str) -> Judge:
    return Judge(client)


class Provider:
    """The gateway in between, in one function: translate the request, then the answer or the stream, cut anywhere."""

    def __init__(self, client: Wire, upstream: Wire, answer: Spec, random: Random) -> None:
        self.client: Wire = client
        self.upstream: Wire = upstream
        self._answer = answer
        self._random = random
        self.streamed = b""

    def respond(self, body: dict[str, Any]) -> tuple[bytes, bool]:
        sent = translate.request(
            self.client, self.upstream, body, model="upstream-model", created_s=1_790_000_000, answer_id="a1"
        )
        asks_stream = bool(json.loads(sent.body).get("stream"))
        assert asks_stream == bool(body.get("stream"))
        if not asks_stream:
            answer = orjson.dumps(whole(self.upstream, self._answer))
            return translate.answer(self.client, self.upstream, answer, sent.context), False
        phases = TranslatedPhases(self.upstream, self.client, sent.context)
        data = stream(self.upstream, self._answer, self._random)
        out, terminal = [], None
        while data and terminal is None:
            size = self._random.randint(1, 400)
            step = phases.feed(data[:size])
            assert step.fault is None
            assert step.error is None
            out.append(step.forward)
            data, terminal = data[size:], step.terminal
        assert terminal is not None
        self.streamed = b"".join([*out, terminal])
        assert phases.tokens.output == self._answer.output
        return self.streamed, True


def tier_at_end(data: bytes) -> str | None:
    """The tier that the last event to name one names, beside the answer or in its usage."""
    found: str | None = None
    for line in data.split(b"\n"):
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            found = event.get("service_tier") or (event.get("usage") or {}).get("service_tier") or found
    return found


def expected_usage(client: str, answer: Spec) -> dict[str, Any]:
    prompt = answer.uncached + answer.cached + answer.written
    if client == MESSAGES:
        return {
            "input_tokens": answer.uncached,
            "cache_read_input_tokens": answer.cached,
            "cache_creation_input_tokens": answer.written,
            "output_tokens": answer.output,
        }
    names = ("prompt", "completion") if client == CHAT else ("input", "output")
    return {
        f"{names[0]}_tokens": prompt,
        f"{names[1]}_tokens": answer.output,
        "total_tokens": prompt + answer.output,
    }


def check(client: Wire, upstream: Wire, seed: int) -> None:
    random = Random(f"{client} {upstream} {seed}")
    question, answer = asked(random, client), spec(random, upstream)
    provider = Provider(client, upstream, answer, random)
    read_whole = judge(client).ask(provider.respond, question)
    read_stream = judge(client).listen(provider.respond, question)
    if upstream == RESPONSES != client:
        # It names the tier at the end, where the clients' SDKs do not look for it: there it must stand.
        assert read_stream.tier is None
        read_stream.tier = tier_at_end(provider.streamed)
    assert read_stream == read_whole
    compare(client, upstream, read_whole, answer)


def compare(client: str, upstream: str, heard: Heard, answer: Spec) -> None:
    """What the application sees is what the provider said."""
    said = {
        kind: "".join(b.text for b in answer.blocks if b.kind == kind)
        for kind in ("text", "refusal", "thinking")
    }
    if client == MESSAGES:
        assert heard.text == said["text"] + said["refusal"]
    else:
        assert (heard.text, heard.refusal) == (said["text"], said["refusal"])
    assert heard.thinking == said["thinking"]
    calls = [(b.call_id, b.name, json.loads(b.text)) for b in answer.blocks if b.kind == "tool"]
    assert heard.calls == calls
    proofs = [b.proof for b in answer.blocks if b.proof]
    assert [
        proof.rpartition(":")[2] for proof in heard.proofs if proof not in {"", "tidegate:plain:"}
    ] == proofs
    stop = "refusal" if client == MESSAGES and said["refusal"] else answer.stop
    assert heard.stop == _STOPS[client][stop]
    assert {k: heard.usage.get(k) for k in expected_usage(client, answer)} == expected_usage(client, answer)
    assert (heard.id, heard.model) == (answer.id, answer.model)
    tier = "standard" if answer.tier == "default" else answer.tier
    assert heard.tier == _TIERS[client].get(tier or "")
    assert heard.usage.get("speed") == ("fast" if client == MESSAGES and tier == "fast" else None)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_stream_adds_up_to_the_whole_answer(client: Wire, upstream: Wire) -> None:
    for seed in range(SLICE):
        check(client, upstream, seed)


@pytest.mark.parametrize("wire", [MESSAGES, RESPONSES])
def test_a_stream_written_anew_in_its_own_dialect_says_the_same(wire: Wire) -> None:
    for seed in range(2):
        check(wire, wire, seed)


@pytest.mark.nightly
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_every_stream_of_the_corpus_adds_up_to_the_whole_answer(client: Wire, upstream: Wire) -> None:
    for seed in range(CONVERSATIONS):
        check(client, upstream, seed)
