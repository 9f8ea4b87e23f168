"""Where commands ask: the projector's socket, or without a projector its file, read-only."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tidegate.analytics.client import SocketSource
from tidegate.analytics.ports import SqlSource
from tidegate.events.archive_log import ArchivedLog
from tidegate.projections.readonly import open_read_only
from tidegate.runtime.machine import Machine


@asynccontextmanager
async def sql_source(machine: Machine) -> AsyncGenerator[SqlSource]:
    """The read models. Raises StoreUnusable when there is neither a projector nor a file."""
    if machine.query_socket.exists():
        yield SocketSource(machine.query_socket)
        return
    async with open_read_only(machine.projections_path) as engine:
        yield engine


@asynccontextmanager
async def whole_log(machine: Machine) -> AsyncGenerator[ArchivedLog]:
    """The log with its archive, read only."""
    log = ArchivedLog(machine.open_log(), machine.archive_dir)
    try:
        yield log
    finally:
        await log.close()
