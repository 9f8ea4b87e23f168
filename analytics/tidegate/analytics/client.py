"""Asks the projector through its socket: four bytes of length (big endian), then JSON, both ways."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidegate.analytics.errors import QueryRefused, QueryUnavailable
from tidegate.analytics.ports import Params
from tidegate.events.log.port import TopicPartition

MAX_ANSWER_BYTES = 64 * 1024 * 1024
DEFAULT_TIMEOUT_S = 30.0
_GRACE_S = 5.0
"""How much longer than the query's own time the client waits: the answer still has to travel."""
_UNAVAILABLE_CODES = frozenset({"unavailable", "query_timeout", "not_caught_up", "log_unavailable"})


class Answer(msgspec.Struct, frozen=True):
    """Columns, types and rows of a result; see `ports.SqlAnswer`."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: msgspec.Raw
    truncated: bool


class _Fault(msgspec.Struct, frozen=True):
    code: str
    message: str
    retry_after_s: float | None = None


class _Reply(msgspec.Struct, frozen=True):
    """One of the three: an error, facts, or an answer's own fields."""

    error: _Fault | None = None
    result: dict[str, Any] | None = None


class SocketSource:
    """A projector on this machine; one connection per question. Safe for concurrent use."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def query(
        self,
        sql: str,
        params: Params | None = None,
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
        min_position: Mapping[TopicPartition, int] | None = None,
    ) -> Answer:
        """Answer one SELECT, from a read model that has come at least to `min_position`.

        Raises QueryRefused, QueryUnavailable.
        """
        ask: dict[str, Any] = {"sql": sql}
        if params:
            ask["params"] = params
        if max_rows is not None:
            ask["max_rows"] = max_rows
        if timeout_s is not None:
            ask["timeout_s"] = timeout_s
        if min_position:
            ask["min_position"] = [[*where, position] for where, position in min_position.items()]
        body = await self._exchange(ask, DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s)
        return msgspec.json.decode(body, type=Answer)

    async def status(self) -> dict[str, Any]:
        """Positions, counts, halted partitions, gaps of the log, why the file was begun anew."""
        return _result(await self._exchange({"op": "status"}, DEFAULT_TIMEOUT_S))

    async def swap(self, *, force: bool = False, timeout_s: float = 600.0) -> dict[str, Any]:
        """Let the projector take over a rebuilt file: `swapped`, `compared`, `differing`, `rows`."""
        return _result(await self._exchange({"op": "swap", "force": force}, timeout_s))

    async def _exchange(self, ask: Mapping[str, Any], timeout_s: float) -> bytes:
        body = msgspec.json.encode(ask)
        try:
            async with asyncio.timeout(timeout_s + _GRACE_S):
                answer = await self._round_trip(len(body).to_bytes(4, "big") + body)
        except (OSError, EOFError) as error:  # TimeoutError is an OSError
            why = str(error) or "timed out"
            raise QueryUnavailable(f"no projector answers at {self._socket}: {why}") from error
        _raise_fault(answer)
        return answer

    async def _round_trip(self, frame: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            writer.write(frame)
            await writer.drain()
            length = int.from_bytes(await reader.readexactly(4), "big")
            if length > MAX_ANSWER_BYTES:
                raise QueryRefused(f"an answer of {length} bytes is too long", code="query_too_large")
            return await reader.readexactly(length)
        finally:
            writer.close()


def _result(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body, type=_Reply).result or {}


def _raise_fault(body: bytes) -> None:
    fault = msgspec.json.decode(body, type=_Reply).error
    if fault is None:
        return
    if fault.code in _UNAVAILABLE_CODES:
        raise QueryUnavailable(fault.message, fault.code, fault.retry_after_s)
    raise QueryRefused(fault.message, fault.code)
