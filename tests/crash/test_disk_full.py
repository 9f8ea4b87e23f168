"""A full disk under the journal: nobody new is let in, whoever runs is settled, and nothing is lost."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.audit import audit
from support.fleet import Fleet, until
from support.tiny_disk import TinyDisk
from support.traffic import Asked, Traffic
from tidegate.events.journal.store import DB, RESERVE

pytestmark = [pytest.mark.crash, pytest.mark.slow]
ROUTES = ("chat", "messages")
ROLES = ("log", "estimator", "gateway")
DISK_BYTES = 12 << 20
RESERVE_BYTES = 1 << 20
SLOW: dict[str, Any] = {"latency": {"ttft_ms": 5, "tokens_per_s": 20}, "faults": []}


async def check_refused(fleet: Fleet, traffic: Traffic) -> None:
    """Not ready, and a new request is turned away before any provider hears of it."""
    calls = await provider_calls(fleet)
    for n in range(3):
        asked = await traffic.ask(Asked(f"refused-{n}", "chat", streamed=False))
        assert (asked.fate, asked.told) == ("failed", "503 journal_unwritable")
    assert await provider_calls(fleet) == calls


async def provider_calls(fleet: Fleet) -> int:
    return sum([len((await fleet.sim(name, "log"))["records"]) for name in fleet.ports])


async def readiness(fleet: Fleet, status: int) -> None:
    async def reached() -> bool:
        return await fleet.status("gateway", "/readyz") == status

    await until(reached, f"readiness {status}")


@asynccontextmanager
async def fleet_on(disk_folder: Path, folder: Path) -> AsyncGenerator[tuple[Fleet, TinyDisk]]:
    """A fleet whose gateway's journal lies on a small disk; every role sees it."""
    log = {"reserve_bytes": RESERVE_BYTES, "orphan_after_s": 600.0}
    with TinyDisk(disk_folder, DISK_BYTES) as disk:
        async with Fleet(folder, log=log, providers=SLOW) as fleet:
            for role in ROLES:
                fleet.role(role, wrapper=disk.wrapper)
            await fleet.start(*ROLES)
            fleet.hidden_journals["gw-0"] = disk.path(disk_folder)
            yield fleet, disk


async def test_a_full_disk_turns_new_requests_away_and_the_reserve_settles_what_runs(tmp_path: Path) -> None:
    journal = tmp_path / "data" / "journals" / "gw-0"
    async with fleet_on(journal, tmp_path) as (fleet, disk), Traffic(fleet.url, 0, 40) as traffic:
        running = await traffic.begin_streams(20, "runs", ROUTES)
        disk.fill()
        await readiness(fleet, 503)
        assert disk.path(journal / RESERVE).exists()
        await check_refused(fleet, traffic)
        ended = await asyncio.gather(*running)
        assert [asked.fate for asked in ended] == ["finished"] * 20
        assert not disk.path(journal / RESERVE).exists(), (
            "the settlements needed no reserve: the disk was not full"
        )
        await check_refused(fleet, traffic)

        disk.free()
        await readiness(fleet, 200)
        assert disk.path(journal / RESERVE).exists()
        again = await asyncio.gather(*await traffic.begin_streams(4, "again", ROUTES))
        assert [asked.fate for asked in again] == ["finished"] * 4
        for role in ROLES:
            assert fleet.is_running(role), fleet.processes[role].failure("ended while the disk was full")
        await audit(fleet, traffic, [], {})


async def test_a_journal_that_cannot_grow_ends_streams_with_an_error_and_settles_them_later(
    tmp_path: Path,
) -> None:
    async with Fleet(tmp_path, providers=SLOW) as fleet, AsyncExitStack() as calls:
        await fleet.start(*ROLES)
        traffic = await calls.enter_async_context(Traffic(fleet.url, 0, 40))
        running = await traffic.begin_streams(20, "runs", ROUTES)
        gateway = fleet.processes["gateway"].pid
        size = (tmp_path / "data" / "journals" / "gw-0" / f"{DB}-wal").stat().st_size
        unlimited = resource.prlimit(gateway, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        await check_refused(fleet, traffic)
        ended = await asyncio.gather(*running)
        assert {(asked.fate, asked.told) for asked in ended} == {("failed", "in band journal_unwritable")}

        resource.prlimit(gateway, resource.RLIMIT_FSIZE, unlimited)
        await readiness(fleet, 200)
        again = await asyncio.gather(*await traffic.begin_streams(4, "again", ROUTES))
        assert [asked.fate for asked in again] == ["finished"] * 4

        async def settled() -> bool:
            return (await fleet.numbers("gw-0"))["journal_open_attempts"] == 0

        await until(settled, "the settlements that could not be stored")
        book = await audit(fleet, traffic, [], {})
        assert {settled.basis for (settled,) in book.settled.values()} == {"reported"}
