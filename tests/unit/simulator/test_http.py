"""The HTTP server on raw sockets: framing, reuse, limits, byte-exact ends, and clients that leave."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import orjson
import pytest

from tidegate.simulator import connection
from tidegate.simulator.server import RunningSimulator
from unit.simulator.conftest import Simulate
from unit.simulator.rig import ANTHROPIC_HEADERS, chat, message


def raw(body: dict[str, Any], *extra: str, path: str = "/v1/chat/completions") -> bytes:
    data = orjson.dumps(body)
    lines = [f"POST {path} HTTP/1.1", "host: sim", f"content-length: {len(data)}", *extra, "", ""]
    return "\r\n".join(lines).encode() + data


Dial = Callable[[RunningSimulator], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connect to a simulator; what the test leaves open is closed."""
    writers: list[asyncio.StreamWriter] = []

    async def connect(simulator: RunningSimulator) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", simulator.ports["p"])
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of one answer with a content length."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head, await reader.readexactly(size)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another task brings about."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_one_connection_carries_many_requests(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    for _ in range(3):
        writer.write(raw(chat()))
        head, body = await read_answer(reader)
        assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
        assert orjson.loads(body)["object"] == "chat.completion"


async def test_pipelined_requests_are_answered_in_order(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    writer.write(b"".join(raw(chat(), f"x-sim-output-tokens: {size}") for size in (1, 2, 3)))
    bodies = [orjson.loads((await read_answer(reader))[1]) for _ in range(3)]
    assert [body["usage"]["completion_tokens"] for body in bodies] == [1, 2, 3]


async def test_a_request_may_come_byte_by_byte_in_chunks_and_wait_for_100(
    dial: Dial, simulate: Simulate
) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    data = orjson.dumps(chat())
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\ntransfer-encoding: chunked\r\n"
        b"expect: 100-continue\r\n\r\n"
    )
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    for place in range(len(data)):
        writer.write(b"1\r\n" + data[place : place + 1] + b"\r\n")
    writer.write(b"0\r\n\r\n")
    assert (await read_answer(reader))[0].startswith(b"HTTP/1.1 200")


async def test_a_client_that_asks_to_close_is_closed_after_the_answer(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    writer.write(raw(chat(), "connection: close"))
    head, _ = await read_answer(reader)
    assert b"connection: close" in head
    assert await reader.read() == b""


async def test_an_idle_connection_is_closed_after_its_keep_alive(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate(keep_alive_s=0.05)
    reader, writer = await dial(simulator)
    writer.write(raw(chat()))
    await read_answer(reader)
    async with asyncio.timeout(5):
        assert await reader.read() == b""


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 9\r\n\r\n" + b"x" * 9, b"413"),
    ],
)
async def test_what_cannot_be_read_is_refused_and_closed(
    dial: Dial, simulate: Simulate, monkeypatch: pytest.MonkeyPatch, data: bytes, status: bytes
) -> None:
    monkeypatch.setattr(connection, "MAX_BODY_BYTES", 8)
    simulator = await simulate()
    reader, writer = await dial(simulator)
    writer.write(data)
    assert (await reader.read()).startswith(b"HTTP/1.1 " + status)


async def read_until_reset(sock: socket.socket) -> bytes:
    """Everything before a reset. Fails when the end is a FIN."""
    received = b""
    while True:
        try:
            data = await asyncio.get_running_loop().sock_recv(sock, 65536)
        except ConnectionResetError:
            return received
        assert data, "the end was a FIN"
        received += data


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reset_delivers_exactly_the_bytes_before_it(simulate: Simulate, stream: bool) -> None:
    simulator = await simulate()
    loop = asyncio.get_running_loop()
    for at in (0, 1, 50, 300, 333):
        with socket.create_connection(("127.0.0.1", simulator.ports["p"])) as sock:
            sock.setblocking(False)
            await loop.sock_sendall(sock, raw(chat(stream=stream), f"x-sim-fault: rst;byte={at}"))
            assert len(await read_until_reset(sock)) == at


async def test_a_cut_ends_with_fin_in_the_middle_of_the_chunks(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    writer.write(raw(chat(stream=True), "x-sim-fault: cut"))
    data = await reader.read()
    assert data.startswith(b"HTTP/1.1 200")
    assert not data.endswith(b"0\r\n\r\n")


async def test_garbage_is_not_http(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    writer.write(raw(chat(), "x-sim-fault: garbage;bytes=77"))
    data = await reader.read()
    assert len(data) == 77
    assert not data.startswith(b"HTTP/")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_closes_ends_its_request_and_its_bill(
    dial: Dial, simulate: Simulate, stream: bool
) -> None:
    simulator = await simulate(latency={"ttft_ms": 3_600_000})
    _, writer = await dial(simulator)
    writer.write(raw(chat(stream=stream)))
    log = simulator.engines["p"].log
    await until(lambda: bool(log.lines))
    writer.close()
    await until(lambda: log.lines[0].outcome is not None)
    assert (log.lines[0].outcome, log.lines[0].tokens.prompt, log.lines[0].tokens.output) == (
        "cancelled",
        3,
        0,
    )
    assert simulator.engines["p"].reception.account.in_flight == 0


async def test_a_client_that_does_not_read_holds_the_stream_back(simulate: Simulate) -> None:
    simulator = await simulate(models=[{"name": "m", "input_uncached": 1, "output": 1}])
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, ("127.0.0.1", simulator.ports["p"]))
    await loop.sock_sendall(sock, raw(chat(stream=True), "x-sim-output-tokens: 50000"))
    (line,) = await lines_of(simulator, 1)
    (held,) = simulator._stations["p"].hub.connections
    await until(lambda: not held._writable.is_set())
    assert line.outcome is None
    sock.close()
    await until(lambda: line.outcome is not None)
    assert line.outcome == "cancelled"
    assert 0 < line.tokens.output < 50_000


async def lines_of(simulator: RunningSimulator, count: int) -> list[Any]:
    log = simulator.engines["p"].log
    await until(lambda: len(log.lines) == count)
    return log.lines


async def test_stopping_ends_open_requests_and_settles_them(dial: Dial, simulate: Simulate) -> None:
    simulator = await simulate()
    reader, writer = await dial(simulator)
    writer.write(raw(chat(), "x-sim-fault: header_stall"))
    (line,) = await lines_of(simulator, 1)
    await simulator.stop()
    assert line.outcome == "cancelled"
    with pytest.raises(ConnectionResetError):
        await reader.read()


async def test_an_error_in_the_simulator_itself_is_raised_when_it_stops(
    simulate: Simulate, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = await simulate()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(simulator.engines["p"].reception, "receive", broken)
    with pytest.raises(httpx.RemoteProtocolError):
        await http.post(simulator.base_url("p") + "/v1/chat/completions", json=chat())
    with pytest.raises(ExceptionGroup, match="simulator failed"):
        await simulator.stop()
    simulator._stations["p"].hub.failures.clear()


async def test_a_stream_arrives_event_by_event_in_both_dialects(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    simulator = await simulate()
    base = simulator.base_url("p")
    first = await http.post(base + "/v1/chat/completions", json=chat(stream=True))
    assert first.headers["content-type"].startswith("text/event-stream")
    assert first.text.endswith("data: [DONE]\n\n")
    second = await http.post(base + "/v1/messages", json=message(stream=True), headers=ANTHROPIC_HEADERS)
    assert second.text.startswith("event: message_start\n")
    assert "event: message_stop\n" in second.text


async def test_compressed_answers_are_sent_even_to_clients_that_asked_for_identity(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    simulator = await simulate()
    headers = {"x-sim-fault": "compressed", "accept-encoding": "identity"}
    answer = await http.post(simulator.base_url("p") + "/v1/chat/completions", json=chat(), headers=headers)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["object"] == "chat.completion"
