"""What requests and streams cost in memory: large bodies are held about once, a slow reader holds one read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from support.worker_process import WorkerProcess, worker_process

MIB = 1024 * 1024
PATIENCE_S = 30
SETTLE_S = 0.05
BOTH = "openai", "anthropic"
"""A route to a target of each dialect: for a chat client the second one is translated into."""
Serving = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def upstream(serving: Serving) -> AsyncGenerator[int]:
    """The port of a server; its connections are cut at the end."""
    writers: list[asyncio.StreamWriter] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serving(reader, writer)

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def settled(measure: Callable[[], float]) -> float:
    """The figure once it stands still."""
    before, same = measure(), 0
    async with asyncio.timeout(PATIENCE_S):
        while same < 8:
            await asyncio.sleep(SETTLE_S)
            now = measure()
            same = same + 1 if abs(now - before) < MIB / 4 else 0
            before = now
    return before


def body_of(route: str, size_bytes: int, *, stream: bool) -> bytes:
    content = "word " * (size_bytes // 5)
    return json.dumps(
        {
            "model": route,
            "max_tokens": 100,
            "messages": [{"role": "user", "content": content}],
            "stream": stream,
        }
    ).encode()


@pytest.mark.parametrize(("route", "stream"), [("openai", True), ("anthropic", False)])
async def test_requests_that_wait_for_their_answer_hold_little_more_than_their_bodies(
    tmp_path: Path, route: str, stream: bool
) -> None:
    # A chat client: the second dialect is one that its body has to be translated into.
    body, count, received = body_of(route, 6 * MIB, stream=stream), 6, 0
    all_are_there = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        while data := await reader.read(MIB):
            received += len(data)
            if received >= count * 6 * MIB * 0.99:
                all_are_there.set()

    async with upstream(serve) as port, worker_process(tmp_path, port, BOTH) as worker:
        before = worker.rss_bytes()
        clients = []
        for _ in range(count):
            _, writer = await asyncio.open_connection("127.0.0.1", worker.port)
            writer.write(worker.request(body))
            await writer.drain()
            clients.append(writer)
        async with asyncio.timeout(PATIENCE_S):
            await all_are_there.wait()
        grown = await settled(worker.rss_bytes) - before
        for writer in clients:
            writer.close()
    assert grown / (count * len(body)) < (2.7 if route == "anthropic" else 1.7), grown


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
)
STARTED = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","model":"m",'
    b'"role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"hi"}}\n\n'
)


async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A provider that says one word, and then nothing."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
    begun = STARTED if b"/messages" in head else CHUNK
    writer.write(b"%b%x\r\n%b\r\n" % (STREAM_HEAD, len(begun), begun))
    await asyncio.sleep(PATIENCE_S)


async def test_a_request_is_let_go_of_when_its_answer_has_begun(tmp_path: Path) -> None:
    sent, clients = 0, []
    held = f"max_held_body_bytes = {7 * MIB}"  # each request alone nearly fills it
    async with upstream(begin) as port, worker_process(tmp_path, port, BOTH, held) as worker:
        before = worker.rss_bytes()
        for route in (*BOTH, *BOTH):
            body = body_of(route, 6 * MIB, stream=True)
            sent += len(body)
            reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
            clients.append(writer)
            writer.write(worker.request(body))
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b'"hi"')).startswith(b"HTTP/1.1 200 OK")
        grown = await settled(worker.rss_bytes) - before
        for writer in clients:
            writer.close()
    assert grown / sent < 0.5, grown


def slow_client(worker: WorkerProcess, body: bytes) -> socket.socket:
    """Asks, and never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", worker.port))
    client.sendall(worker.request(body))
    return client


async def test_a_stream_whose_client_does_not_read_holds_no_more_than_half_a_mebibyte(tmp_path: Path) -> None:
    event = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
    block = (event % (b"x" * 200)) * 200
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        while True:
            writer.write(b"%x\r\n%b\r\n" % (len(block), block))
            await writer.drain()
            sent += len(block)

    count, body = 50, body_of("openai", 20, stream=True)
    async with upstream(serve) as port, worker_process(tmp_path, port) as worker:
        before = worker.rss_bytes()
        clients = [slow_client(worker, body) for _ in range(count)]
        await settled(lambda: float(sent))
        grown = await settled(worker.rss_bytes) - before
        for client in clients:
            client.close()
    assert sent > count * MIB / 4
    assert grown / count < 600 * 1024, grown / count


SHAPE_BYTES = 4 * MIB
LISTS = b"[" + b"[]," * (SHAPE_BYTES // 3) + b"1]"
OBJECTS = b"[" + b"{}," * (SHAPE_BYTES // 3) + b"{}]"
NAMES = b"{" + b",".join(b'"%x":0' % number for number in range(SHAPE_BYTES // 10)) + b"}"
CHAT = b'{"model":"openai","stream":true,"messages":[{"role":"user","content":"hi"}],%b}'
CALLED = b'{"model":"openai","messages":[{"role":"user","content":"hi","arguments":%b}]}'
SHAPES: dict[str, list[tuple[str, bytes]]] = {
    # Field or place, body. Each is answered or refused; none may be parsed into objects.
    "/v1/chat/completions": [
        *((name, CHAT % b'"%b":%b' % (name.encode(), LISTS)) for name in (
            "metadata", "prompt_cache_key", "reasoning_effort", "service_tier", "speed", "tools", "thinking",
        )),
        ("names in metadata", CHAT % b'"metadata":%b' % NAMES),
        ("user_id", CHAT % b'"metadata":{"user_id":%b}' % LISTS),
        ("stream_options", CHAT % b'"stream_options":{"include_usage":%b}' % LISTS),
        ("names in stream_options", CHAT % b'"stream_options":%b' % NAMES),
        ("messages", b'{"model":"openai","messages":%b}' % OBJECTS),
        ("content", CALLED % LISTS),
        ("translated metadata", CHAT.replace(b"openai", b"anthropic") % b'"metadata":%b' % LISTS),
        ("translated arguments", CALLED.replace(b"openai", b"anthropic") % LISTS),
        ("translated messages", b'{"model":"anthropic","messages":%b}' % OBJECTS),
    ],
    "/v1/responses": [
        *((name, b'{"model":"openai","input":"hi","%b":%b}' % (name.encode(), LISTS)) for name in (
            "metadata", "reasoning", "previous_response_id",
        )),
        ("references", b'{"model":"openai","input":[{"item_reference":1},%b]}' % OBJECTS[1:-1]),
    ],
}  # fmt: skip


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A provider that reads requests to their ends and refuses them."""
    while head := (await reader.readuntil(b"\r\n\r\n")).lower():
        left = int(head.partition(b"content-length: ")[2].split()[0])
        while left:
            left -= len(await reader.read(min(left, MIB)))
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}")


async def test_whatever_is_in_a_body_it_takes_a_small_multiple_of_its_bytes(tmp_path: Path) -> None:
    grown: dict[str, float] = {}
    async with upstream(refuse) as port, worker_process(tmp_path, port, BOTH) as worker:
        for path, shapes in SHAPES.items():
            for name, body in shapes:
                before = worker.rss_bytes()
                worker.forget_peak()
                reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
                writer.write(worker.request(body, path))
                async with asyncio.timeout(PATIENCE_S):
                    await writer.drain()
                    assert int((await reader.readline()).split()[1]) >= 400
                grown[f"{path} {name}"] = (worker.peak_bytes() - before) / len(body)
                writer.close()
    assert max(grown.values()) < 4, grown
