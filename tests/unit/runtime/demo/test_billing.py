"""Bills over HTTP, and corrections through a journal slot of their own into the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from support.rig import UPSTREAM_KEY, provider
from tidegate.analytics.bills import Correction
from tidegate.analytics.ledger import read_ledger
from tidegate.events.clock import ManualClock, SystemClock
from tidegate.events.errors import Unavailable
from tidegate.events.journal.receipt import Context
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.relay import Relay
from tidegate.events.signals import AttemptStarted, SettlementCorrected
from tidegate.events.types import AttemptId
from tidegate.runtime.demo import billing
from tidegate.runtime.demo.billing import Bills, JournalRecorder
from tidegate.runtime.demo.waiting import NotInTime
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import parse_settings
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

from support.journals import settled, started  # isort: skip


async def call(simulator: RunningSimulator, attempt: str, **headers: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.post(
            f"{simulator.base_url('one')}/v1/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": "w" * 400}]},
            headers={"authorization": f"Bearer {UPSTREAM_KEY}", "x-tidegate-attempt-id": attempt, **headers},
        )


async def test_a_bill_has_every_billed_line_and_is_complete_until_it_was_drawn() -> None:
    simulator = await start(load({"providers": [provider("one"), provider("two")]}))
    try:
        await call(simulator, "a1")
        await call(simulator, "a2", **{"x-sim-fault": "503"})
        await call(simulator, "a3", **{"x-sim-fault": "hidden_usage"})
        clock = SystemClock()
        bills = Bills(simulator.ports, clock)
        before_ns = clock.wall_ns()
        one, two = await bills.fetch()
        assert [line.attempt for line in one.lines] == ["a1", "a3"]
        assert [line.tokens.known_input() for line in one.lines] == [100, 100]
        assert two.lines == ()
        assert (one.provider, set(one.targets)) == ("one", {"one"})
        assert before_ns <= (one.complete_until_ns or 0) <= clock.wall_ns()
        assert bills.totals == {"one": sum(line.cost_nanousd for line in one.lines), "two": 0}
        assert await bills.cost_nanousd("one", "a1") == one.lines[0].cost_nanousd > 0
        assert await bills.cost_nanousd("one", "a2") == 0
        assert await bills.cost_nanousd("one", "never sent") == 0
    finally:
        await simulator.stop()


async def test_a_provider_that_is_gone_is_named_and_one_that_still_works_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulator = await start(load({"providers": [provider("one")]}))
    stalled = asyncio.ensure_future(call(simulator, "a1", **{"x-sim-fault": "header_stall"}))
    try:
        engine = simulator.engines["one"]
        async with asyncio.timeout(10):
            while not engine.reception.account.in_flight:
                await asyncio.sleep(0.005)
        monkeypatch.setattr(billing, "DEADLINE_S", 0.1)
        bills = Bills(simulator.ports, SystemClock())
        with pytest.raises(NotInTime, match="provider one still has requests in flight"):
            await bills.fetch()
        assert await bills.cost_nanousd("one", "a1") is None
    finally:
        stalled.cancel()
        await asyncio.gather(stalled, return_exceptions=True)
        await simulator.stop()
    with pytest.raises(Unavailable, match="provider one does not show its state"):
        await bills.fetch()


def correction(begun: AttemptStarted, delta: int) -> Correction:
    data = SettlementCorrected(
        attempt=AttemptId(begun.attempt), target=begun.target, pool=begun.pool, delta_nanousd=delta,
        tokens=Tokens(input_uncached=7, output=3), evidence="bill",
    )  # fmt: skip
    return Correction(data=data, tenant="acme", request="r1", session="s1")


async def test_corrections_can_be_read_from_the_log_when_recording_returns(tmp_path: Path) -> None:
    machine = Machine(
        parse_settings('data_dir = "data"\n[log]\nreserve_bytes = 65536\n'), base=tmp_path, env={}
    )
    machine.make_folders()
    log = MemoryEventLog(ManualClock())
    relay = Relay(machine.data_dir, log, machine.clock, machine.ids)
    stop = asyncio.Event()
    relaying = asyncio.ensure_future(relay.run(stop.is_set))
    try:
        journal = await machine.open_journal("gw-0")
        begun = [started(f"a{n}", pool=f"pool-{n}") for n in range(3)]
        for each in begun:
            journal.start(partition_of(each.pool), each, Context(tenant="acme", request="r1"))
            receipt = journal.settle(
                partition_of(each.pool), settled(each), Context(tenant="acme", request="r1")
            )
            await journal.wait_settled(receipt)
        await journal.close()
        await JournalRecorder(machine).record([correction(each, 100 + n) for n, each in enumerate(begun)])
        entries = (await read_ledger(log)).entries
        assert [entries[each.attempt].delta_nanousd for each in begun] == [100, 101, 102]
        assert all(entries[each.attempt].tokens.input_uncached == 7 for each in begun)
    finally:
        stop.set()
        await relaying
        relay.close()


async def test_recording_without_a_relay_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(
        parse_settings('data_dir = "data"\n[log]\nreserve_bytes = 65536\n'), base=tmp_path, env={}
    )
    machine.make_folders()
    monkeypatch.setattr(billing, "DEADLINE_S", 0.1)
    with pytest.raises(NotInTime, match="the log role has not relayed the corrections"):
        await JournalRecorder(machine).record([correction(started("a1"), 5)])
