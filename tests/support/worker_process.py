"""One gateway worker as a process of its own, for what only the kernel knows of it: its memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import NamedTuple

from support.loadgen import rss_mib
from tidegate.gateway.credentials import key_digest

KEY = "tg_memory-key-00000000000000000000000"
_START_S = 30


class WorkerProcess(NamedTuple):
    """Its process id and the port it serves on."""

    pid: int
    port: int

    def rss_bytes(self) -> float:
        """Resident memory now."""
        return rss_mib(self.pid) * 1024 * 1024

    def forget_peak(self) -> None:
        """Begin anew to watch how much memory it has at most."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """The most resident memory since."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def request(self, body: bytes, path: str = "/v1/chat/completions") -> bytes:
        """A whole HTTP request with a key."""
        return (
            b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b"
            % (path.encode(), KEY.encode(), len(body), body)
        )


def _config(upstream_port: int, dialects: Sequence[str], gateway: str) -> str:
    lines = [
        f'data_dir = "data"\n[gateway]\nport = 0\n{gateway}\n[[tenants]]\nid = "acme"',
        f'[[keys]]\nid = "k"\ntenant = "acme"\ndigest = "{key_digest(KEY)}"',
    ]
    for dialect in dialects:
        lines.append(
            f'[[targets]]\nid = "{dialect}"\ndialect = "{dialect}"\nbase_url = "http://127.0.0.1:{upstream_port}"\n'
            f'model = "m"\nsecret = "env:UPSTREAM_KEY"\nallow_private = true\ncontext_window = 1000000000\n'
            '[[targets.prices]]\ninput_uncached = "1"\noutput = "4"\n'
            f'[[routes]]\nname = "{dialect}"\n[[routes.candidates]]\ntarget = "{dialect}"'
        )
    return "\n".join(lines)


@contextlib.asynccontextmanager
async def worker_process(
    folder: Path, upstream_port: int, dialects: Sequence[str] = ("openai",), gateway: str = ""
) -> AsyncGenerator[WorkerProcess]:
    """Serves one route per dialect, of the same name, whose only target speaks it at `upstream_port`."""
    path = folder / "tidegate.toml"
    path.write_text(_config(upstream_port, dialects, gateway))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tidegate.runtime",
        "gateway",
        "--config",
        str(path),
        env={**os.environ, "UPSTREAM_KEY": "upstream-secret-000000"},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_START_S):
            port = await _port(process)
        yield WorkerProcess(process.pid, port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    said = []
    async for line in process.stderr:
        if b"gateway serves" in line:
            return int(json.loads(line)["port"])
        said.append(line)
    raise AssertionError(b"".join(said).decode())
