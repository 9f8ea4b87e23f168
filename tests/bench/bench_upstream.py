"""Prints the CPU cost of one small request through `Upstream`, beside a bare loop that does only the sockets.

Server, client and floor share one process and one loop; the difference of the two rows is our own share.
Run: python tests/bench/bench_upstream.py [requests]
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import httpx
import uvloop

from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.upstream import Upstream

BODY = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 900 + b'"}]}'
ANSWER_BODY = b"y" * 496
ANSWER = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2029 00:00:00 GMT\r\ncontent-type: application/json\r\n"
    b"x-request-id: req_0123456789\r\nx-ratelimit-remaining-requests: 99\r\nconnection: keep-alive\r\n"
    b"content-length: 496\r\n\r\n" + ANSWER_BODY
)
HEADERS = [
    (b"authorization", b"Bearer sk-0123456789abcdef"),
    (b"content-type", b"application/json"),
    (b"accept-encoding", b"identity"),
]
ROUNDS = 7


class _Answerer(asyncio.Protocol):
    """Answers each request, known by its last bytes, with the fixed response."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}]}"):
            self.transport.write(ANSWER)


class _Bare(asyncio.Protocol):
    """The floor: write, wait for the whole answer, no parsing, no deadlines, no pool."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.answered: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        if self.answered is not None and data.endswith(ANSWER_BODY):
            self.answered.set_result(None)

    async def call(self, request: bytes) -> None:
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await self.answered


async def _cost_us(call: Callable[[], Awaitable[None]], requests: int) -> float:
    for _ in range(200):
        await call()
    figures: list[float] = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(requests):
            await call()
        figures.append((time.process_time() - start) / requests * 1e6)
    return statistics.median(figures)


async def _run(label: str, requests: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Answerer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    upstream = Upstream(OriginPolicy(allow_private=True))
    target = upstream.prepare(url, HEADERS)
    deadlines = Deadlines()
    attempt = b"x-tidegate-attempt-id: att_01HZZZZZZZZZZZZZZZZZZZZZZZ\r\n"
    _, bare = await loop.create_connection(_Bare, "127.0.0.1", port)
    whole = target.head.render(BODY, attempt)
    client = httpx.AsyncClient(transport=upstream)

    async def floor() -> None:
        await bare.call(whole)

    async def direct() -> None:
        exchange = await upstream.send(target, BODY, attempt, deadlines, 600.0)
        while await exchange.read():
            pass

    async def through_httpx() -> None:
        await client.post(url, content=BODY, headers={"content-type": "application/json"})

    floor_us = await _cost_us(floor, requests)
    direct_us = await _cost_us(direct, requests)
    httpx_us = await _cost_us(through_httpx, requests // 10)
    sys.stdout.write(
        f"{label:8} floor {floor_us:6.1f} µs   send {direct_us:6.1f} µs   own share {direct_us - floor_us:5.1f} µs"
        f"   AsyncClient {httpx_us:6.1f} µs\n"
    )
    bare.transport.abort()
    await client.aclose()
    server.close()


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    for label, factory in (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop)):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_run(label, requests))


if __name__ == "__main__":
    main()
