"""The same engines behind httpx without sockets, in virtual time."""

from typing import Any

import httpx
import pytest

from tidegate.simulator.clock import VirtualClock
from tidegate.simulator.engine import Engine
from tidegate.simulator.inprocess import InProcessTransport
from tidegate.simulator.loading import load
from unit.simulator.rig import chat, provider

CHAT = "http://p/v1/chat/completions"


class World:
    def __init__(self, **overrides: Any) -> None:
        self.clock = VirtualClock()
        self.engine = Engine(load({"providers": [provider(**overrides)]}).providers[0], self.clock)
        self.client = httpx.AsyncClient(transport=InProcessTransport({"p": self.engine}, self.clock))

    async def post(self, fault: str | None = None, **fields: Any) -> httpx.Response:
        headers = {} if fault is None else {"x-sim-fault": fault}
        return await self.clock.run(self.client.post(CHAT, json=chat(**fields), headers=headers))


async def test_an_hour_of_latency_takes_no_time_and_bills_as_ever() -> None:
    world = World(latency={"ttft_ms": 3_600_000, "tokens_per_s": 0.01})
    started_s = world.clock.now_s()
    answer = await world.post(stream=True)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert world.clock.now_s() - started_s > 3600
    assert world.engine.log.lines[0].outcome == "completed"


async def test_two_runs_in_virtual_time_have_equal_logs_to_the_instant() -> None:
    logs = []
    for _ in range(2):
        world = World(latency={"ttft_ms": 250, "tokens_per_s": 40, "jitter": 0.4})
        for number in range(10):
            await world.post(stream=number % 2 == 0)
        logs.append(world.engine.log.lines)
    assert logs[0] == logs[1]
    assert len({line.settled_s for line in logs[0]}) == 10


async def test_a_window_opens_after_five_virtual_hours() -> None:
    world = World(windows=[{"duration_s": 18_000, "unit": "requests", "limit": 1, "kind": "first_request"}])
    assert (await world.post()).status_code == 200
    refused = await world.post()
    assert refused.status_code == 429
    await world.clock.advance(float(refused.headers["retry-after"]))
    assert (await world.post()).status_code == 200


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("rst", httpx.ReadError),
        ("rst;byte=0", httpx.ReadError),
        ("rst;byte=9", httpx.RemoteProtocolError),
        ("cut", httpx.RemoteProtocolError),
        ("close_no_bytes", httpx.RemoteProtocolError),
        ("garbage", httpx.RemoteProtocolError),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_broken_connections_are_httpx_errors(
    fault: str, error: type[httpx.TransportError], stream: bool
) -> None:
    world = World()
    with pytest.raises(error):
        await world.post(fault, stream=stream)
    assert world.engine.log.lines[0].outcome in ("cut", "failed")


async def test_closing_a_stream_early_is_a_client_that_leaves() -> None:
    world = World(latency={"ttft_ms": 1000, "tokens_per_s": 1})

    async def read_two_tokens() -> None:
        async with world.client.stream("POST", CHAT, json=chat(stream=True)) as answer:
            seen = 0
            async for line in answer.aiter_lines():
                seen += '"content":"' in line and '"content":""' not in line
                if seen == 2:
                    return

    await world.clock.run(read_two_tokens())
    line = world.engine.log.lines[0]
    assert (line.outcome, line.tokens.output) == ("cancelled", 2)


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("refuse", httpx.ConnectError),
        ("connect_stall", httpx.ConnectTimeout),
        ("accept_stall", httpx.ReadTimeout),
    ],
)
async def test_modes_of_the_port_are_httpx_errors_after_the_clients_own_deadline(
    mode: str, error: type[httpx.TransportError]
) -> None:
    world = World(mode=mode)
    started_s = world.clock.now_s()
    with pytest.raises(error):
        await world.post()
    assert world.clock.now_s() - started_s == (0 if mode == "refuse" else 5)
    with pytest.raises(httpx.ConnectError):
        await world.client.get("http://nobody/")
