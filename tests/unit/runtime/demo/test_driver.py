"""The driver against a simulated provider itself: outcomes, pace, one after another within a strand."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tidegate.runtime.demo.config import ROUTE
from tidegate.runtime.demo.driver import Driver, Tally
from tidegate.runtime.demo.providers import MAX_CONCURRENCY
from tidegate.runtime.demo.workload import Span, TimedRequest, Workload, generate, in_order
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

KEYS = {"acme": "sk-acme-key", "globex": "sk-globex-key"}


@contextlib.asynccontextmanager
async def provider(
    faults: list[dict[str, Any]] | None = None, **changes: Any
) -> AsyncIterator[RunningSimulator]:
    model = {"name": ROUTE, "input_uncached": 1, "output": 1}
    simulator = await start(
        load({"providers": [{"id": "p", "models": [model], "faults": faults or [], **changes}]})
    )
    try:
        yield simulator
    finally:
        await simulator.stop()


def asked(session: str = "s", at_s: float = 0.0, **changes: Any) -> TimedRequest:
    plain = TimedRequest(
        session=session, strand=0, tenant="acme", at_s=at_s, spans=(Span(session, 0, 2),), block_tokens=64,
        input_tokens=150, output_tokens=7,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def workload(*requests: TimedRequest) -> Workload:
    return Workload(origin="test", requests=in_order(requests), sessions=1)


async def drive(simulator: RunningSimulator, work: Workload, speed: float = 1e6) -> tuple[Tally, list[int]]:
    seen: list[int] = []
    driver = Driver(f"{simulator.base_url('p')}/v1", KEYS, speed, lambda tally: seen.append(tally.requests))
    return await driver.run(work), seen


async def test_the_provider_gets_the_traced_tokens_and_gives_the_traced_answer() -> None:
    work = generate(4, 1)
    async with provider() as simulator:
        tally, seen = await drive(simulator, work)
        lines = simulator.engines["p"].log.lines
    assert tally.succeeded == tally.requests == len(work.requests)
    assert seen == list(range(1, len(work.requests) + 1))
    assert sorted((line.tokens.prompt, line.tokens.output) for line in lines) == sorted(
        (request.input_tokens, request.output_tokens) for request in work.requests
    )
    assert {line.stream for line in lines} == {True, False}
    assert all("x-tidegate-session" in line.header_names for line in lines)
    assert tally.took_s > 0


async def test_a_refusal_is_told_from_a_failure_and_both_by_their_codes() -> None:
    faults = [
        {"kind": "503", "every_n": 4, "params": {"code": "nothing_admitted"}},
        {"kind": "503", "every_n": 3, "params": {"code": "upstream_unavailable"}},
    ]
    async with provider(faults) as simulator:
        tally, _ = await drive(simulator, workload(*(asked(at_s=float(n)) for n in range(9))))
    assert (tally.succeeded, tally.refused, tally.failed) == (4, 2, 3)
    assert tally.reasons == {"nothing_admitted": 2, "upstream_unavailable": 3}


async def test_a_stream_that_breaks_off_or_ends_in_an_error_has_failed() -> None:
    for fault in ({"kind": "cut"}, {"kind": "error_200", "params": {"after_tokens": "2", "code": "broken"}}):
        async with provider([fault]) as simulator:
            tally, _ = await drive(simulator, workload(asked(output_tokens=40)))
        assert (tally.succeeded, tally.failed) == (0, 1), fault


async def test_a_strand_waits_for_each_answer_and_strands_run_side_by_side() -> None:
    slow = {"latency": {"ttft_ms": 30}, "tokens_per_event": 8}
    work = workload(*(asked(f"s{n % 3}", float(n)) for n in range(9)))
    async with provider(**slow) as simulator:
        await drive(simulator, work)
        lines = simulator.engines["p"].log.lines
    assert all(line.settled_s is not None for line in lines)
    spans = sorted((line.arrived_s, line.settled_s or 0.0) for line in lines)
    at_once = [sum(begun <= at < ended for begun, ended in spans) for at, _ in spans]
    assert max(at_once) == 3


async def test_no_more_requests_are_in_flight_than_the_providers_faults_reckon_with() -> None:
    slow = {"latency": {"ttft_ms": 20}, "tokens_per_event": 8}
    work = workload(*(asked(f"s{n}", 0.0) for n in range(4 * MAX_CONCURRENCY)))
    async with provider(**slow) as simulator:
        await drive(simulator, work)
        spans = [(line.arrived_s, line.settled_s or 0.0) for line in simulator.engines["p"].log.lines]
    assert max(sum(begun <= at < ended for begun, ended in spans) for at, _ in spans) <= MAX_CONCURRENCY


async def test_pauses_are_divided_by_the_speed() -> None:
    async with provider() as simulator:
        tally, _ = await drive(simulator, workload(asked(at_s=0.0), asked(at_s=30.0)), speed=200.0)
    # The clock of the workload starts with the drive; when the first request arrives is the machine's affair.
    assert tally.took_s >= 30.0 / 200.0
