"""Runs guarded queries beside ingest: own cursor, read-only transaction, time, row and memory bounds."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

import duckdb
import msgspec

from tidegate.events.errors import Unavailable
from tidegate.projections.errors import QueryTimeout, QueryTooLarge, SqlFailed
from tidegate.projections.limits import Limits
from tidegate.projections.sqlguard import SqlGuard

Params = Sequence[Any] | Mapping[str, Any]

_CHUNK_ROWS = 1_000
_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, frozen=True):
    """A result. `rows` is a JSON array of arrays: integers exact, times and decimals as text, NaN as null."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """DuckDB's names of the types."""
    rows: msgspec.Raw
    truncated: bool
    """There were more rows than `max_rows`."""


class _Slot:
    """One cursor; at most one query runs on it. `interrupt` stops exactly the query it was meant for."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._lock = Lock()
        self._running: object | None = None

    def run(self, token: object, sql: str, params: Params | None, max_rows: int, max_bytes: int) -> Answer:
        """Run to the end on the calling thread. Raises duckdb.Error, QueryTooLarge, SqlFailed."""
        with self._lock:
            self._running = token
        try:
            self._cursor.execute("BEGIN TRANSACTION READ ONLY")
            self._cursor.execute(sql, params) if params else self._cursor.execute(sql)
            return _fetch(self._cursor, max_rows, max_bytes)
        finally:
            with self._lock:
                self._running = None
            with suppress(duckdb.Error):
                self._cursor.execute("ROLLBACK")

    def interrupt(self, token: object | None = None) -> None:
        """Stop the query of this token if it still runs, or whatever runs."""
        with self._lock:
            if self._running is not None and token in {None, self._running}:
                self._cursor.interrupt()


class QueryEngine:
    """Queries over one open database, for one event loop."""

    def __init__(self, cursors: Sequence[duckdb.DuckDBPyConnection], limits: Limits, guard: SqlGuard) -> None:
        self._limits = limits
        self._guard = guard
        self._slots = [_Slot(cursor) for cursor in cursors]
        self._closing = False
        self._pool = ThreadPoolExecutor(max_workers=len(cursors), thread_name_prefix="projector-query")
        self._free: asyncio.Queue[_Slot] = asyncio.Queue()
        for slot in self._slots:
            self._free.put_nowait(slot)

    async def query(
        self,
        sql: str,
        params: Params | None = None,
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Run one SELECT. `max_rows` and `timeout_s` may only lower the limits.

        Raises SqlRefused, SqlFailed, QueryTooLarge, QueryTimeout, Unavailable (closing).
        """
        self._guard.check(sql)
        rows = min(self._limits.query_rows if max_rows is None else max_rows, self._limits.query_rows)
        seconds = min(
            self._limits.query_timeout_s if timeout_s is None else timeout_s, self._limits.query_timeout_s
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        slot = await self._slot(seconds)
        token = object()
        running = self._pool.submit(slot.run, token, sql, params, rows, self._limits.query_answer_bytes)
        running.add_done_callback(partial(self._release, loop, slot))
        timer = loop.call_at(deadline, slot.interrupt, token)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            slot.interrupt(token)
            raise
        except duckdb.InterruptException as error:
            self._check_open()
            raise QueryTimeout(f"the query ran longer than {seconds:g} s") from error
        except duckdb.OutOfMemoryException as error:
            raise QueryTooLarge(
                f"the query needs more than the {self._limits.query_memory_mb} MB one query may have"
            ) from error
        except duckdb.Error as error:
            raise SqlFailed(str(error).splitlines()[0]) from error
        finally:
            timer.cancel()

    def close(self) -> None:
        """Stop every query and wait for the threads."""
        self._closing = True
        for slot in self._slots:
            slot.interrupt()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _check_open(self) -> None:
        if self._closing:
            raise Unavailable("the read model is closing", retry_after_s=1.0)

    async def _slot(self, timeout_s: float) -> _Slot:
        try:
            async with asyncio.timeout(timeout_s):
                slot = await self._free.get()
            self._check_open()
            return slot
        except TimeoutError as error:
            raise QueryTimeout(
                f"no query slot became free within {timeout_s:g} s", retry_after_s=1.0
            ) from error

    def _release(self, loop: asyncio.AbstractEventLoop, slot: _Slot, _: Future[Answer]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the slot any more
            loop.call_soon_threadsafe(self._free.put_nowait, slot)


def _fetch(cursor: duckdb.DuckDBPyConnection, max_rows: int, max_bytes: int) -> Answer:
    description = cursor.description or []
    chunks: list[bytes] = []
    wanted, size, truncated = max_rows, 0, False
    while wanted > 0 and (rows := cursor.fetchmany(min(_CHUNK_ROWS, wanted))):
        wanted -= len(rows)
        chunks.append(_encoded(rows)[1:-1])
        size += len(chunks[-1])
        if size > max_bytes:
            raise QueryTooLarge(f"the answer is larger than {max_bytes} bytes: ask for less")
    if wanted == 0:
        truncated = cursor.fetchone() is not None
    return Answer(
        columns=tuple(str(column[0]) for column in description),
        types=tuple(str(column[1]) for column in description),
        rows=msgspec.Raw(b"[" + b",".join(chunks) + b"]"),
        truncated=truncated,
    )


def _encoded(rows: list[Any]) -> bytes:
    try:
        return _encode(rows)
    except (TypeError, ValueError) as error:
        raise SqlFailed(f"a value of the answer has no JSON form: {error}") from error
