"""Opens the database of a projector that does not run: the same guard, bounds and answers, read only."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock

import duckdb

from tidegate.projections.ddl import schema_digest
from tidegate.projections.errors import StoreTaken, StoreUnusable
from tidegate.projections.limits import Limits
from tidegate.projections.query import QueryEngine, Source
from tidegate.projections.sqlguard import SqlGuard
from tidegate.projections.store import engine_config


@asynccontextmanager
async def open_read_only(path: Path, limits: Limits | None = None) -> AsyncGenerator[QueryEngine]:
    """Query engine over the file. Raises StoreTaken (a projector has it: ask its socket), StoreUnusable."""
    bounds = Limits() if limits is None else limits
    try:
        connection = duckdb.connect(str(path), read_only=True, config=engine_config(bounds))
    except duckdb.Error as error:
        if "Could not set lock" in str(error):
            raise StoreTaken(f"{path} is open in another process: ask its socket") from error
        if "does not exist" in str(error):
            raise StoreUnusable(
                f"no read model at {path} yet: a projector makes it, as in `serve`"
            ) from error
        raise StoreUnusable(f"{path} cannot be opened: {error}") from error
    guard = SqlGuard()
    try:
        _check_schema(connection, path)
        engine = QueryEngine(Source(connection, path, Lock()), bounds, guard)
        try:
            yield engine
        finally:
            engine.close()
    finally:
        guard.close()
        connection.close()


def _check_schema(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        digests = connection.execute("SELECT schema_digest FROM meta").fetchall()
    except duckdb.Error as error:
        raise StoreUnusable(f"{path} is no read model: {error}") from error
    if digests != [(schema_digest(),)]:
        raise StoreUnusable(f"{path} has another schema: start the projector, or rebuild it")
