"""One provider in virtual time: latency, bills, quotas, keys and limits."""

import asyncio
from typing import Any

import orjson
import pytest

from tidegate.simulator.actions import SimRequest
from unit.simulator.rig import (
    MODEL,
    Bench,
    body_of,
    chat,
    headers_of,
    last_line,
    message,
    request,
    status_of,
)

MESSAGES = "/v1/messages"


def error_of(actions: list[Any]) -> dict[str, Any]:
    return orjson.loads(body_of(actions))["error"]


def minute(unit: str, limit: int, duration_s: float = 60, kind: str = "first_request") -> dict[str, Any]:
    return {"duration_s": duration_s, "unit": unit, "limit": limit, "kind": kind}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", MESSAGES])
async def test_what_is_billed_is_what_the_answer_says(path: str, stream: bool) -> None:
    bench = Bench()
    body = message(stream=stream) if path == MESSAGES else chat(stream=stream)
    await bench.ask(body, path, x_tidegate_attempt_id="a-1", x_sim_output_tokens="12")
    line = last_line(bench)
    assert (line.outcome, line.billed, line.status, line.attempt) == ("completed", True, 200, "a-1")
    assert (line.tokens.input_uncached, line.tokens.output) == (3, 12)
    assert line.cost_nanousd == 3 * 3000 + 12 * 15_000


async def test_the_latency_model_is_kept_to_the_instant() -> None:
    bench = Bench(latency={"ttft_ms": 200, "ttft_per_1k_input_ms": 1000, "tokens_per_s": 10})
    arrived_s = bench.clock.now_s()
    await bench.ask(chat("x" * 4000), x_sim_output_tokens="11")
    assert bench.clock.now_s() - arrived_s == pytest.approx(0.2 + 1.0 + 10 / 10)


async def test_a_stream_sends_its_first_token_at_the_ttft_and_then_one_every_interval() -> None:
    bench = Bench(latency={"header_ms": 50, "ttft_ms": 200, "tokens_per_s": 10})
    started_s, moments = bench.clock.now_s(), []

    async def watch() -> None:
        async for action in bench.engine.handle(request(chat(stream=True), x_sim_output_tokens="3")):
            kind = "token" if b'"content":"' in body_of([action]) else type(action).__name__
            moments.append((kind, round(bench.clock.now_s() - started_s, 6)))

    await bench.clock.run(watch())
    assert moments[0] == ("Head", 0.05)
    # The first event with a content field is the empty role chunk.
    assert [at for kind, at in moments if kind == "token"] == [0.05, 0.2, 0.3, 0.4]
    assert moments[-1] == ("End", 0.4)


async def test_hidden_reasoning_is_silent_time_and_billed_output() -> None:
    bench = Bench(latency={"ttft_ms": 100, "tokens_per_s": 10})
    started_s = bench.clock.now_s()
    actions = await bench.ask(chat(), x_sim_output_tokens="30", x_sim_reasoning_tokens="20")
    usage = orjson.loads(body_of(actions))["usage"]
    assert usage["completion_tokens"] == 30
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 20
    assert len(orjson.loads(body_of(actions))["choices"][0]["message"]["content"].encode()) == 40
    assert bench.clock.now_s() - started_s == pytest.approx(0.1 + 2.9)
    assert (last_line(bench).tokens.output, last_line(bench).tokens.reasoning) == (30, 20)


async def test_speed_divides_every_duration() -> None:
    from tidegate.simulator.engine import Engine

    bench = Bench(latency={"ttft_ms": 1000, "tokens_per_s": 1})
    fast = Engine(bench.engine.provider, bench.clock, speed=100)
    started_s = bench.clock.now_s()

    async def drain() -> None:
        async for _ in fast.handle(request(chat(), x_sim_output_tokens="5")):
            pass

    await bench.clock.run(drain())
    assert bench.clock.now_s() - started_s == pytest.approx(0.05)


async def leave_after(bench: Bench, asked: SimRequest, after_s: float) -> None:
    async def drain() -> None:
        async for _ in bench.engine.handle(asked):
            pass

    task = asyncio.ensure_future(drain())
    await bench.clock.advance(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("after_s", "output"), [(0.5, 0), (1.05, 1), (1.55, 6), (2.85, 19)])
async def test_a_client_that_leaves_pays_the_input_and_the_output_so_far(
    stream: bool, after_s: float, output: int
) -> None:
    bench = Bench(latency={"ttft_ms": 1000, "tokens_per_s": 10})
    await leave_after(bench, request(chat(stream=stream), x_sim_output_tokens="20"), after_s)
    line = last_line(bench)
    assert (line.outcome, line.billed) == ("cancelled", True)
    assert (line.tokens.prompt, line.tokens.output) == (3, output)
    assert line.cost_nanousd == 3 * 3000 + output * 15_000


async def test_a_client_that_leaves_while_the_provider_reads_pays_nothing() -> None:
    bench = Bench()
    await leave_after(bench, request(chat(), x_sim_fault="header_stall"), 5)
    assert (last_line(bench).outcome, last_line(bench).billed) == ("cancelled", False)


async def test_a_repeated_attempt_id_gets_a_second_line() -> None:
    bench = Bench()
    for _ in range(2):
        await bench.ask(chat(), x_tidegate_attempt_id="same")
    assert [line.ordinal for line in bench.engine.log.of_attempt("same")] == [1, 2]


async def test_an_exhausted_request_window_answers_429_and_opens_at_its_reset() -> None:
    bench = Bench(windows=[minute("requests", 2)])
    assert headers_of(await bench.ask(chat()))["x-ratelimit-remaining-requests"] == "1"
    await bench.ask(chat())
    await bench.clock.advance(10.5)
    refused = await bench.ask(chat())
    assert status_of(refused) == 429
    assert error_of(refused)["code"] == "rate_limit_exceeded"
    assert error_of(refused)["type"] == "requests"
    assert headers_of(refused)["retry-after"] == "50"
    assert headers_of(refused)["x-ratelimit-reset-requests"] == "49.5s"
    assert (last_line(bench).outcome, last_line(bench).billed) == ("refused", False)
    await bench.clock.advance(49.5)
    assert status_of(await bench.ask(chat())) == 200


async def test_a_long_window_names_its_limit_and_its_reset_in_anthropics_shape() -> None:
    bench = Bench(windows=[minute("requests", 1, 18_000)])
    first = headers_of(await bench.ask(message(), MESSAGES))
    assert first["anthropic-ratelimit-unified-5h-utilization"] == "1.0000"
    assert first["anthropic-ratelimit-unified-5h-reset"] == str(1_800_018_000)
    refused = await bench.ask(message(), MESSAGES)
    assert error_of(refused)["type"] == "rate_limit_error"
    assert "5-hour limit of 1 requests" in error_of(refused)["message"]
    assert "2027-01-15T13:00:00Z" in error_of(refused)["message"]


async def test_a_token_window_is_used_by_what_was_billed_times_the_models_weight() -> None:
    bench = Bench(windows=[minute("tokens", 1000)], models=[{**MODEL, "quota_weight": 3}])
    actions = await bench.ask(chat(), x_sim_output_tokens="17")
    assert headers_of(actions)["x-ratelimit-remaining-tokens"] == "997"
    (state,) = bench.engine.reception.account.states(bench.clock.now_s())
    assert state.used == 3 * (3 + 17)


async def test_a_refused_request_uses_no_quota() -> None:
    bench = Bench(windows=[minute("requests", 5), minute("tokens", 500)])
    await bench.ask(chat(), x_sim_fault="500")
    await bench.ask({**chat(), "model": "unknown"})
    assert [state.used for state in bench.engine.reception.account.states(bench.clock.now_s())] == [0, 0]


async def test_a_prepaid_balance_is_drawn_down_and_then_answers_402() -> None:
    bench = Bench(billing="prepaid", balance_nanousd=200_000)
    await bench.ask(chat(), x_sim_output_tokens="14")
    assert bench.engine.reception.account.balance_nanousd == 200_000 - 9000 - 210_000
    refused = await bench.ask(chat())
    assert status_of(refused) == 402
    assert error_of(refused)["code"] == "insufficient_balance"
    assert error_of(await bench.ask(message(), MESSAGES))["type"] == "billing_error"


async def test_a_flat_plan_bills_tokens_at_no_cost() -> None:
    bench = Bench(billing="flat", models=[{"name": "m"}], fee_nanousd=5)
    await bench.ask(chat())
    assert last_line(bench).billed
    assert last_line(bench).cost_nanousd == 0


async def test_one_more_than_the_concurrency_limit_is_refused_and_a_finished_one_frees_its_place() -> None:
    bench = Bench(concurrency_limit=1, latency={"ttft_ms": 1000})
    both = await bench.clock.run(
        asyncio.gather(bench.collect(request(chat())), bench.collect(request(chat())))
    )
    assert [status_of(actions) for actions in both] == [200, 429]
    assert status_of(await bench.ask(chat())) == 200
    assert bench.engine.reception.account.in_flight == 0


@pytest.mark.parametrize("header", [{"authorization": "Bearer k"}, {"x_api_key": "k"}])
async def test_the_key_is_taken_from_either_vendors_header(header: dict[str, str]) -> None:
    bench = Bench(api_key="k")
    assert status_of(await bench.ask(chat(), **header)) == 200
    refused = await bench.ask(chat(), authorization="Bearer wrong")
    assert status_of(refused) == 401
    assert error_of(refused)["code"] == "invalid_api_key"
    assert "'k'" not in repr(bench.engine.provider)


async def test_unknown_models_and_dialects_are_404() -> None:
    bench = Bench(dialects=["openai"])
    assert error_of(await bench.ask({**chat(), "model": "x"}))["code"] == "model_not_found"
    assert status_of(await bench.ask(message(), MESSAGES)) == 404


async def test_a_message_without_a_version_header_is_refused() -> None:
    bench = Bench()
    asked = request(message(), MESSAGES)._replace(headers=[])
    actions = await bench.clock.run(bench.collect(asked))
    assert status_of(actions) == 400
    assert "anthropic-version" in error_of(actions)["message"]


async def test_a_prompt_or_an_answer_too_long_for_the_model_is_refused() -> None:
    bench = Bench(models=[{**MODEL, "context_window": 10, "max_output_tokens": 20}])
    assert error_of(await bench.ask(chat("x" * 41)))["code"] == "context_length_exceeded"
    assert error_of(await bench.ask(chat(max_tokens=21)))["param"] == "max_tokens"


async def test_an_answer_that_hits_the_cap_says_so() -> None:
    bench = Bench()
    capped = orjson.loads(body_of(await bench.ask(chat(max_tokens=5), x_sim_output_tokens="9")))
    assert capped["choices"][0]["finish_reason"] == "length"
    assert capped["usage"]["completion_tokens"] == 5


async def test_a_tool_that_was_not_offered_is_refused_and_one_too_long_for_the_cap_becomes_text() -> None:
    bench = Bench()
    assert status_of(await bench.ask(chat(), x_sim_tool="look")) == 400
    tools = [{"type": "function", "function": {"name": "look"}}]
    short = orjson.loads(body_of(await bench.ask(chat(tools=tools, max_tokens=2), x_sim_tool="look")))
    assert short["choices"][0]["finish_reason"] == "length"


async def test_the_answer_repeats_the_attempt_id() -> None:
    bench = Bench()
    assert headers_of(await bench.ask(chat(), x_tidegate_attempt_id="a-9"))["x-tidegate-attempt-id"] == "a-9"


async def test_the_cache_is_written_by_a_request_that_produced_and_read_by_the_next() -> None:
    bench = Bench(cache={"min_block_tokens": 4, "block_tokens": 4, "ttl_s": 60})
    long = chat("y" * 64)
    await bench.ask(long, x_sim_fault="500")
    await bench.ask(long)
    assert last_line(bench).tokens.cache_read == 0
    await bench.ask(long)
    assert (last_line(bench).tokens.cache_read, last_line(bench).tokens.input_uncached) == (16, 0)
    await bench.clock.advance(61)
    await bench.ask(long)
    assert last_line(bench).tokens.cache_read == 0


async def test_cached_input_costs_no_time_before_the_first_token() -> None:
    bench = Bench(
        cache={"min_block_tokens": 4, "block_tokens": 4}, latency={"ttft_per_1k_input_ms": 1_000_000}
    )
    started_s = bench.clock.now_s()
    await bench.ask(chat("y" * 64))
    first_s = bench.clock.now_s()
    await bench.ask(chat("y" * 64))
    assert (first_s - started_s, bench.clock.now_s() - first_s) == (pytest.approx(16), 0)


async def test_equal_seeds_make_equal_logs_and_other_seeds_do_not() -> None:
    async def run(seed: int) -> list[Any]:
        bench = Bench(
            seed=seed,
            latency={"ttft_ms": 300, "tokens_per_s": 50, "jitter": 0.5},
            faults=[{"kind": "cut", "probability": 0.3}],
        )
        for number in range(30):
            await bench.ask(chat(f"question {number}", stream=True), x_tidegate_attempt_id=str(number))
        return bench.engine.log.lines

    first, again, other = await run(1), await run(1), await run(2)
    assert first == again
    assert first != other
    assert {line.outcome for line in first} == {"completed", "cut"}


async def test_equal_bodies_get_equal_answers_of_a_length_within_the_models_bounds() -> None:
    bench = Bench(models=[{**MODEL, "min_answer_tokens": 5, "max_answer_tokens": 9}])
    texts = set()
    lengths = set()
    for number in range(40):
        first, second = [orjson.loads(body_of(await bench.ask(chat(f"q{number}")))) for _ in range(2)]
        assert first["choices"] == second["choices"]
        assert first["id"] != second["id"]
        texts.add(first["choices"][0]["message"]["content"])
        lengths.add(first["usage"]["completion_tokens"])
    assert len(texts) == 40
    assert lengths == {5, 6, 7, 8, 9}


async def test_a_plan_that_tells_percents_tells_nothing_else() -> None:
    told = [
        {**minute("tokens", 1_000, 600), "told": "percent"},
        {**minute("tokens", 100_000, 18_000), "told": "percent"},
    ]
    bench = Bench(windows=told)
    await bench.ask(chat())
    codex = headers_of(await bench.ask(chat()))
    assert 0 < int(codex["x-codex-primary-used-percent"]) < 100
    assert codex["x-codex-primary-window-minutes"] == "10"
    assert codex["x-codex-secondary-window-minutes"] == "300"
    assert 0 < int(codex["x-codex-secondary-reset-after-seconds"]) <= 18_000
    unified = headers_of(await bench.ask(message(), MESSAGES))
    assert float(unified["anthropic-ratelimit-unified-10m-utilization"]) > 0
    assert len(unified["anthropic-ratelimit-unified-10m-utilization"]) == 4
    assert not [name for name in {*codex, *unified} if "remaining" in name or "limit-" in name[-9:]]
