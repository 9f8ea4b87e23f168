"""Clients of one dialect, upstreams of another: official SDKs on one side, simulated providers and their bill on the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.dialect_rig import CHATS, billed, dialect_rig
from support.fake_provider import Call, answer, gateway_over, route, settings_with, sse, target
from support.rig import KEY, Rig
from tidegate.runtime.settings import ConfigInvalid

PAIRS = [(client, upstream) for client in CHATS for upstream in CHATS if client != upstream]
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "openai-responses": "/v1/responses",
}
AUTH = {"authorization": f"Bearer {KEY}"}
WORDS = "Why do tides come twice a day? " * 20
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def openai_of(rig: Rig, **headers: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{rig.url}/v1", api_key=KEY, max_retries=0, default_headers=headers)


def anthropic_of(rig: Rig, **headers: str) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=rig.url, api_key=KEY, max_retries=0, default_headers=headers)


Said = tuple[str, list[tuple[str, Any]], Any]
"""Text, tool calls as (name, arguments), and how it ended."""


async def said_in_chat(rig: Rig, model: str, *, stream: bool, tools: bool, **headers: str) -> Said:
    function = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    ask: Any = {
        "model": model,
        "messages": [{"role": "user", "content": WORDS}],
        "max_completion_tokens": 300,
    }
    if tools:
        ask["tools"] = [function]
    async with openai_of(rig, **headers) as client:
        if stream:
            async with client.chat.completions.stream(**ask) as events:
                async for _ in events:
                    pass
                whole: Any = await events.get_final_completion()
        else:
            whole = await client.chat.completions.create(**ask)
    choice = whole.choices[0]
    calls = [
        (call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []
    ]
    return choice.message.content or "", calls, choice.finish_reason


async def said_in_messages(rig: Rig, model: str, *, stream: bool, tools: bool, **headers: str) -> Said:
    ask: Any = {"model": model, "messages": [{"role": "user", "content": WORDS}], "max_tokens": 300}
    if tools:
        ask["tools"] = [{"name": "weather", "input_schema": SCHEMA}]
    async with anthropic_of(rig, **headers) as client:
        if stream:
            async with client.messages.stream(**ask) as events:
                whole: Any = await events.get_final_message()
        else:
            whole = await client.messages.create(**ask)
    text = "".join(block.text for block in whole.content if block.type == "text")
    calls = [(block.name, block.input) for block in whole.content if block.type == "tool_use"]
    return text, calls, whole.stop_reason


async def said_in_responses(rig: Rig, model: str, *, stream: bool, tools: bool, **headers: str) -> Said:
    ask: Any = {"model": model, "input": WORDS, "max_output_tokens": 300, "store": False}
    if tools:
        ask["tools"] = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    async with openai_of(rig, **headers) as client:
        if stream:
            async with client.responses.stream(**ask) as events:
                async for _ in events:
                    pass
                whole: Any = await events.get_final_response()
        else:
            whole = await client.responses.create(**ask)
    calls = [(item.name, json.loads(item.arguments)) for item in whole.output if item.type == "function_call"]
    return whole.output_text, calls, whole.status


SAID = {"openai": said_in_chat, "anthropic": said_in_messages, "openai-responses": said_in_responses}


@pytest.mark.parametrize(("client", "upstream"), [*PAIRS, *((each, each) for each in CHATS)])
async def test_every_pair_answers_whole_and_streamed_and_the_ledger_is_the_invoice(
    tmp_path: Path, client: str, upstream: str
) -> None:
    async with dialect_rig(tmp_path) as (rig, simulator):
        model, steer = f"to-{upstream}", {"x-sim-output-tokens": "40"}
        whole = await SAID[client](rig, model, stream=False, tools=False, **steer)
        streamed = await SAID[client](rig, model, stream=True, tools=False, **steer)
        assert whole[0]
        assert streamed[0]
        assert whole[1:] == streamed[1:]
        called = await SAID[client](rig, model, stream=False, tools=True, **{"x-sim-tool": "weather"})
        streaming = await SAID[client](rig, model, stream=True, tools=True, **{"x-sim-tool": "weather"})
        for _, calls, ended in (called, streaming):
            assert [name for name, _ in calls] == ["weather"]
            assert ended in {"tool_calls", "tool_use", "completed"}
        await rig.wait_event("RequestFinished", 4)
        assert {data.basis for data in rig.data("UsageSettled")} == {"reported"}
        assert {data.target for data in rig.data("UsageSettled")} == {f"only-{upstream}"}
        assert {data.outcome for data in rig.data("RequestFinished")} == {"completed"}
        assert {data.ask.dialects for data in rig.data("DecisionMade")} == {
            () if client == upstream else (upstream,)
        }
        assert rig.ledger() == billed(simulator) > 0


CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "real",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "real",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 2},
}
CHUNKS: list[Any] = [
    {"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "hi"}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"id": "c1", "choices": [], "usage": CHAT["usage"]},
    "data: [DONE]\n\n",
]


def body(client: str, **fields: Any) -> dict[str, Any]:
    if client == "openai-responses":
        return {"model": "r", "input": "hi", **fields}
    return {"model": "r", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], **fields}


def one(dialect: str) -> Any:
    return lambda url: target("t", url, dialect) + route("r", "t")


async def post(rig: Rig, client: str, query: str = "", **fields: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.post(rig.url + PATHS[client] + query, json=body(client, **fields), headers=AUTH)


async def test_what_the_upstream_cannot_be_told_is_named_in_a_header_and_the_query_stays_here(
    tmp_path: Path,
) -> None:
    async with gateway_over(tmp_path, one("anthropic"), lambda call: answer(MESSAGE)) as (rig, fake):
        got = await post(rig, "openai", "?beta=true", frequency_penalty=0.5, seed=7)
        assert got.status_code == 200, got.text
        assert got.json()["choices"][0]["message"]["content"] == "hi"
        warnings = got.headers["x-tidegate-warnings"]
        assert warnings.startswith("left out: ")
        assert {"frequency_penalty", "seed"} <= set(warnings.removeprefix("left out: ").split(", "))
        (call,) = fake.calls
        assert call.path == "/v1/messages"
        assert call.json["model"] == "real-t"
        assert call.headers["anthropic-version"] == "2023-06-01"
        assert "x-api-key" in call.headers
        assert "seed" not in call.json
        quiet = await post(rig, "openai")
        assert "x-tidegate-warnings" not in quiet.headers


async def test_within_one_dialect_nothing_is_translated_or_warned_of(tmp_path: Path) -> None:
    def config(url: str) -> str:
        return target("same", url, "openai") + target("other", url, "anthropic") + route("r", "same", "other")

    wire = json.dumps(CHAT, indent=2).encode()
    async with gateway_over(tmp_path, config, lambda call: answer(wire)) as (rig, fake):
        got = await post(rig, "openai", "?x=1", logit_bias={"5": 1})
        assert got.content == wire
        assert "x-tidegate-warnings" not in got.headers
        assert fake.calls[0].json["logit_bias"] == {"5": 1}
        assert fake.calls[0].path == "/v1/chat/completions?x=1"


async def test_a_failover_may_cross_dialects_before_content(tmp_path: Path) -> None:
    def config(url: str) -> str:
        return target("same", url, "openai") + target("other", url, "anthropic") + route("r", "same", "other")

    def fake(call: Call) -> bytes:
        if call.path == "/v1/messages":
            return answer(MESSAGE)
        return answer(
            {"error": {"message": "down", "type": "server_error"}}, status="503 Service Unavailable"
        )

    async with gateway_over(tmp_path, config, fake) as (rig, _), openai_of(rig) as client:
        raw = await client.chat.completions.with_raw_response.create(**body("openai"))
        assert raw.headers["x-tidegate-target"] == "other"
        assert raw.headers["x-tidegate-attempts"] == "2"
        assert raw.parse().choices[0].message.content == "hi"


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
async def test_an_error_is_told_in_the_clients_dialect_whatever_the_upstream_speaks(
    tmp_path: Path, client: str, upstream: str
) -> None:
    words = {"type": "invalid_request_error", "message": "too many apples"}
    said = {"type": "error", "error": words} if upstream == "anthropic" else {"error": words}
    async with gateway_over(tmp_path, one(upstream), lambda call: answer(said, status="400 Bad Request")) as (
        rig,
        _,
    ):
        got = await post(rig, client)
        assert got.status_code == 400
        assert (got.json().get("type") == "error") == (client == "anthropic")
        assert "too many apples" in got.json()["error"]["message"]
        (settled,) = rig.data("UsageSettled")
        assert (settled.basis, settled.cost_nanousd) == ("none", 0)


async def test_a_stream_that_breaks_after_content_is_one_error_that_each_sdk_raises(tmp_path: Path) -> None:
    wire = sse(*CHUNKS[:2], "data: {\n\n")
    async with gateway_over(tmp_path, one("openai"), lambda call: wire) as (rig, fake):
        fake.pause_before, fake.resume = b"data: {\n", asyncio.Event()
        async with anthropic_of(rig) as messages:
            events = await messages.messages.create(**body("anthropic"), stream=True)
            fake.resume.set()
            with pytest.raises(anthropic.APIError, match="broke"):
                _ = [event async for event in events]
        fake.resume.clear()
        async with openai_of(rig) as responses:
            stream = await responses.responses.create(**body("openai-responses"), stream=True)
            fake.resume.set()
            kinds: list[str] = []
            with contextlib.suppress(openai.APIError):
                kinds.extend([event.type async for event in stream])
            assert "response.completed" not in kinds
        await rig.wait_event("RequestFinished", 2)
        assert {data.outcome for data in rig.data("RequestFinished")} == {"truncated"}
        assert {data.outcome for data in rig.data("UsageSettled")} == {"truncated"}


async def test_silence_of_an_upstream_is_bridged_in_the_clients_dialect(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, one("openai"), lambda call: sse(*CHUNKS)) as (rig, fake):
        fake.wait = asyncio.Event()
        async with (
            httpx.AsyncClient(timeout=20) as http,
            http.stream(
                "POST", f"{rig.url}/v1/messages", json=body("anthropic", stream=True), headers=AUTH
            ) as got,
        ):
            pieces = got.aiter_bytes()
            assert await anext(pieces) == b'event: ping\ndata: {"type": "ping"}\n\n'
            fake.wait.set()
            rest = b"".join([piece async for piece in pieces])
        assert rest.count(b"event: message_stop") == 1


async def test_a_request_that_cannot_be_said_there_is_refused_by_its_field_before_any_call(
    tmp_path: Path,
) -> None:
    async with gateway_over(tmp_path, one("anthropic"), lambda call: answer(MESSAGE)) as (rig, fake):
        async with openai_of(rig) as client:
            with pytest.raises(openai.BadRequestError, match="cannot be translated") as caught:
                await client.chat.completions.create(**body("openai", n=3))
        assert (caught.value.code, caught.value.param) == ("request_incompatible", "n")
        assert fake.calls == []
        (refused,) = rig.data("RequestRefused")
        assert refused.code == "request_incompatible"


async def test_an_answer_that_is_not_of_its_dialect_is_a_failed_attempt(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, one("openai"), lambda call: answer({**CHAT, "choices": 5})) as (rig, _):
        got = await post(rig, "anthropic")
        assert got.status_code == 502
        (failed,) = rig.data("AttemptFailed")
        assert failed.rule == "answer_malformed"


async def test_a_body_that_only_one_reader_takes_is_refused(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, one("anthropic"), lambda call: answer(MESSAGE)) as (rig, _):
        odd = b'{"model":"r","max_tokens":5,"messages":[{"role":"user","content":"\\ud800"}]}'
        async with httpx.AsyncClient() as http:
            got = await http.post(rig.url + PATHS["openai"], content=odd, headers=AUTH)
        assert got.status_code == 400


def quirky(quirks: str) -> Any:
    return lambda url: target("plain", url, "anthropic", f"[targets.quirks]\n{quirks}") + route("r", "plain")


async def test_a_targets_quirks_rewrite_what_it_is_sent_and_not_what_it_answers(tmp_path: Path) -> None:
    def config(url: str) -> str:
        quirks = '[targets.quirks]\nmax_tokens_field = "max_tokens"\nno_developer_role = true'
        return target("t", url, "openai", quirks) + route("r", "t")

    wire = json.dumps(CHAT, indent=2).encode()
    async with gateway_over(tmp_path, config, lambda call: answer(wire)) as (rig, fake):
        turns = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}]
        async with httpx.AsyncClient() as http:
            asked = {"model": "r", "max_completion_tokens": 7, "messages": turns}
            got = await http.post(rig.url + PATHS["openai"], json=asked, headers=AUTH)
        assert got.content == wire
        sent = fake.calls[0].json
        assert (sent["max_tokens"], sent["messages"][0]["role"], sent["model"]) == (7, "system", "real-t")
        assert "max_completion_tokens" not in sent


async def test_a_target_whose_quirks_forbid_the_request_is_passed_over(tmp_path: Path) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}

    def both(url: str) -> str:
        quirks = "[targets.quirks]\nno_structured_output = true"
        return (
            target("odd", url, "anthropic", quirks)
            + target("good", url, "openai")
            + route("r", "odd", "good")
        )

    async with gateway_over(tmp_path / "both", both, lambda call: answer(CHAT)) as (rig, fake):
        got = await post(rig, "openai", response_format=schema)
        assert got.headers["x-tidegate-target"] == "good"
        assert got.headers["x-tidegate-attempts"] == "1"
    async with gateway_over(
        tmp_path / "one", quirky("no_structured_output = true"), lambda call: answer({})
    ) as (
        rig,
        fake,
    ):
        refused = await post(rig, "openai", response_format=schema)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "response_format")
        assert fake.calls == []
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.code, finished.attempts) == ("failed", "request_incompatible", 0)


@pytest.mark.parametrize(
    "odd", ["no_such_quirk = true", 'max_tokens_field = "tokens"', "no_custom_tools = 5"]
)
def test_a_quirk_that_is_none_is_a_mistake_by_name(odd: str) -> None:
    with pytest.raises(ConfigInvalid, match="quirks of `plain`"):
        settings_with(quirky(odd)("http://127.0.0.1:9"))
