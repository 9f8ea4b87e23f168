"""When the engine commits: by the interval, sooner for a changed circuit, at a slower pace while it is behind."""

from __future__ import annotations

import pytest

from support.journals import make_ids
from support.signals import records
from tidegate.estimator import engine as engine_module
from tidegate.estimator.engine import Engine
from tidegate.events.clock import ManualClock
from tidegate.events.config import Routing
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.signals import AttemptFailed
from tidegate.events.topics import SIGNALS

INTERVAL_S = 0.25


class Alarms:
    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


async def committed(clock: ManualClock) -> Engine:
    """An engine that has just committed, over no event."""
    engine = Engine(MemoryEventLog(clock), clock, make_ids(clock), Routing(), Alarms(), INTERVAL_S)
    await engine.open()
    await engine.commit()
    return engine


def signals(count: int, *, failing: bool) -> list[Record]:
    rows = records(count, pools=3)
    return [
        Record(SIGNALS.name, 3, offset, row.key, row.value, 7)
        for offset, row in enumerate(rows)
        if row.value is not None and (failing or AttemptFailed.__name__.encode() not in row.value)
    ]


@pytest.mark.parametrize(("behind", "intervals"), [(False, 1), (True, 4)])
async def test_a_commit_is_due_after_the_interval_and_behind_after_four(behind: bool, intervals: int) -> None:
    clock = ManualClock()
    engine = await committed(clock)
    engine.take(signals(20, failing=False))
    clock.advance_ns(int(intervals * INTERVAL_S * 1e9) - 1)
    assert not engine.is_due(behind=behind)
    clock.advance_ns(1)
    assert engine.is_due(behind=behind)


async def test_a_changed_circuit_is_due_at_once_unless_more_waits() -> None:
    engine = await committed(ManualClock())
    engine.take(signals(3_000, failing=True))
    assert engine.is_due()
    assert not engine.is_due(behind=True)


async def test_many_uncommitted_events_are_due_however_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MAX_UNCOMMITTED", 20)
    engine = await committed(ManualClock())
    engine.take(signals(19, failing=False))
    assert not engine.is_due(behind=True)
    engine.take(signals(40, failing=False)[19:])
    assert engine.is_due(behind=True)
