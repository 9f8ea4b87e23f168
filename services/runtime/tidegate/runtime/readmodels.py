"""Where commands ask: the projector's socket or its file, and the log, or without a log its archive. Read-only."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from tidegate.analytics.client import SocketSource
from tidegate.analytics.ports import SqlSource
from tidegate.events.errors import LogUnavailable, TidegateError
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.topics import REQUESTS
from tidegate.runtime.machine import Machine

# DuckDB and Arrow take longer to load than the projector to answer: they come where there is no projector.
if TYPE_CHECKING:
    from tidegate.events.archive_log import ArchivedLog


async def projector_answers(machine: Machine) -> bool:
    """True when a projector listens; a killed one leaves its socket behind."""
    try:
        _, writer = await asyncio.open_unix_connection(str(machine.query_socket))
    except OSError:
        return False
    writer.close()
    return True


@asynccontextmanager
async def sql_source(machine: Machine) -> AsyncGenerator[SqlSource]:
    """The read models. Raises StoreUnusable when there is neither a projector nor a file."""
    if await projector_answers(machine):
        yield SocketSource(machine.query_socket)
        return
    from tidegate.projections.readonly import open_read_only

    async with open_read_only(machine.projections_path) as engine:
        yield engine


@asynccontextmanager
async def read_model_or_none(machine: Machine) -> AsyncGenerator[SqlSource | None]:
    """The read models, None where there are none yet: whoever asks so has the log to fall back on."""
    async with AsyncExitStack() as stack:
        try:
            source = await stack.enter_async_context(sql_source(machine))
        except TidegateError:
            source = None
        yield source


@asynccontextmanager
async def whole_log(machine: Machine) -> "AsyncGenerator[ArchivedLog]":
    """The log with its archive, read only."""
    from tidegate.events.archive_log import ArchivedLog

    log = ArchivedLog(machine.open_log(), machine.archive_dir)
    try:
        yield log
    finally:
        await log.close()


class Readable(NamedTuple):
    """The recorded history as far as it can be read now."""

    log: EventLog
    away: str | None = None
    """Why the live log cannot be asked; `log` is then the archive alone."""
    newest_ns: int | None = None
    """Without a live log: when the newest archived record was appended, None when nothing is archived."""


@asynccontextmanager
async def readable_log(machine: Machine) -> AsyncGenerator[Readable]:
    """The log with its archive, or the archive alone when the live log does not answer."""
    async with whole_log(machine) as log:
        try:
            await log.end(TopicPartition(REQUESTS.name, 0))
            readable = Readable(log)
        except LogUnavailable as error:
            from tidegate.events.archive_alone import ArchiveAlone

            alone = ArchiveAlone(machine.archive_dir)
            readable = Readable(alone, str(error), alone.newest_ns)
        yield readable
