"""Where commands ask: the projector's socket, or without a projector its file, read-only."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from tidegate.analytics.client import SocketSource
from tidegate.analytics.ports import SqlSource
from tidegate.events.errors import TidegateError
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
