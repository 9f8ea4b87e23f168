"""Numbers of running processes: who does not answer well is left out, and nothing is left open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tidegate.runtime.metrics import MetricsServer, collect


async def test_a_process_that_dies_while_it_answers_is_left_out_and_its_connection_closed(
    tmp_path: Path,
) -> None:
    closed = asyncio.Event()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"events_')
        writer.write_eof()
        await reader.read()  # returns once the other side has closed
        closed.set()
        writer.close()

    async with await asyncio.start_unix_server(half, path=str(tmp_path / "dying.metrics")):
        serving = asyncio.ensure_future(MetricsServer(tmp_path, "log", lambda: {"lag": 2.0}).run())
        async with asyncio.timeout(10):
            while not (tmp_path / "log.metrics").exists():
                await asyncio.sleep(0)
            found = {}
            while "log" not in found:
                found = await collect(tmp_path)
            await closed.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert found == {"log": {"lag": 2.0}}
