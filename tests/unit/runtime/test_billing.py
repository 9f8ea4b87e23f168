"""Bills over HTTP, and corrections through a journal slot of their own into the log."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from support.rig import UPSTREAM_KEY, provider
from tidegate.analytics.bills import AbsurdLine, BillLine, Correction
from tidegate.analytics.ledger import read_ledger
from tidegate.events.clock import ManualClock, SystemClock
from tidegate.events.config import Target
from tidegate.events.journal.receipt import Context
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.relay import Relay
from tidegate.events.signals import AttemptStarted, SettlementCorrected
from tidegate.events.types import AttemptId, TargetId
from tidegate.runtime import billing
from tidegate.runtime.billing import Bills, JournalRecorder, NoBill, origin_of
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import parse_settings
from tidegate.runtime.waiting import NotInTime
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

from support.journals import settled, started  # isort: skip


async def call(simulator: RunningSimulator, attempt: str, text: str = "w" * 400, **headers: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.post(
            f"{simulator.base_url('one')}/v1/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": text}]},
            headers={"authorization": f"Bearer {UPSTREAM_KEY}", "x-tidegate-attempt-id": attempt, **headers},
        )


def targets(simulator: RunningSimulator, *paths: str) -> list[Target]:
    """One target per provider, or one per path."""
    return [
        Target(
            id=TargetId(name + path), dialect="openai", base_url=simulator.base_url(name) + path, model="m"
        )
        for name in simulator.ports
        for path in paths or ("",)
    ]


async def test_a_bill_has_every_billed_line_and_is_complete_until_it_was_drawn() -> None:
    simulator = await start(load({"providers": [provider("one"), provider("two")]}))
    try:
        await call(simulator, "a1")
        await call(simulator, "a2", **{"x-sim-fault": "503"})
        await call(simulator, "a3", **{"x-sim-fault": "hidden_usage"})
        clock = SystemClock()
        bills = Bills(targets(simulator), clock)
        before_ns = clock.wall_ns()
        one, two = await bills.fetch()
        assert [line.attempt for line in one.lines] == ["a1", "a3"]
        assert [line.tokens.known_input() for line in one.lines] == [100, 100]
        assert two.lines == ()
        assert (one.provider, set(one.targets)) == ("one", {"one"})
        assert before_ns <= (one.complete_until_ns or 0) <= clock.wall_ns()
        assert bills.totals == {"one": sum(line.cost_nanousd for line in one.lines), "two": 0}
        assert await bills.cost_nanousd(TargetId("one"), "a1") == one.lines[0].cost_nanousd > 0
        assert await bills.cost_nanousd(TargetId("one"), "a2") == 0
        assert await bills.cost_nanousd(TargetId("one"), "never sent") == 0
    finally:
        await simulator.stop()


GOOD = {"input_uncached": 10, "output": 2}
HUGE = 10**25


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cost_nanousd": HUGE}, "cost_nanousd"),
        ({"cost_nanousd": billing.MAX_LINE_NANOUSD + 1}, "cost_nanousd"),
        ({"cost_nanousd": -5}, "cost_nanousd"),
        ({"cost_nanousd": None}, "cost_nanousd"),
        ({"tokens": {"input_uncached": HUGE}}, "tokens.input_uncached"),
        ({"tokens": {"output": -10}}, "tokens.output"),
        ({"tokens": {"web_searches": billing.MAX_LINE_COUNT + 1}}, "tokens.web_searches"),
        ({"tokens": {"output": 1e300}}, "tokens.output"),
        ({"tokens": "many"}, "tokens"),
    ],
)
def test_a_line_beyond_all_reason_is_told_with_its_place_and_attempt_and_not_taken(
    wrong: dict[str, object], named: str
) -> None:
    line = {"attempt": "a1", "billed": True, "tokens": GOOD, "cost_nanousd": 7, **wrong}
    found = billing.read_line("prov", 3, msgspec.Raw(json.dumps(line).encode()))
    assert isinstance(found, AbsurdLine)
    assert (found.provider, found.line, found.attempt) == ("prov", 3, "a1")
    assert f"`$.{named}`" in found.reason


@pytest.mark.parametrize("line", [7, {"attempt": 7, "tokens": {}}, {"cost_nanousd": 1}])
def test_a_line_that_names_no_attempt_is_told_without_one(line: object) -> None:
    found = billing.read_line("prov", 1, msgspec.Raw(json.dumps(line).encode()))
    assert isinstance(found, AbsurdLine)
    assert found.attempt is None


def test_a_line_at_the_bounds_is_taken() -> None:
    most = {
        "attempt": None,
        "billed": True,
        "tokens": {"input_uncached": billing.MAX_LINE_COUNT, "output": 0},
        "cost_nanousd": billing.MAX_LINE_NANOUSD,
    }
    found = billing.read_line("prov", 1, msgspec.Raw(json.dumps(most).encode()))
    assert isinstance(found, BillLine)
    assert (found.cost_nanousd, found.tokens.output) == (billing.MAX_LINE_NANOUSD, 0)


async def test_one_absurd_line_leaves_the_others_of_its_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = await start(load({"providers": [provider("one")]}))
    monkeypatch.setattr(billing, "MAX_LINE_COUNT", 150)  # the second call reads 100 tokens, the first 200
    try:
        await call(simulator, "a1", "w" * 800)
        await call(simulator, "a2")
        (bill,) = await Bills(targets(simulator), SystemClock()).fetch()
        assert [line.attempt for line in bill.lines] == ["a2"]
        assert [(line.line, line.attempt) for line in bill.absurd] == [(1, "a1")]
        assert bill.is_silent_of(AttemptId("a1"))
        assert bill.is_complete
    finally:
        await simulator.stop()


async def test_a_bill_begins_when_its_provider_did() -> None:
    clock = SystemClock()
    before_ns = clock.wall_ns()
    simulator = await start(load({"providers": [provider("one")]}))
    try:
        (bill,) = await Bills(targets(simulator), clock).fetch()
        assert before_ns - 1_000_000 <= bill.complete_from_ns <= clock.wall_ns()
    finally:
        await simulator.stop()


async def test_bills_of_targets_of_former_configs_are_asked_for_and_may_be_gone() -> None:
    simulator = await start(load({"providers": [provider("one"), provider("two")]}))
    one, two = targets(simulator)
    gone = msgspec.structs.replace(two, id=TargetId("gone"), base_url="http://127.0.0.1:9")
    renamed = msgspec.structs.replace(two, id=one.id)  # today's binding of an id counts
    try:
        found = await Bills([one], SystemClock(), [two, renamed, gone]).fetch()
        assert [set(bill.targets) for bill in found] == [{"one"}, {"two"}]
        with pytest.raises(billing.NoBill):
            await Bills([one, gone], SystemClock()).fetch()
    finally:
        await simulator.stop()


@contextlib.asynccontextmanager
async def stalling(simulator: RunningSimulator, attempt: str) -> AsyncIterator[None]:
    """A call that the provider goes on serving."""
    stalled = asyncio.ensure_future(call(simulator, attempt, **{"x-sim-fault": "header_stall"}))
    try:
        async with asyncio.timeout(10):
            while not simulator.engines["one"].reception.account.in_flight:
                await asyncio.sleep(0.005)
        yield
    finally:
        stalled.cancel()
        await asyncio.gather(stalled, return_exceptions=True)


async def test_what_is_still_being_served_is_open_on_the_bill_and_does_not_hold_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(billing, "PATIENCE_S", 0.1)
    simulator = await start(load({"providers": [provider("one")]}))
    try:
        async with stalling(simulator, "a1"):
            await call(simulator, "a2")
            bills = Bills(targets(simulator), SystemClock())
            (bill,) = await bills.fetch()
            assert bill.open == {"a1"}
            assert [line.attempt for line in bill.lines] == ["a2"]
            assert await bills.cost_nanousd(TargetId("one"), "a1") is None
    finally:
        await simulator.stop()


async def test_a_bill_waits_for_calls_that_end_soon_but_not_for_those_that_come_after_it_was_asked_for() -> (
    None
):
    simulator = await start(load({"providers": [provider("one")]}))
    try:
        ended, ends = asyncio.Event(), asyncio.Event()

        async def short() -> None:
            async with stalling(simulator, "a1"):
                ends.set()
                async with stalling(simulator, "a2"):
                    await asyncio.sleep(0.2)
            ended.set()

        running = asyncio.ensure_future(short())
        await ends.wait()
        (bill,) = await Bills(targets(simulator), SystemClock()).fetch()
        assert "a1" not in bill.open
        await running
    finally:
        await simulator.stop()


async def test_a_provider_that_is_gone_is_named() -> None:
    simulator = await start(load({"providers": [provider("one")]}))
    bills = Bills(targets(simulator), SystemClock())
    await simulator.stop()
    with pytest.raises(NoBill, match="/_sim/state does not answer"):
        await bills.fetch()


@pytest.mark.parametrize(
    ("base_url", "origin"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://localhost", "http://localhost:80"),
        ("https://example.com/a/b", "https://example.com:443"),
        ("http://[::1]:9/v1", "http://[::1]:9"),
    ],
)
def test_an_origin_is_scheme_host_and_port(base_url: str, origin: str) -> None:
    assert origin_of(Target(id=TargetId("t"), dialect="openai", base_url=base_url, model="m")) == origin


async def test_targets_of_one_origin_are_on_one_bill() -> None:
    simulator = await start(load({"providers": [provider("one"), provider("two")]}))
    try:
        one, two = await Bills(targets(simulator, "/a", "/b"), SystemClock()).fetch()
        assert [set(bill.targets) for bill in (one, two)] == [{"one/a", "one/b"}, {"two/a", "two/b"}]
    finally:
        await simulator.stop()


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        (b"HTTP/1.1 404 Not Found", b"", "answers 404: no simulated provider is there"),
        (b"HTTP/1.1 200 OK", b"<html>", "does not answer as a simulated provider would"),
        (
            b"HTTP/1.1 200 OK",
            b'{"provider":"one","in_flight":0}',
            "does not answer as a simulated provider would",
        ),
    ],
)
async def test_an_upstream_that_is_no_simulated_provider_is_named(
    head: bytes, body: bytes, said: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    other = Target(id=TargetId("real"), dialect="openai", base_url=f"{url}/v1", model="m")
    try:
        with pytest.raises(NoBill, match=f"{url}/_sim/state {said}"):
            await Bills([other], SystemClock()).fetch()
    finally:
        server.close()
        await server.wait_closed()


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
