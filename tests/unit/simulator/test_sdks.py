"""The vendors' own SDKs take the simulator for the vendor."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from tidegate.simulator.server import RunningSimulator
from unit.simulator.conftest import Simulate

USER: Any = [{"role": "user", "content": "hello there"}]
PARAMETERS = {"type": "object", "properties": {"que": {"type": "string"}}}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
MESSAGE_TOOLS: Any = [{"name": "look", "input_schema": PARAMETERS}]


@pytest.fixture
async def simulator(simulate: Simulate) -> RunningSimulator:
    return await simulate(api_key="sk-sim", windows=[{"duration_s": 60, "unit": "requests", "limit": 100}])


@pytest.fixture
async def chat(simulator: RunningSimulator) -> AsyncIterator[openai.AsyncOpenAI]:
    base_url = simulator.base_url("p") + "/v1"
    quick = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(
        base_url=base_url, api_key="sk-sim", max_retries=0, http_client=quick
    ) as client:
        yield client


@pytest.fixture
async def messages(simulator: RunningSimulator) -> AsyncIterator[anthropic.AsyncAnthropic]:
    base_url = simulator.base_url("p")
    quick = anthropic.DefaultAsyncHttpxClient(verify=False)
    async with anthropic.AsyncAnthropic(
        base_url=base_url, api_key="sk-sim", max_retries=0, http_client=quick
    ) as client:
        yield client


def steer(output: int, attempt: str = "a", **more: str) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {"x-sim-output-tokens": str(output), "x-tidegate-attempt-id": attempt, **named}


def billed(simulator: RunningSimulator) -> Any:
    return simulator.engines["p"].log.lines[-1].tokens


async def test_openai_reads_a_whole_answer(chat: openai.AsyncOpenAI, simulator: RunningSimulator) -> None:
    answer = await chat.chat.completions.create(model="m", messages=USER, extra_headers=steer(12))
    assert answer.choices[0].finish_reason == "stop"
    assert len((answer.choices[0].message.content or "").encode()) == 48
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == billed(simulator).prompt == 3
    assert answer.usage.completion_tokens == billed(simulator).output == 12


async def test_openai_reads_a_stream_with_its_usage(
    chat: openai.AsyncOpenAI, simulator: RunningSimulator
) -> None:
    text, usage = "", None
    stream = await chat.chat.completions.create(
        model="m",
        messages=USER,
        stream=True,
        stream_options={"include_usage": True},
        extra_headers=steer(12),
    )
    async for chunk in stream:
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    assert len(text.encode()) == 48
    assert usage is not None
    assert usage.completion_tokens == billed(simulator).output == 12


async def test_openai_sees_no_usage_in_a_stream_it_did_not_ask_it_for(chat: openai.AsyncOpenAI) -> None:
    stream = await chat.chat.completions.create(model="m", messages=USER, stream=True, extra_headers=steer(3))
    assert [chunk.usage async for chunk in stream] == [None] * 5


@pytest.mark.parametrize("stream", [True, False])
async def test_openai_reads_a_tool_call(chat: openai.AsyncOpenAI, stream: bool) -> None:
    headers = steer(12, x_sim_tool="look")
    arguments, name, finish = "", "", None
    if stream:
        async with chat.chat.completions.stream(
            model="m", messages=USER, tools=CHAT_TOOLS, extra_headers=headers
        ) as events:
            answer = await events.get_final_completion()
    else:
        answer = await chat.chat.completions.create(
            model="m", messages=USER, tools=CHAT_TOOLS, extra_headers=headers
        )
    calls = list(answer.choices[0].message.tool_calls or ())
    assert len(calls) == 1
    call = calls[0]
    assert call.type == "function"
    arguments, name, finish = call.function.arguments, call.function.name, answer.choices[0].finish_reason
    assert (name, finish, len(arguments.encode())) == ("look", "tool_calls", 48)


async def test_anthropic_reads_a_whole_answer(
    messages: anthropic.AsyncAnthropic, simulator: RunningSimulator
) -> None:
    answer = await messages.messages.create(model="m", messages=USER, max_tokens=10, extra_headers=steer(12))
    assert answer.stop_reason == "max_tokens"
    (block,) = answer.content
    assert block.type == "text"
    assert len(block.text.encode()) == 40
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 10)
    assert billed(simulator).output == 10


async def test_anthropic_reads_a_stream_with_thinking_a_tool_and_its_usage(
    messages: anthropic.AsyncAnthropic, simulate: Simulate
) -> None:
    visible = await simulate(
        models=[{"name": "m", "input_uncached": 1, "output": 1, "reasoning_visible": True}]
    )
    headers = steer(20, x_sim_tool="look", x_sim_reasoning_tokens="8")
    client = messages.with_options(base_url=visible.base_url("p"))
    async with client.messages.stream(
        model="m", messages=USER, max_tokens=100, tools=MESSAGE_TOOLS, extra_headers=headers
    ) as stream:
        final = await stream.get_final_message()
    thinking, tool = final.content
    assert (thinking.type, tool.type) == ("thinking", "tool_use")
    assert thinking.type == "thinking"
    assert len(thinking.thinking.encode()) == 32
    assert tool.type == "tool_use"
    assert "que" in tool.input
    assert (final.stop_reason, final.usage.output_tokens) == ("tool_use", 20)
    assert (billed(visible).output, billed(visible).reasoning) == (20, 8)


async def test_anthropic_sees_its_cache_classes(
    messages: anthropic.AsyncAnthropic, simulate: Simulate
) -> None:
    cached = await simulate(cache={"min_block_tokens": 8, "block_tokens": 8})
    client = messages.with_options(base_url=cached.base_url("p"))
    system: Any = [{"type": "text", "text": "s" * 64, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    usages = [
        (await client.messages.create(model="m", system=system, messages=USER, max_tokens=5)).usage
        for _ in range(2)
    ]
    assert [usage.cache_creation_input_tokens for usage in usages] == [16, 0]
    assert [usage.cache_read_input_tokens for usage in usages] == [0, 16]
    assert usages[0].cache_creation is not None
    assert usages[0].cache_creation.ephemeral_1h_input_tokens == 16
    assert billed(cached).cache_read == 16


async def test_anthropic_counts_tokens_as_they_are_billed(messages: anthropic.AsyncAnthropic) -> None:
    assert (await messages.messages.count_tokens(model="m", messages=USER)).input_tokens == 3


async def test_both_list_models(chat: openai.AsyncOpenAI, messages: anthropic.AsyncAnthropic) -> None:
    assert [model.id async for model in chat.models.list()] == ["m"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("401", openai.AuthenticationError),
        ("404", openai.NotFoundError),
        ("422", openai.UnprocessableEntityError),
        ("429;code=insufficient_quota", openai.RateLimitError),
        ("500", openai.InternalServerError),
        ("529", openai.InternalServerError),
        ("rst;byte=0", openai.APIConnectionError),
        ("close_no_bytes", openai.APIConnectionError),
    ],
)
async def test_openai_raises_its_own_errors(
    chat: openai.AsyncOpenAI, fault: str, error: type[openai.APIError]
) -> None:
    with pytest.raises(error) as caught:
        await chat.chat.completions.create(
            model="m", messages=USER, extra_headers=steer(3, x_sim_fault=fault)
        )
    if "insufficient" in fault:
        assert caught.value.code == "insufficient_quota"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("400", "invalid_request_error"), ("429", "rate_limit_error"), ("529", "overloaded_error")],
)
async def test_anthropic_raises_its_own_errors(
    messages: anthropic.AsyncAnthropic, fault: str, kind: str
) -> None:
    with pytest.raises(anthropic.APIStatusError) as caught:
        await messages.messages.create(
            model="m", messages=USER, max_tokens=5, extra_headers=steer(3, x_sim_fault=fault)
        )
    assert caught.value.status_code == int(fault)
    assert caught.value.body["error"]["type"] == kind  # type: ignore[index]


async def test_anthropic_raises_on_an_error_inside_a_stream(messages: anthropic.AsyncAnthropic) -> None:
    stream = await messages.messages.create(
        model="m",
        messages=USER,
        max_tokens=50,
        stream=True,
        extra_headers=steer(20, x_sim_fault="error_200;after_tokens=3"),
    )
    with pytest.raises(anthropic.APIStatusError):
        async for _ in stream:
            pass


async def test_rate_limit_headers_reach_the_client(
    chat: openai.AsyncOpenAI, messages: anthropic.AsyncAnthropic
) -> None:
    answer = await chat.chat.completions.with_raw_response.create(model="m", messages=USER)
    assert answer.headers["x-ratelimit-limit-requests"] == "100"
    assert answer.headers["x-ratelimit-remaining-requests"] == "99"
    other = await messages.messages.with_raw_response.create(model="m", messages=USER, max_tokens=5)
    assert other.headers["anthropic-ratelimit-requests-remaining"] == "98"
    assert other.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
