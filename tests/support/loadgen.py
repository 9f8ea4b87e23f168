"""For benches: a canned upstream, a closed-loop client and a bare relay, all on raw protocols; CPU from the kernel."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import httptools

_TICK = os.sysconf("SC_CLK_TCK")
ANSWER = (
    b'{"id":"chatcmpl-9f3b2c7e1a5d4f60","object":"chat.completion","created":1730000000,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"The capital of France is Paris. It has been the seat of government for most of'
    b' the country\'s history, and it lies on the river Seine.","refusal":null},"logprobs":null,"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":212,"completion_tokens":36,"total_tokens":248,"prompt_tokens_details":{"cached_tokens":0}}}'
)
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(ANSWER),
    ANSWER,
)
EVENTS = 20


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, all threads, user and system, from nanosecond accounting."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def rss_mib(pid: int) -> float:
    """Resident memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_parts() -> list[bytes]:
    """Head with the first event, then each event, the usage chunk and the terminal one."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = []
    for n in range(EVENTS):
        role = b'"role":"assistant",' if n == 0 else b""
        finish = b'"stop"' if n == EVENTS - 1 else b"null"
        parts.append(
            _chunk(
                b'data: {"id":"chatcmpl-9f3b2c7e1a5d4f60","object":"chat.completion.chunk","created":1730000000,'
                b'"model":"m","choices":[{"index":0,"delta":{%b"content":" token%02d"},"finish_reason":%b}]}\n\n'
                % (role, n, finish)
            )
        )
    usage = b'data: {"id":"chatcmpl-9f3b2c7e1a5d4f60","object":"chat.completion.chunk","created":1730000000,"model":"m","choices":[],"usage":{"prompt_tokens":212,"completion_tokens":20,"total_tokens":232}}\n\n'
    parts.append(_chunk(usage))
    parts.append(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    parts[0] = head + parts[0]
    return parts


class UpstreamProtocol(asyncio.Protocol):
    """Answers every request from memory; a streamed one event by event with a pause between."""

    gap_s = 0.01
    _parts = stream_parts()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.stream = False

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if b'"stream":true' in body:
            self.stream = True

    def on_message_complete(self) -> None:
        if not self.stream:
            self.transport.write(PLAIN)  # type: ignore[attr-defined]
            return
        self.stream = False
        self._next(0)

    def _next(self, at: int) -> None:
        self.transport.write(self._parts[at])  # type: ignore[attr-defined]
        if at + 1 < len(self._parts):
            asyncio.get_running_loop().call_later(self.gap_s, self._next, at + 1)


class RelayProtocol(asyncio.Protocol):
    """The floor: parse a request, forward it on a kept connection, forward the answer. Nothing else."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self.peer: _RelayBack | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        raw, self.parts = b"".join(self.parts), []
        if self.peer is not None:
            self.peer.transport.write(raw)  # type: ignore[attr-defined]
        else:
            self.dialing = asyncio.ensure_future(self._dial(raw))

    async def _dial(self, raw: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, self.peer = await loop.create_connection(lambda: _RelayBack(self), *self._upstream)
        self.peer.transport.write(raw)  # type: ignore[attr-defined]


class _RelayBack(asyncio.Protocol):
    def __init__(self, front: RelayProtocol) -> None:
        self._front = front

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)
        self._front.transport.write(data)  # type: ignore[attr-defined]


class ClientProtocol(asyncio.Protocol):
    """One connection of a closed loop: the next request leaves when the last answer is whole."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpResponseParser(self)
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter_ns()
        self.first = 0
        self.transport.write(self._load.next_request())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if not self.first:
            self.first = time.perf_counter_ns()

    def on_message_complete(self) -> None:
        now = time.perf_counter_ns()
        self._load.note(now - self.sent, self.first - self.sent, self.parser.get_status_code())
        if self._load.going:
            self.parser = httptools.HttpResponseParser(self)
            asyncio.get_running_loop().call_soon(self.send)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost(self)


VARIED = b"0" * 32
"""In a request: what differs in each, as trace ids do."""


class Load:
    """A closed loop of `concurrency` connections; counts and latencies since `reset`."""

    def __init__(self, address: tuple[str, int], request: bytes, concurrency: int) -> None:
        self._address = address
        self._parts = request.split(VARIED)
        self._sent = 0
        self.concurrency = concurrency
        self.going = True
        self._open = concurrency
        self.done = asyncio.Event()
        self.reset()

    def next_request(self) -> bytes:
        """The request, with a number of its own where it varies."""
        self._sent += 1
        return (b"%032x" % self._sent).join(self._parts)

    def reset(self) -> None:
        self.count = self.errors = 0
        self.took_ns: list[int] = []
        self.first_ns: list[int] = []

    def note(self, took_ns: int, first_ns: int, status: int) -> None:
        self.count += 1
        self.errors += status != 200
        self.took_ns.append(took_ns)
        self.first_ns.append(first_ns)

    def lost(self, _client: ClientProtocol) -> None:
        self._open -= 1
        if self._open == 0:
            self.done.set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self.concurrency):
            await loop.create_connection(lambda: ClientProtocol(self), *self._address)

    async def stop(self) -> None:
        self.going = False
        async with asyncio.timeout(30):
            await self.done.wait()


def percentile(values: list[int], share: float) -> float:
    """A percentile of nanoseconds, in milliseconds."""
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] / 1e6 if ordered else float("nan")
