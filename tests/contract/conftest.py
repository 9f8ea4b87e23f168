"""The event logs that must keep one contract."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.log_reading import OpenLog
from tidegate.events.archive_log import ArchivedLog
from tidegate.events.clock import SystemClock
from tidegate.events.log.memory import MemoryEventLog, MemoryStore
from tidegate.events.log.port import EventLog
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import ROLES


@pytest.fixture(params=["memory", "sqlite", "archived", pytest.param("kafka", marks=pytest.mark.kafka)])
async def event_log_factory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenLog]:
    """Opens handles on one log; all are closed at the end of the test."""
    make: dict[str, Callable[[], OpenLog]] = {
        "memory": _memory,
        "sqlite": lambda: _sqlite(tmp_path),
        "archived": lambda: _archived(tmp_path),
        "kafka": lambda: _kafka(request),
    }
    open_one = make[request.param]()
    async with AsyncExitStack() as stack:
        if request.param == "kafka":
            stack.push_async_exit(open_one)  # type: ignore[arg-type] - it removes its topics

        async def open_log() -> EventLog:
            log = await open_one()
            stack.push_async_callback(log.close)
            return log

        yield open_log


@pytest.fixture
async def log(event_log_factory: OpenLog) -> EventLog:
    """One handle, open for every role."""
    return await event_log_factory()


def _memory() -> OpenLog:
    store = MemoryStore()

    async def open_one() -> EventLog:
        return MemoryEventLog(SystemClock(), store)

    return open_one


def _sqlite(folder: Path) -> OpenLog:
    async def open_one() -> EventLog:
        return SqliteEventLog.open(folder, frozenset(ROLES), SystemClock())

    return open_one


def _archived(folder: Path) -> OpenLog:
    open_live = _sqlite(folder / "live")

    async def open_one() -> EventLog:
        return ArchivedLog(await open_live(), folder / "archive")

    return open_one


def _kafka(request: pytest.FixtureRequest) -> OpenLog:
    from support.kafka_log import kafka_event_log  # aiokafka is slow to import

    return kafka_event_log(request.getfixturevalue("kafka"))
