"""What is read from the log: every event once, however often it came, and as the log grows."""

import asyncio
from collections import Counter

import pytest

from support.history import History, append
from tidegate.analytics.ledger import read_ledger
from tidegate.events.clock import ManualClock
from tidegate.events.decision import DecisionMade
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.requests import RequestFinished
from tidegate.events.signals import AttemptStarted
from tidegate.events.snapshots import Applied
from tidegate.events.topics import SNAPSHOTS
from tidegate.runtime.demo.log_view import LogView
from tidegate.runtime.waiting import NotInTime


async def test_every_event_counts_once_also_when_it_came_twice() -> None:
    log, day = MemoryEventLog(ManualClock()), History().day(120)
    half = day.outgoing()[:400]
    await append(log, half)
    await append(log, day.outgoing())
    view = LogView(log)
    await view.read()
    kinds = Counter(written.draft.type for written in day.events)
    assert view.events == kinds
    assert view.total_events == len(day.events)
    assert view.ended_requests == kinds["RequestFinished"] + kinds["RequestRefused"]
    datas = [written.draft.data for written in day.events]
    assert view.failovers == sum(isinstance(data, AttemptStarted) and data.index > 0 for data in datas) > 0
    assert sorted(view.decided_ns) == sorted(data.took_ns for data in datas if isinstance(data, DecisionMade))
    assert len(view.added_ns) == kinds["RequestFinished"]
    await view.close()


async def test_the_ledger_is_the_one_that_reconciling_reads() -> None:
    log = MemoryEventLog(ManualClock())
    await append(log, History().day(120).outgoing())
    view, ledger = LogView(log), await read_ledger(log)
    await view.read()
    assert view.ledger.entries == ledger.entries
    assert view.ledger.open == ledger.open != {}
    await view.close()


async def test_the_newest_decision_that_needed_a_second_attempt_is_kept() -> None:
    log, day = MemoryEventLog(ManualClock()), History().day(60)
    await append(log, day.outgoing())
    view = LogView(log)
    await view.read()
    assert view.last_failover is not None
    ends = {
        written.draft.request: written.draft.data
        for written in day.events
        if isinstance(written.draft.data, RequestFinished)
    }
    ended = ends[view.last_failover.ask.request]
    assert ended.attempts > 1
    assert ended.outcome == "completed"
    await view.close()


async def test_a_view_reads_on_as_the_log_grows_until_what_it_waits_for_is_there() -> None:
    log, day = MemoryEventLog(ManualClock()), History().day(40)
    records = day.outgoing()
    await append(log, records[:50])
    view = LogView(log)
    wanted = len(day.events)
    waiting = asyncio.ensure_future(
        view.until(lambda seen: seen.total_events == wanted, lambda _: "more", 10.0)
    )
    await asyncio.sleep(0)
    assert not waiting.done()
    await append(log, records[50:])
    await waiting
    with pytest.raises(NotInTime, match=f"after 0.1 s only {wanted}"):
        await view.until(lambda _: False, lambda seen: f"only {seen.total_events}", 0.1)
    await view.close()


async def test_beliefs_include_everything_once_the_snapshots_cover_every_source() -> None:
    log, day = MemoryEventLog(ManualClock()), History().day(20)
    await append(log, day.outgoing())
    view = LogView(log)
    await view.read()
    assert not view.all_believed()
    marks: dict[int, dict[str, int]] = {}
    for written in day.events:
        if written.topic.name == "tidegate.signals.v1":
            record = written.outgoing()
            marks.setdefault(record.partition, {})[written.draft.source] = written.draft.seq
    for partition, seqs in marks.items():
        applied = Applied(topic="tidegate.signals.v1", partition=partition, position=99, marks=seqs)
        day.write(SNAPSHOTS, "x", "x", applied, slot="est")
    await append(log, day.outgoing())
    await view.read()
    assert view.all_believed()
    await view.close()
