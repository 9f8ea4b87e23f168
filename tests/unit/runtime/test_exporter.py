"""Numbers over HTTP: one path, an optional token, nothing for who does not speak HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.roles import exporter
from tidegate.runtime.roles.exporter import Exporter
from tidegate.runtime.sockets import bound

TOKEN = "metrics-token"


@contextlib.asynccontextmanager
async def exporting(run_dir: Path, token: str | None) -> AsyncIterator[int]:
    numbers = asyncio.ensure_future(MetricsServer(run_dir, "gw-0", lambda: {"requests_total": 7.0}).run())
    while not (run_dir / "gw-0.metrics").exists():
        await asyncio.sleep(0)
    listening = bound("127.0.0.1", 0)
    serving = asyncio.ensure_future(Exporter(run_dir, listening, token).run())
    try:
        yield listening.getsockname()[1]
    finally:
        for task in (serving, numbers):
            task.cancel()
        await asyncio.gather(serving, numbers, return_exceptions=True)


async def get(
    port: int, method: str = "GET", path: str = "/metrics", token: str | None = None
) -> httpx.Response:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return await client.request(method, f"http://127.0.0.1:{port}{path}", headers=headers)


async def test_the_numbers_of_all_processes_of_the_machine_are_shown(tmp_path: Path) -> None:
    async with exporting(tmp_path, None) as port:
        answer = await get(port)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'tidegate_requests_total{instance="gw-0"} 7.0' in answer.text
        head = await get(port, "HEAD")
        assert (head.status_code, head.content) == (200, b"")
        assert (await get(port, path="/admin/status")).status_code == 404
        assert (await get(port, "POST")).status_code == 405


async def test_with_a_token_nothing_is_shown_without_it(tmp_path: Path) -> None:
    async with exporting(tmp_path, TOKEN) as port:
        for wrong in (None, "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper()):
            answer = await get(port, token=wrong)
            assert (answer.status_code, answer.text) == (401, "")
        assert (await get(port, token=TOKEN)).status_code == 200


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET / /metrics HTTP/1.1\r\n\r\n"]
)
async def test_what_is_no_http_is_refused(tmp_path: Path, sent: bytes) -> None:
    async with exporting(tmp_path, None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_a_head_that_never_ends_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "HEAD_DEADLINE_S", 0.05)
    async with exporting(tmp_path, None) as port:
        for sent in (b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 100_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        assert (await get(port)).status_code == 200
