"""A 200 that is no answer is a failure: another target is asked, and nothing of it is called a success."""

from __future__ import annotations

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
RESPONSE = {"object": "response", "status": "completed", "model": "real", "output": [], "usage": USED}
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
