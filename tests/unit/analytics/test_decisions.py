"""Finding one decision: by the read model where it can, in the log where it must."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.history import History, append
from support.read_model import LIMITS, memory_log, running
from tidegate.analytics.decisions import find_decision
from tidegate.events.decision import DecisionMade
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing
from tidegate.events.topics import REQUESTS
from tidegate.projections.readonly import open_read_only

POISON = [
    Outgoing(REQUESTS.name, partition, b"x", b"\xff no event") for partition in range(REQUESTS.partitions)
]


def decisions(history: History) -> list[DecisionMade]:
    made = [e.draft.data for e in history.events if isinstance(e.draft.data, DecisionMade)]
    return sorted(made, key=lambda decision: decision.now_ns)


async def folded(log: MemoryEventLog, path: Path) -> None:
    async with running(log, path) as (runner, _):
        await runner.catch_up()


@pytest.mark.parametrize("folded_events", [None, 0, 200, 10**6])
async def test_a_decision_is_found_however_far_the_read_model_has_come(
    tmp_path: Path, folded_events: int | None
) -> None:
    history = History().day(60)
    made, records = decisions(history), history.outgoing()
    log = await memory_log(POISON)
    path = tmp_path / "model.duckdb"
    if folded_events is not None:
        await append(log, records[:folded_events])
        await folded(log, path)
        await append(log, records[folded_events:])
    else:
        await append(log, records)
    await append(log, POISON)
    some = made[len(made) // 2]
    if folded_events is None:
        assert await find_decision(log, None, some.decision) == some
        assert await find_decision(log, None, None) == made[-1]
        return
    async with open_read_only(path, LIMITS) as source:
        for wanted in made[::7]:
            assert await find_decision(log, source, wanted.decision) == wanted
            assert (await find_decision(log, source, wanted.ask.request)) == wanted
        assert await find_decision(log, source, None) == made[-1]
        assert await find_decision(log, source, "nobody") is None


async def test_with_nothing_recorded_there_is_no_decision(tmp_path: Path) -> None:
    log = await memory_log(POISON)
    assert await find_decision(log, None, None) is None
    await folded(log, tmp_path / "model.duckdb")
    async with open_read_only(tmp_path / "model.duckdb", LIMITS) as source:
        assert await find_decision(log, source, None) is None
