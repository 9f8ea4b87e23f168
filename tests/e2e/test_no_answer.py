"""A 200 that is no answer is a failure: another target is asked, and nothing of it is called a success."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.fake_provider import Call, answer, gateway_over, route, target
from support.rig import KEY, Rig

AUTH = {"authorization": f"Bearer {KEY}"}
ASKED = {"max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
USED = {"prompt_tokens": 5, "completion_tokens": 7, "input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
CHAT = {
    "object": "chat.completion",
    "model": "real",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "high"}}],
    "usage": USED,
}
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "real",
    "content": [{"type": "text", "text": "high"}],
    "stop_reason": "end_turn",
    "usage": USED,
}
SAID_ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
RESPONSE = {
    "object": "response",
    "status": "completed",
    "model": "real",
    "output": [SAID_ITEM],
    "usage": USED,
}
VECTORS = {"object": "list", "model": "real", "data": [{"embedding": [0.5]}], "usage": USED}
DIALECTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "openai": ("/v1/chat/completions", ASKED, CHAT),
    "anthropic": ("/v1/messages", ASKED, MESSAGE),
    "openai-responses": ("/v1/responses", {"input": "hi"}, RESPONSE),
    "openai-embeddings": ("/v1/embeddings", {"input": "hi"}, VECTORS),
}
OVERLOADED = {"error": {"type": "overloaded_error", "message": "Overloaded"}}
NO_ANSWERS: list[tuple[dict[str, Any], str, str]] = [
    (OVERLOADED, "unavailable", "event_type:overloaded_error"),
    ({"type": "error", **OVERLOADED}, "unavailable", "event_type:overloaded_error"),
    ({"object": "error", "message": "boom", "code": 500}, "unavailable", "event_status_500_typed"),
    ({"detail": "internal failure"}, "transport", "answer_malformed"),
    ({}, "transport", "answer_malformed"),
]


def two_targets(dialect: str) -> Any:
    return lambda url: target("a", url, dialect) + target("b", url, dialect) + route("r", "a", "b")


async def ask(rig: Rig, path: str, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.post(rig.url + path, json={"model": "r", **body}, headers=AUTH)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_another_target_answers_and_the_first_one_failed(tmp_path: Path, dialect: str) -> None:
    path, body, good = DIALECTS[dialect]
    for number, (odd, cause, rule) in enumerate(NO_ANSWERS):

        def reply(call: Call, odd: dict[str, Any] = odd) -> bytes:
            return answer(odd if call.json["model"] == "real-a" else good)

        async with gateway_over(tmp_path / str(number), two_targets(dialect), reply) as (rig, _):
            told = await ask(rig, path, body)
            assert (told.status_code, told.json()) == (200, good), odd
            assert told.headers["x-tidegate-target"] == "b"
            await rig.wait_event("RequestFinished")
            (failed,) = rig.data("AttemptFailed")
            assert (failed.target, failed.cause, failed.rule) == ("a", cause, rule)
            ends = {data.target: data.outcome for data in rig.data("UsageSettled")}
            assert ends == {"a": "failed", "b": "completed"}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_when_no_target_has_an_answer_the_client_is_told_so(tmp_path: Path, dialect: str) -> None:
    path, body, _ = DIALECTS[dialect]
    async with gateway_over(tmp_path, two_targets(dialect), lambda _: answer({"detail": "x"})) as (rig, _):
        told = await ask(rig, path, body)
        assert told.status_code == 502
        assert "answer_malformed" in told.text
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("failed", 2)


async def test_a_json_error_instead_of_a_stream_is_that_error(tmp_path: Path) -> None:
    odd = {"object": "error", "message": "boom", "code": 500}
    async with gateway_over(tmp_path, two_targets("openai"), lambda _: answer(odd)) as (rig, _):
        assert (await ask(rig, "/v1/chat/completions", {**ASKED, "stream": True})).status_code == 502
        await rig.wait_event("RequestFinished")
        assert {data.rule for data in rig.data("AttemptFailed")} == {"event_status_500_typed"}


def settled(rig: Rig) -> tuple[str, str, int | None]:
    """Target a's only settlement: basis, outcome, output tokens that were paid for at 15 $ a million."""
    (data,) = [data for data in rig.data("UsageSettled") if data.target == "a"]
    inputs = data.tokens.input_uncached
    assert data.cost_nanousd is not None
    paid = data.cost_nanousd - 3_000 * (data.input_estimate if inputs is None else inputs)
    return data.basis, data.outcome, paid // 15_000


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "openai-responses"])
async def test_an_answer_where_a_stream_was_asked_costs_what_it_says_and_another_target_streams(
    tmp_path: Path, dialect: str
) -> None:
    path, body, good = DIALECTS[dialect]
    async with gateway_over(tmp_path, two_targets(dialect), lambda _: answer(good)) as (rig, _):
        assert (await ask(rig, path, {**body, "stream": True})).status_code == 502
        await rig.wait_event("RequestFinished")
        assert settled(rig) == ("reported", "failed", 7)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "openai-responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_short_answer_without_usage_is_not_taken_for_the_longest_one(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    path, body, good = DIALECTS[dialect]
    asked = {**body, "max_output_tokens" if dialect == "openai-responses" else "max_tokens": 200_000}
    silent = {name: value for name, value in good.items() if name != "usage"}
    async with gateway_over(tmp_path, two_targets(dialect), lambda _: answer(silent)) as (rig, _):
        told = await ask(rig, path, {**asked, "stream": stream})
        assert told.status_code == (502 if stream else 200)
        await rig.wait_event("RequestFinished")
        basis, outcome, output = settled(rig)
        assert (basis, outcome) == ("estimated", "failed" if stream else "completed")
        assert output is not None
        assert 0 < output < 60


async def test_usage_counted_in_floats_is_counted(tmp_path: Path) -> None:
    floats = {**CHAT, "usage": {name: float(count) for name, count in USED.items()}}
    async with gateway_over(tmp_path, two_targets("openai"), lambda _: answer(floats)) as (rig, _):
        assert (await ask(rig, "/v1/chat/completions", ASKED)).status_code == 200
        await rig.wait_event("RequestFinished")
        assert settled(rig) == ("reported", "completed", 7)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_an_answer_that_was_compressed_unasked_is_read_and_told_plainly(
    tmp_path: Path, coding: str
) -> None:
    coder = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    squeezed = coder.compress(json.dumps(CHAT).encode()) + coder.flush()
    reply = answer(squeezed, {"content-encoding": coding})
    async with gateway_over(tmp_path, two_targets("openai"), lambda _: reply) as (rig, _):
        told = await ask(rig, "/v1/chat/completions", ASKED)
        assert (told.status_code, told.json()) == (200, CHAT)
        assert "content-encoding" not in told.headers
        await rig.wait_event("RequestFinished")
        assert settled(rig) == ("reported", "completed", 7)


@pytest.mark.parametrize(("coding", "cut"), [("br", 0), ("gzip", 5), ("gzip, br", 0)])
async def test_an_answer_in_a_coding_that_cannot_be_read_whole_is_none(
    tmp_path: Path, coding: str, cut: int
) -> None:
    squeezed = gzip.compress(json.dumps(CHAT).encode())
    odd = answer(squeezed[: len(squeezed) - cut], {"content-encoding": coding})
    async with gateway_over(
        tmp_path,
        two_targets("openai"),
        lambda call: odd if call.json["model"] == "real-a" else answer(CHAT),
    ) as (rig, _):
        told = await ask(rig, "/v1/chat/completions", ASKED)
        assert (told.json(), told.headers["x-tidegate-target"]) == (CHAT, "b")
        assert {data.rule for data in rig.data("AttemptFailed")} == {"answer_encoded"}
