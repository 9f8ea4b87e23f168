"""Every endpoint to an upstream of its dialect: answered to the official SDKs byte for byte, metered and settled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.fake_provider import Call, answer, gateway_over, route, sse, target
from support.rig import KEY, Rig

AUTH = {"authorization": f"Bearer {KEY}"}
USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 5},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 29,
}
COST = 15 * 3_000 + 5 * 300 + 9 * 15_000
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "high tide", "annotations": []}],
}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "real",
    "output": [MESSAGE],
    "error": None,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": USAGE,
    "something_new": {"kept": True},
}
OPEN = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": OPEN, "sequence_number": 0},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**MESSAGE, "content": [], "status": "in_progress"},
        "sequence_number": 1,
    },
    {
        "type": "response.content_part.added",
        "output_index": 0,
        "content_index": 0,
        "item_id": "msg_1",
        "part": {"type": "output_text", "text": "", "annotations": []},
        "sequence_number": 2,
    },
    *(
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "item_id": "msg_1",
            "delta": word,
            "logprobs": [],
            "sequence_number": 3 + n,
        }
        for n, word in enumerate(("high ", "tide"))
    ),
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE, "sequence_number": 5},
    {"type": "response.completed", "response": RESPONSE, "sequence_number": 6},
]


def responses_config(url: str) -> str:
    return (
        target("one", url, "openai-responses")
        + target("two", url, "openai-responses")
        + route("r", "one", "two")
    )


def sdk(rig: Rig) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{rig.url}/v1", api_key=KEY, max_retries=0)


async def settled(rig: Rig) -> Any:
    await rig.wait_event("RequestFinished")
    (data,) = rig.data("UsageSettled")
    return data


async def test_a_response_is_the_upstreams_own_bytes_and_its_usage_is_settled(tmp_path: Path) -> None:
    wire = json.dumps(RESPONSE, indent=1).encode()
    async with (
        gateway_over(tmp_path, responses_config, lambda call: answer(wire)) as (rig, fake),
        sdk(rig) as client,
    ):
        raw = await client.responses.with_raw_response.create(
            model="r",
            input="Why tides?",
            store=False,
            include=["reasoning.encrypted_content"],
            prompt_cache_key="s",
        )
        assert raw.content == wire
        assert raw.parse().output_text == "high tide"
        (call,) = fake.calls
        assert call.path == "/v1/responses"
        assert call.json["model"] == "real-one"
        assert call.json["store"] is False
        data = await settled(rig)
        assert (data.basis, data.cost_nanousd, data.tokens.cache_read) == ("reported", COST, 5)
        (admitted,) = rig.data("RequestAdmitted")
        assert (admitted.endpoint, admitted.dialect) == ("/v1/responses", "openai-responses")
        assert admitted.session_source == "prompt_cache_key"


async def test_a_streamed_response_is_the_whole_one_and_the_bytes_are_untouched(tmp_path: Path) -> None:
    wire = sse(*EVENTS)
    async with gateway_over(tmp_path, responses_config, lambda call: wire) as (rig, _), sdk(rig) as client:
        async with client.responses.stream(model="r", input="Why tides?") as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_response()
        assert final.output_text == "high tide"
        assert final.usage is not None
        assert final.usage.output_tokens == 9
        data = await settled(rig)
        assert (data.basis, data.outcome, data.cost_nanousd) == ("reported", "completed", COST)
        async with httpx.AsyncClient() as plain:
            body = {"model": "r", "input": "x", "stream": True}
            got = await plain.post(f"{rig.url}/v1/responses?a=b", json=body, headers=AUTH)
        assert got.content == wire.partition(b"\r\n\r\n")[2]


async def test_a_failed_response_before_content_goes_to_the_next_target(tmp_path: Path) -> None:
    failed = {
        **RESPONSE,
        "status": "failed",
        "error": {"code": "server_error", "message": "m"},
        "usage": None,
    }
    for stream in (False, True):
        broken = sse(EVENTS[0], {"type": "response.failed", "response": failed}) if stream else answer(failed)
        good = sse(*EVENTS) if stream else answer(RESPONSE)

        def fake(call: Call, broken: bytes = broken, good: bytes = good) -> bytes:
            return broken if call.json["model"] == "real-one" else good

        async with (
            gateway_over(tmp_path / str(stream), responses_config, fake) as (rig, _),
            sdk(rig) as client,
        ):
            got = await client.responses.with_raw_response.create(model="r", input="x", stream=stream)
            assert got.headers["x-tidegate-target"] == "two"
            await rig.wait_event("AttemptFailed")
            (failure,) = rig.data("AttemptFailed")
            assert failure.cause == "unavailable"


async def test_a_response_that_fails_after_content_is_one_error_that_the_sdk_raises(tmp_path: Path) -> None:
    wire = sse(*EVENTS[:5], {"type": "error", "code": "server_error", "message": "m", "param": None})
    async with gateway_over(tmp_path, responses_config, lambda call: wire) as (rig, fake), sdk(rig) as client:
        fake.pause_before, fake.resume = b"event: error", asyncio.Event()
        stream = await client.responses.create(model="r", input="x", stream=True)
        fake.resume.set()
        with pytest.raises(openai.APIError, match="broke"):
            _ = [event async for event in stream]
        (finished,) = await rig.wait_event("RequestFinished")
        assert finished.outcome == "truncated"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_0"}, "previous_response_id"),
        ({"conversation": "conv_0"}, "conversation"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "msg_0"}]}, "input"),
    ],
)
async def test_what_would_have_to_be_stored_is_refused_before_any_call(
    tmp_path: Path, fields: dict[str, Any], param: str
) -> None:
    async with gateway_over(tmp_path, responses_config, lambda call: answer(RESPONSE)) as (rig, fake):
        async with sdk(rig) as client:
            with pytest.raises(openai.BadRequestError, match="stateless") as caught:
                await client.responses.create(**{"model": "r", "input": "x", **fields})
        assert (caught.value.code, caught.value.param) == ("state_unsupported", param)
        assert fake.calls == []
        (refused,) = rig.data("RequestRefused")
        assert refused.code == "state_unsupported"


async def test_a_websocket_at_responses_is_told_to_post_and_may_go_on(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, responses_config, lambda call: answer(RESPONSE)) as (rig, _):
        headers = {
            **AUTH,
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "x" * 22 + "==",
        }
        async with httpx.AsyncClient() as client:
            refused = await client.get(f"{rig.url}/v1/responses", headers=headers)
            assert refused.status_code == 426
            assert refused.json()["error"]["code"] == "upgrade_not_supported"
            assert refused.headers["x-tidegate-request-id"]
            assert (await client.head(rig.url + "/")).status_code == 200
            posted = await client.post(
                f"{rig.url}/v1/responses", json={"model": "r", "input": "x"}, headers=AUTH
            )
            assert posted.status_code == 200


def embeddings_config(url: str) -> str:
    return target("e", url, "openai-embeddings") + target("c", url, "openai") + route("vectors", "c", "e")


async def test_embeddings_reach_only_targets_that_embed_and_cost_their_input(tmp_path: Path) -> None:
    vectors = {
        "object": "list",
        "model": "real-e",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}],
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    }
    async with gateway_over(tmp_path, embeddings_config, lambda call: answer(vectors)) as (rig, fake):
        async with sdk(rig) as client:
            got = await client.embeddings.create(
                model="vectors", input=["high tide"], encoding_format="float"
            )
        assert got.data[0].embedding == [0.5, -0.25]
        assert [call.path for call in fake.calls] == ["/v1/embeddings"]
        data = await settled(rig)
        assert (data.basis, data.cost_nanousd, data.tokens.output) == ("reported", 6 * 3_000, 0)
        (made,) = rig.data("DecisionMade")
        assert [(each.target, each.reason) for each in made.candidates] == [("c", "dialect"), ("e", None)]


@pytest.mark.parametrize("broken", ['{"data":[', "[]", '{"error":{"message":"no"}}'])
async def test_an_answer_without_vectors_is_no_answer(tmp_path: Path, broken: str) -> None:
    async with (
        gateway_over(tmp_path, embeddings_config, lambda call: answer(broken)) as (rig, _),
        sdk(rig) as client,
    ):
        with pytest.raises(openai.InternalServerError):
            await client.embeddings.create(model="vectors", input="x")


def messages_config(extra: str = "") -> Any:
    return lambda url: target("a", url, "anthropic", extra) + route("m", "a")


ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "How many tokens are these?"}]}


async def counted(rig: Rig) -> tuple[int, Mapping[str, str]]:
    async with AsyncAnthropic(base_url=rig.url, api_key=KEY, max_retries=0) as client:
        raw = await client.messages.with_raw_response.count_tokens(**ASK)
        return (await raw.parse()).input_tokens, raw.headers


async def test_tokens_are_counted_by_the_target_for_nothing(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, messages_config(), lambda call: answer({"input_tokens": 14})) as (
        rig,
        fake,
    ):
        count, headers = await counted(rig)
        assert count == 14
        assert headers["x-tidegate-target"] == "a"
        assert "x-tidegate-estimated" not in headers
        assert fake.calls[0].path == "/v1/messages/count_tokens"
        assert fake.calls[0].json["model"] == "real-a"
        data = await settled(rig)
        assert (data.basis, data.cost_nanousd, data.evidence, data.windows) == ("none", 0, False, ())
        (finished,) = rig.data("RequestFinished")
        assert (finished.outcome, finished.cost_nanousd) == ("completed", 0)
        assert rig.data("DemandSeen") == []


@pytest.mark.parametrize("status", ["404 Not Found", "429 Too Many Requests", "500 Internal Server Error"])
async def test_a_count_that_the_target_refuses_is_estimated_and_held_against_nobody(
    tmp_path: Path, status: str
) -> None:
    def fake(call: Call) -> bytes:
        return answer({"error": {"type": "rate_limit_error", "message": "no"}}, status=status)

    async with gateway_over(tmp_path, messages_config(), fake) as (rig, _):
        count, headers = await counted(rig)
        assert count > 0
        assert headers["x-tidegate-estimated"] == "input_tokens"
        (data,) = rig.data("UsageSettled")
        assert (data.basis, data.evidence) == ("none", False)
        assert rig.data("AttemptFailed") == []


@pytest.mark.parametrize("answered", ['{"input_tokens":true}', "[]", "x" * 70_000])
async def test_an_answer_that_is_no_count_is_estimated(tmp_path: Path, answered: str) -> None:
    async with gateway_over(tmp_path, messages_config(), lambda call: answer(answered)) as (rig, _):
        assert (await counted(rig))[1]["x-tidegate-estimated"] == "input_tokens"


@pytest.mark.parametrize("extra", ["counts_tokens = false", "enabled = false"])
async def test_without_a_target_that_counts_the_count_is_estimated_without_a_call(
    tmp_path: Path, extra: str
) -> None:
    async with gateway_over(tmp_path, messages_config(extra), lambda call: answer({})) as (rig, fake):
        count, headers = await counted(rig)
        assert count == 14
        assert headers["x-tidegate-estimated"] == "input_tokens"
        assert fake.calls == []
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts, finished.cost_nanousd) == ("completed", 0, 0)


async def test_one_target_serves_each_of_its_dialects_under_its_own_path(tmp_path: Path) -> None:
    def config(url: str) -> str:
        return target("t", url, "openai", 'also_speaks = ["openai-responses", "anthropic"]') + route("r", "t")

    def fake(call: Call) -> bytes:
        return answer({"error": {"message": call.path}}, status="400 Bad Request")

    async with gateway_over(tmp_path, config, fake) as (rig, provider), httpx.AsyncClient() as client:
        body = {"model": "r", "input": "x", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
            await client.post(rig.url + path, json=body, headers=AUTH)
        assert [call.path for call in provider.calls] == [
            "/v1/chat/completions",
            "/v1/responses",
            "/v1/messages",
        ]
        assert ["x-api-key" in call.headers for call in provider.calls] == [False, False, True]


async def test_silent_reasoning_keeps_a_responses_stream_warm_with_comments(tmp_path: Path) -> None:
    release = asyncio.Event()
    wire = sse(*EVENTS)
    async with gateway_over(tmp_path, responses_config, lambda call: wire) as (rig, fake):
        fake.wait = release
        async with (
            httpx.AsyncClient(timeout=20) as client,
            client.stream(
                "POST",
                f"{rig.url}/v1/responses",
                json={"model": "r", "input": "x", "stream": True},
                headers=AUTH,
            ) as got,
        ):
            pieces = got.aiter_bytes()
            assert await anext(pieces) == b": keep-alive\n"
            release.set()
            rest = b"".join([piece async for piece in pieces])
        assert rest.replace(b": keep-alive\n", b"").startswith(b"event: response.created\n")
        assert rest.count(b"event: response.completed") == 1
