"""TERM: readiness off at once, streams to their ends, nothing unflushed; a second TERM ends it now, and what was
open is settled by whoever owns the journal next."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from support.audit import (
    billed,
    check_bills,
    check_nothing_is_lost,
    check_settlements,
    read_book,
    sessions_of,
)
from support.fleet import Fleet, until
from support.traffic import Asked, Traffic
from tidegate.events.requests import RequestFinished

pytestmark = [pytest.mark.crash, pytest.mark.slow]
SLOW: dict[str, Any] = {"latency": {"ttft_ms": 5, "tokens_per_s": 20}, "faults": []}
ROUTES = ("chat", "messages")


async def test_term_lets_fifty_streams_end_and_leaves_nothing_unflushed(tmp_path: Path) -> None:
    settings = {"drain_delay_s": 5.0, "drain_grace_s": 60.0}
    async with (
        Fleet(tmp_path, gateway=settings, providers=SLOW) as fleet,
        Traffic(fleet.url, 0, 40) as traffic,
    ):
        await fleet.start("log", "gateway")
        gateway = fleet.processes["gateway"]
        streams = await traffic.begin_streams(50, "open", ROUTES)
        gateway.signal(signal.SIGTERM)
        await until(lambda: refuses(fleet), "readiness to go off")
        assert len(traffic.open) == 50, "readiness goes off before any stream has ended"
        late = await traffic.ask(Asked("late", "chat", streamed=True))
        assert late.fate == "finished", "until the listener closes, who does not know yet is served"
        ended = await asyncio.gather(*streams)
        assert [asked.fate for asked in ended] == ["finished"] * 50
        assert await gateway.ended() == 0, gateway.failure("did not end well")
        assert fleet.unsent() == {}, "the gateway ends once the log holds its journal"
        log = fleet.machine.open_log()
        book = await read_book(log)
        await log.close()
        check_nothing_is_lost(book, {"gw-0": 51 * 6}, fleet.machine.data_dir)
        check_settlements(book, traffic.asked)
        check_bills(book, await billed(fleet), set())
        finished = [event.data for event in book.events if isinstance(event.data, RequestFinished)]
        assert [data.outcome for data in finished] == ["completed"] * 51
        assert {settled.basis for (settled,) in book.settled.values()} == {"reported"}


async def refuses(fleet: Fleet) -> bool:
    return await fleet.status("gateway", "/readyz") == 503


async def test_a_stream_longer_than_the_grace_ends_with_an_error_and_is_settled(tmp_path: Path) -> None:
    settings = {"drain_grace_s": 0.2}
    async with (
        Fleet(tmp_path, gateway=settings, providers=SLOW) as fleet,
        Traffic(fleet.url, 0, 5_000) as traffic,
    ):
        await fleet.start("log", "gateway")
        streams = await traffic.begin_streams(6, "open", ROUTES)
        fleet.processes["gateway"].signal(signal.SIGTERM)
        ended = await asyncio.gather(*streams)
        assert {(asked.fate, asked.told) for asked in ended} == {("failed", "in band draining")}
        assert await fleet.processes["gateway"].ended() == 0
        book = await settled_book(fleet)
        check_settlements(book, ended)
        assert {settled.outcome for (settled,) in book.settled.values()} == {"cancelled"}
        check_bills(book, await billed(fleet), sessions_of(fleet, (asked.marker for asked in ended)))


async def settled_book(fleet: Fleet) -> Any:
    """The book once providers and relay have nothing left to do."""
    await fleet.wait_idle_upstream()
    await fleet.wait_relayed()
    log = fleet.machine.open_log()
    try:
        return await read_book(log)
    finally:
        await log.close()


@pytest.mark.parametrize("owner", ["gateway", "log"])
async def test_a_second_term_ends_at_once_and_the_next_owner_settles_what_was_open(
    tmp_path: Path, owner: str
) -> None:
    orphan_after_s = 0.3 if owner == "log" else 600.0
    log, settings = {"orphan_after_s": orphan_after_s}, {"drain_delay_s": 60.0}
    async with (
        Fleet(tmp_path, log=log, gateway=settings, providers=SLOW) as fleet,
        Traffic(fleet.url, 0, 5_000) as traffic,
    ):
        await fleet.start("log", "gateway")
        gateway = fleet.processes["gateway"]
        streams = await traffic.begin_streams(10, "open", ROUTES)
        gateway.signal(signal.SIGTERM)
        await until(lambda: refuses(fleet), "readiness to go off")
        gateway.signal(signal.SIGTERM)
        assert await gateway.ended(deadline_s=30) == 1  # the drain would take twice that
        ended = await asyncio.gather(*streams)
        assert {asked.fate for asked in ended} == {"unknown"}
        if owner == "gateway":
            await fleet.start("gateway")

        async def all_settled() -> bool:
            book = await settled_book(fleet)
            return len(book.settled) == 10

        await until(all_settled, "the next owner to settle")
        book = await settled_book(fleet)
        assert {settled.outcome for (settled,) in book.settled.values()} == {"orphaned"}
        check_bills(book, await billed(fleet), sessions_of(fleet, (asked.marker for asked in ended)))
        if owner == "log":
            await fleet.start("gateway")  # its journal goes on where the log role left it
        late = await traffic.ask(Asked("late", "chat", streamed=True), **{"x-sim-output-tokens": "3"})
        assert late.fate == "finished"
        book = await settled_book(fleet)
        check_settlements(book, [*ended, late])
        check_nothing_is_lost(book, {"gw-0": 10 * 5}, fleet.machine.data_dir)
