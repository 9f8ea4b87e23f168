"""Runs guarded queries beside ingest, each in a process of its own: own cursor, read-only transaction, time, row
and memory bounds that hold whatever the query does.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import msgspec

from tidegate.events.errors import Refused, Unavailable
from tidegate.projections.child import Bounds, Child
from tidegate.projections.errors import QueryTimeout, QueryTooLarge, SqlFailed
from tidegate.projections.limits import Limits
from tidegate.projections.sqlguard import SqlGuard

Params = Sequence[Any] | Mapping[str, Any]

SPILL = ".spill-"
"""What the name of a folder with spill files has after the database's; one left behind is of no use."""
_CHUNK_ROWS = 1_000
_FRAME_BYTES = 1 << 20
"""What an answer may hold besides its rows: names of columns, or the text of an error."""
_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, frozen=True):
    """A result. `rows` is a JSON array of arrays: integers exact, times and decimals as text, NaN as null."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """DuckDB's names of the types."""
    rows: msgspec.Raw
    truncated: bool
    """There were more rows than `max_rows`."""


class _Told(msgspec.Struct, frozen=True):
    """What comes out of a query's process: an answer, or why there is none."""

    answer: Answer | None = None
    fault: str = ""
    message: str = ""


_told = msgspec.json.Decoder(_Told)


class Source(msgspec.Struct, frozen=True):
    """An open database to ask. `alone` is held by whoever works in it, so that no fork happens meanwhile."""

    connection: duckdb.DuckDBPyConnection
    path: Path
    alone: Lock


class QueryEngine:
    """Queries over one open database, for one event loop."""

    def __init__(self, source: Source, limits: Limits, guard: SqlGuard) -> None:
        self._source = source
        self._limits = limits
        self._guard = guard
        self._closing = False
        self._running: set[Child] = set()
        self._numbers = iter(range(1 << 62))
        self._pool = ThreadPoolExecutor(limits.query_slots, thread_name_prefix="projector-query")
        self._free = asyncio.Semaphore(limits.query_slots)
        self._spills = _spill_folder(source.path)

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
        limits = self._limits
        rows = min(limits.query_rows if max_rows is None else max_rows, limits.query_rows)
        seconds = min(limits.query_timeout_s if timeout_s is None else timeout_s, limits.query_timeout_s)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        await self._slot(seconds)
        child = Child()
        self._running.add(child)
        running = self._pool.submit(self._ask, child, sql, params, rows, seconds)
        running.add_done_callback(lambda done: self._release(loop, child, done))
        timer = loop.call_at(deadline, child.kill)
        try:
            told = await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            child.kill()
            raise
        finally:
            timer.cancel()
        self._check_open()
        if child.killed:
            raise QueryTimeout(f"the query ran longer than {seconds:g} s")
        return self._answer(told, seconds)

    def close(self) -> None:
        """Stop every query and wait for the threads."""
        self._closing = True
        for child in tuple(self._running):
            child.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(self._spills, ignore_errors=True)

    def _ask(self, child: Child, sql: str, params: Params | None, max_rows: int, seconds: float) -> bytes:
        """On a thread: fork, wait, tidy up."""
        spill = self._spills / str(next(self._numbers))
        limits, connection = self._limits, self._source.connection
        bounds = Bounds(
            seconds=seconds,
            memory_bytes=limits.query_process_mb * 1_000_000,
            answer_bytes=limits.query_answer_bytes + _FRAME_BYTES,
        )

        def work() -> bytes:
            return _encode(_tried(lambda: _run(connection, spill, limits, sql, params, max_rows)))

        try:
            alone = (self._guard.alone, self._source.alone)
            return child.ask(work, bounds, (self._source.path,), alone)
        finally:
            shutil.rmtree(spill, ignore_errors=True)

    def _answer(self, told: bytes, seconds: float) -> Answer:
        if not told:
            raise QueryTooLarge(self._too_large())
        found = _told.decode(told)
        if found.answer is not None:
            return found.answer
        if found.fault == "time":
            raise QueryTimeout(f"the query ran longer than {seconds:g} s")
        if found.fault == "memory":
            raise QueryTooLarge(found.message or self._too_large())
        raise SqlFailed(found.message)

    def _too_large(self) -> str:
        limits = self._limits
        return (
            f"the query needs more than the {limits.query_memory_mb} MB one query may have"
            f" (its process: {limits.query_process_mb} MB)"
        )

    def _check_open(self) -> None:
        if self._closing:
            raise Unavailable("the read model is closing", retry_after_s=1.0)

    async def _slot(self, timeout_s: float) -> None:
        self._check_open()
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise QueryTimeout(
                f"no query slot became free within {timeout_s:g} s", retry_after_s=1.0
            ) from error

    def _release(self, loop: asyncio.AbstractEventLoop, child: Child, _: Future[bytes]) -> None:
        self._running.discard(child)
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the slot any more
            loop.call_soon_threadsafe(self._free.release)


def _spill_folder(database: Path) -> Path:
    """Beside the database, where there is room for it; elsewhere when its folder may only be read."""
    beside = database.parent if os.access(database.parent, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix=database.name + SPILL, dir=beside))


def _tried(run: Callable[[], Answer]) -> _Told:
    """In the query's process: its answer, or which limit or mistake kept it from one."""
    try:
        return _Told(run())
    except duckdb.InterruptException:
        return _Told(fault="time")
    except (duckdb.OutOfMemoryException, MemoryError):
        return _Told(fault="memory")
    except QueryTooLarge as error:
        return _Told(fault="memory", message=str(error))
    except Refused as error:
        return _Told(fault="query", message=str(error))
    except duckdb.Error as error:
        return _Told(fault="query", message=str(error).splitlines()[0])


def _run(
    connection: duckdb.DuckDBPyConnection,
    spill: Path,
    limits: Limits,
    sql: str,
    params: Params | None,
    max_rows: int,
) -> Answer:
    """In the query's process: settings first, then locked for good. Raises duckdb.Error, Refused."""
    cursor = connection.cursor()
    quoted = str(spill).replace("'", "''")
    for setting in (
        f"temp_directory = '{quoted}'",
        f"max_temp_directory_size = '{limits.temp_mb}MB'",
        f"memory_limit = '{limits.query_process_mb * 5 // 8}MB'",  # so that it spills before it fails
        f"operator_memory_limit = '{limits.query_memory_mb}MB'",
        f"max_execution_time = {int(limits.query_timeout_s * 1_000)}",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        cursor.execute(f"SET {setting}")
    cursor.execute("BEGIN TRANSACTION READ ONLY")
    cursor.execute(sql, params) if params else cursor.execute(sql)
    return _fetch(cursor, max_rows, limits.query_answer_bytes)


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
