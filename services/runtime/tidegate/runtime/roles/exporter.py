"""Numbers of this machine's processes over HTTP/1.1, for machines without an admin: GET /metrics, nothing else."""

import asyncio
import contextlib
import hmac
import socket
from pathlib import Path

from tidegate.runtime import metrics

MAX_HEAD_BYTES = 8_192
HEAD_DEADLINE_S = 5.0
MAX_CLIENTS = 32
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}


class Exporter:
    """Answers one request per connection. With a token, only who sends it as `Authorization: Bearer`."""

    def __init__(self, run_dir: Path, listening: socket.socket, token: str | None) -> None:
        self._run_dir = run_dir
        self._listening = listening
        self._token = token
        self._clients = 0

    async def run(self) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(self._answer, sock=self._listening, limit=MAX_HEAD_BYTES)
        try:
            await server.serve_forever()
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= MAX_CLIENTS:
                async with asyncio.timeout(HEAD_DEADLINE_S):
                    writer.write(await self._response(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is gone, slow or no HTTP client gets no answer
        finally:
            self._clients -= 1
            with contextlib.suppress(OSError):
                writer.close()

    async def _response(self, head: bytes) -> bytes:
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _rendered(400)
        if not self._may(lines[1:]):
            return _rendered(401)
        if words[1].partition(b"?")[0] != b"/metrics":
            return _rendered(404)
        if words[0] not in {b"GET", b"HEAD"}:
            return _rendered(405)
        whole = _rendered(200, metrics.render(await metrics.collect(self._run_dir)))
        return whole if words[0] == b"GET" else whole[: whole.index(b"\r\n\r\n") + 4]

    def _may(self, fields: list[bytes]) -> bool:
        if self._token is None:
            return True
        for field in fields:
            name, _, value = field.partition(b":")
            if name.strip().lower() == b"authorization":
                return hmac.compare_digest(value.strip(), b"Bearer " + self._token.encode())
        return False


def _rendered(status: int, body: bytes = b"") -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {_TEXT}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
