"""Finding one decision: by the read model where it can, in the log where it must."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from support.history import History, append
from support.read_model import LIMITS, memory_log, running
from tidegate.analytics.decisions import Found, find_decision
from tidegate.events.decision import DecisionMade, LocalView
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
        assert await find_decision(log, None, some.decision) == Found(some)
        assert await find_decision(log, None, None) == Found(made[-1])
        return
    async with open_read_only(path, LIMITS) as source:
        for wanted in made[::7]:
            assert await find_decision(log, source, wanted.decision) == Found(wanted)
            assert (await find_decision(log, source, wanted.ask.request)) == Found(wanted)
        assert await find_decision(log, source, None) == Found(made[-1])
        assert await find_decision(log, source, "nobody") is None


async def test_with_nothing_recorded_there_is_no_decision(tmp_path: Path) -> None:
    log = await memory_log(POISON)
    assert await find_decision(log, None, None) is None
    await folded(log, tmp_path / "model.duckdb")
    async with open_read_only(tmp_path / "model.duckdb", LIMITS) as source:
        assert await find_decision(log, source, None) is None


async def test_what_the_read_model_tells_of_a_decision_is_what_was_recorded_but_for_what_only_its_gateway_knew(
    tmp_path: Path,
) -> None:
    history = History().day(60)
    path = tmp_path / "model.duckdb"
    await folded(await memory_log(history.outgoing()), path)
    nothing = await memory_log()
    async with open_read_only(path, LIMITS) as source:
        for made in decisions(history)[::6]:
            found = await find_decision(nothing, source, made.decision)
            assert found == Found(without_local(made), is_recalled=True)


def without_local(decision: DecisionMade) -> DecisionMade:
    candidates = tuple(replace(each, local=LocalView()) for each in decision.candidates)
    return replace(decision, candidates=candidates, ask=replace(decision.ask, dialects=(), documents=False))
