"""Requests that reach the gateway in the same turns of its loop: connections first, then all bodies at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from support.rig import KEY, Rig

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(rig: Rig, count: int) -> list[Connection]:
    """So many open connections."""
    return [await asyncio.open_connection("127.0.0.1", rig.role.port) for _ in range(count)]


def send(connection: Connection, model: str = "r", *, stream: bool = False) -> None:
    """Write one whole chat request; nothing is awaited."""
    body = json.dumps(
        {
            "model": model,
            "max_tokens": 100,
            "stream": stream,
            "messages": [{"role": "user", "content": "hi"}],
        }
    )
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\n"
    connection[1].write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())


async def status(connection: Connection) -> int:
    """The status of the answer; the connection is closed."""
    line = await connection[0].readline()
    connection[1].close()
    return int(line.split()[1])


async def burst(rig: Rig, count: int, model: str = "r") -> list[int]:
    """The statuses of so many requests at once, in no order."""
    connections = await connected(rig, count)
    return await answers(connections, model)


async def answers(connections: Sequence[Connection], model: str = "r") -> list[int]:
    """Send one request on each, then collect the statuses."""
    for each in connections:
        send(each, model)
    return list(await asyncio.gather(*map(status, connections)))
