"""The demo's questions to a real projector: exact sums, every target and window, waiting for a position."""

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.history import History
from support.read_model import LIMITS, PACE, Heard, memory_log
from tidegate.analytics.client import SocketSource
from tidegate.events.decision import DecisionMade
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import REQUESTS
from tidegate.projections.projector import Projector
from tidegate.runtime.demo.figures import by_target
from tidegate.runtime.demo.log_view import LogView
from tidegate.runtime.demo.queries import read_tables
from tidegate.runtime.waiting import NotInTime


@contextlib.asynccontextmanager
async def projector(log: MemoryEventLog) -> AsyncIterator[SocketSource]:
    with tempfile.TemporaryDirectory(prefix="tg") as short:
        socket, heard, stop = Path(short) / "q.sock", Heard(), asyncio.Event()
        serving = Projector(
            log,
            Path(short) / "p.duckdb",
            socket,
            dead_letters=heard.dead_letter,
            alarm=heard,
            limits=LIMITS,
            pace=PACE,
        )
        running = asyncio.ensure_future(serving.run(stop))
        try:
            yield SocketSource(socket)
        finally:
            stop.set()
            await running


async def test_tables_agree_with_the_log() -> None:
    day = History().day(80)
    log = await memory_log(day.outgoing())
    view = LogView(log)
    await view.read()
    async with projector(log) as source:
        tables = await read_tables(source, await view.ends(), 30.0)
    entries = view.ledger.entries.values()
    assert tables.ledger_nanousd == sum(entry.ledger_nanousd or 0 for entry in entries)
    spent = Counter[str]()
    for row in tables.spend:
        spent[row.target] += row.ledger_nanousd
    assert dict(spent) == by_target(entries)
    assert sum(row.attempts for row in tables.spend) == len(entries)
    decisions = [each.draft.data for each in day.events if isinstance(each.draft.data, DecisionMade)]
    chosen = Counter(decision.chosen for decision in decisions if decision.chosen)
    assert {row.target: row.chosen for row in tables.decisions if row.chosen} == chosen
    reasons = Counter((v.target, v.reason) for d in decisions for v in d.candidates if v.reason)
    assert {(row.target, row.reason): row.times for row in tables.reasons} == reasons
    assert {row.window for row in tables.windows} == {"5h"}
    await view.close()


async def test_a_read_model_that_does_not_come_so_far_says_so() -> None:
    log = await memory_log(History().day(5).outgoing())
    beyond = {TopicPartition(REQUESTS.name, 0): 1_000_000}
    async with projector(log) as source:
        with pytest.raises(NotInTime, match="the read model is not up to date"):
            await read_tables(source, beyond, 0.2)
