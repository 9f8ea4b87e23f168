"""The header contract, over real sockets: what reaches an upstream, what comes back, in both dialects."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.fake_provider import Answer, Call, answer, gateway_over, route, sse, target
from support.rig import KEY

PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
REQUEST_ID = {"openai": "x-request-id", "anthropic": "request-id"}
REMAINING = {
    "openai": "x-ratelimit-remaining-requests",
    "anthropic": "anthropic-ratelimit-requests-remaining",
}
WHOLE: dict[str, Any] = {
    "openai": {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 2},
    },
}
LIMITS = {
    "openai": {"x-ratelimit-remaining-requests": "41", "x-ratelimit-reset-requests": "6m0s"},
    "anthropic": {"anthropic-ratelimit-requests-remaining": "41"},
}
STATUSES = ["400 Bad Request", "429 Too Many Requests", "500 Internal Server Error"]
ALL = [(client, upstream) for client in PATHS for upstream in PATHS]


def config(dialect: str) -> Any:
    return lambda url: target("t", url, dialect) + route("r", "t")


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "r", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}


async def post(url: str, dialect: str, query: str = "", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as client:
        sent = {"authorization": f"Bearer {KEY}", **headers}
        return await client.post(url + PATHS[dialect] + query, json=ask(), headers=sent)


def failing(status: str, dialect: str) -> Answer:
    headers = {"retry-after": "7", "request-id": "up-1", "connection": "close, x-hop", "x-hop": "1"}
    return lambda call: answer(
        {"type": "error", "error": {"type": "x", "message": "no"}}, headers | LIMITS[dialect], status
    )


@pytest.mark.parametrize("dialect", PATHS)
async def test_only_what_the_list_names_reaches_an_upstream_and_the_query_does(
    tmp_path: Path, dialect: str
) -> None:
    async with gateway_over(tmp_path, config(dialect), lambda call: answer(WHOLE[dialect])) as (rig, fake):
        sent = {
            "openai-beta": "a=v1",
            "anthropic-beta": "b-1",
            "openai-organization": "org-other",
            "openai-project": "proj-other",
            "idempotency-key": "same",
            "x-forwarded-for": "10.0.0.1",
            "cookie": "c=1",
            "x-api-base": "http://evil",
            "te": "trailers",
            "proxy-authorization": "Basic x",
            "x-stainless-lang": "python",
        }
        assert (
            await post(rig.url, dialect, "?beta=true&api_base=http%3A%2F%2Fevil", **sent)
        ).status_code == 200
        (call,) = fake.calls
        assert call.path == PATHS[dialect] + "?beta=true&api_base=http%3A%2F%2Fevil"
        ours = {
            "host", "content-type", "accept-encoding", "user-agent", "content-length", "x-tidegate-attempt-id",
        }  # fmt: skip
        own = {"openai": {"authorization", "openai-beta"}}
        own["anthropic"] = {"x-api-key", "anthropic-version", "anthropic-beta"}
        assert set(call.headers) == ours | own[dialect]
        assert call.headers["accept-encoding"] == "identity"
        assert call.headers["user-agent"] == "tidegate"
        assert KEY not in str(call.headers)


async def test_a_repeated_beta_header_reaches_the_upstream_whole(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config("anthropic"), lambda call: answer(WHOLE["anthropic"])) as (
        rig,
        fake,
    ):
        headers = [("x-api-key", KEY), ("anthropic-beta", "one"), ("anthropic-beta", "two,three")]
        async with httpx.AsyncClient() as client:
            await client.post(f"{rig.url}/v1/messages", json=ask(), headers=headers)
        assert fake.calls[0].headers["anthropic-beta"] == "one, two,three"
        assert fake.calls[0].headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("dialect", "limits"), ALL)
async def test_an_answer_tells_limits_and_request_id_as_its_clients_know_them(
    tmp_path: Path, dialect: str, limits: str, *, stream: bool
) -> None:
    headers = LIMITS[limits] | {"x-request-id": "up-1", "set-cookie": "a=b", "openai-organization": "org"}
    whole = {
        "openai": (
            {"choices": [{"index": 0, "delta": {"content": "hi"}}]},
            {"choices": [], "usage": WHOLE["openai"]["usage"]},
            "data: [DONE]\n\n",
        ),
        "anthropic": (
            {"type": "message_start", "message": WHOLE["anthropic"]},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
            {"type": "message_stop"},
        ),
    }

    def fake(call: Call) -> bytes:
        return sse(*whole[dialect], headers=headers) if stream else answer(WHOLE[dialect], headers)

    async with gateway_over(tmp_path, config(dialect), fake) as (rig, _), httpx.AsyncClient() as client:
        auth = {"authorization": f"Bearer {KEY}"}
        got = await client.post(rig.url + PATHS[dialect], json=ask(stream=stream), headers=auth)
        assert got.status_code == 200
        assert got.headers[REQUEST_ID[dialect]] == "up-1"
        assert got.headers[REMAINING[dialect]] == "41"
        assert len(got.headers["x-tidegate-request-id"]) == 36
        vendors = {name for name in got.headers if "ratelimit" in name or "request-id" in name}
        other = "openai" if dialect == "anthropic" else "anthropic"
        assert not vendors & {REQUEST_ID[other], REMAINING[other]}
        assert not {"set-cookie", "openai-organization"} & set(got.headers)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(("dialect", "limits"), ALL)
async def test_an_error_tells_limits_retry_after_and_request_id_as_its_clients_know_them(
    tmp_path: Path, dialect: str, limits: str, status: str
) -> None:
    async with gateway_over(tmp_path, config(dialect), failing(status, limits)) as (rig, _):
        got = await post(rig.url, dialect)
        assert got.status_code >= 400
        assert got.headers[REQUEST_ID[dialect]] == "up-1"
        assert got.headers[REMAINING[dialect]] == "41"
        assert got.headers.get("retry-after") == (None if status.startswith("400") else "7")
        assert "x-hop" not in got.headers
        assert got.headers["x-tidegate-attempts"] == "1"
        assert (got.json().get("type") == "error") == (dialect == "anthropic")


SPENT = {
    "openai": {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"},
    "anthropic": {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2090-01-01T00:00:00Z",
    },
}


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ({"retry-after": "7"}, "7"),
        ({"retry-after-ms": "6900"}, "7"),
        ({"retry-after-ms": "6900", "retry-after": "50"}, "7"),
        ({"retry-after": "0"}, "1"),
        ({"retry-after": "soon"}, None),
    ],
)
@pytest.mark.parametrize(("dialect", "limits"), [("openai", "anthropic"), ("anthropic", "openai")])
async def test_what_an_upstream_asks_to_wait_goes_before_the_reset_of_a_spent_limit(
    tmp_path: Path, dialect: str, limits: str, hint: dict[str, str], told: str | None
) -> None:
    refused = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    headers = SPENT[limits] | hint
    if limits == "anthropic":
        ahead = datetime.now(UTC) + timedelta(minutes=6)
        headers |= {"anthropic-ratelimit-requests-reset": ahead.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def fake(call: Call) -> bytes:
        return answer(refused, headers, "429 Too Many Requests")

    async with gateway_over(tmp_path, config(dialect), fake) as (rig, _):
        got = await post(rig.url, dialect)
        assert got.status_code == 503
        assert "slow down" in got.text
        if told is None:  # without a hint the reset tells, at most what is left of it
            assert 7 < int(got.headers["retry-after"]) <= 361
        else:
            assert got.headers["retry-after"] == told


@pytest.mark.parametrize("kind", ["gzip", "deflate"])
async def test_a_compressed_error_is_read_and_classified(tmp_path: Path, kind: str) -> None:
    body = b'{"error":{"type":"invalid_request_error","message":"field `x` is odd"}}'
    coder = zlib.compressobj(wbits=31 if kind == "gzip" else 15)
    coded = coder.compress(body) + coder.flush()

    def fake(call: Call) -> bytes:
        return answer(coded, {"content-encoding": kind}, "400 Bad Request")

    async with gateway_over(tmp_path, config("openai"), fake) as (rig, _):
        got = await post(rig.url, "openai")
        assert got.status_code == 400
        assert "field `x` is odd" in got.json()["error"]["message"]


@pytest.mark.parametrize(("kind", "status"), [("gzip", 200), ("deflate", 200), ("br", 502)])
async def test_a_whole_answer_that_is_compressed_is_read_or_failed_never_passed_on(
    tmp_path: Path, kind: str, status: int
) -> None:
    coder = zlib.compressobj(wbits=31 if kind == "gzip" else 15)
    coded = coder.compress(json.dumps(WHOLE["openai"]).encode()) + coder.flush()

    def fake(call: Call) -> bytes:
        return answer(coded, {"content-encoding": kind})

    async with gateway_over(tmp_path, config("openai"), fake) as (rig, _):
        got = await post(rig.url, "openai")
        assert got.status_code == status
        assert "content-encoding" not in got.headers
        assert (got.json() == WHOLE["openai"]) == (status == 200)


async def test_a_compressed_stream_is_a_failed_attempt_and_no_garbage(tmp_path: Path) -> None:
    coded = zlib.compress(b"data: [DONE]\n\n")

    def fake(call: Call) -> bytes:
        return answer(coded, {"content-encoding": "deflate"}, kind="text/event-stream")

    async with gateway_over(tmp_path, config("openai"), fake) as (rig, _), httpx.AsyncClient() as client:
        auth = {"authorization": f"Bearer {KEY}"}
        got = await client.post(rig.url + PATHS["openai"], json=ask(stream=True), headers=auth)
        assert got.status_code == 502
        (failed,) = rig.data("AttemptFailed")
        assert failed.rule == "stream_encoded"


async def test_the_sdks_find_the_request_id_where_they_look_for_it(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config("openai"), lambda call: answer(WHOLE["openai"])) as (rig, _):
        async with AsyncOpenAI(base_url=f"{rig.url}/v1", api_key=KEY, max_retries=0) as client:
            done = await client.chat.completions.create(**ask())
            assert done._request_id
        async with AsyncOpenAI(base_url=f"{rig.url}/v1", api_key="wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                await client.chat.completions.create(**ask())
            assert caught.value.request_id == caught.value.response.headers["x-tidegate-request-id"]
        async with AsyncAnthropic(base_url=rig.url, api_key="wrong", max_retries=0) as other:
            with pytest.raises(anthropic.AuthenticationError) as refused:
                await other.messages.create(**ask())
            assert refused.value.request_id == refused.value.response.headers["x-tidegate-request-id"]
