"""Owners and relays killed at any moment, beside a broker that hangs: the log holds every journal whole."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from support import relay_storm
from support.audit import check_nothing_is_lost, read_book
from support.journals import make_ids
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from support.kills import durable_seqs
from tidegate.events.clock import SystemClock
from tidegate.events.relay import Relay

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow, pytest.mark.nightly]
TESTS = Path(__file__).parents[1]
ROUNDS = 30


class Storm:
    """One owner and one relay; `strike` does something to them or to the broker."""

    def __init__(self, broker: Broker, prefix: str, data_dir: Path, rng: random.Random) -> None:
        self.cluster = broker.require("kill")
        self.random = rng
        self._commands = {
            "owner": [data_dir / "journals" / "gw-0"],
            "relay": [data_dir, broker.bootstrap, prefix],
        }
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self.done: dict[str, int] = {}

    async def start(self, name: str) -> None:
        more = [str(self.random.randrange(10**9))] if name == "owner" else []
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, relay_storm.__file__, name, *self._commands[name], *more),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        self._running[name] = process

    async def kill(self, name: str) -> None:
        process = self._running.pop(name)
        assert process.returncode is None, f"{name} ended by itself"
        process.kill()
        await process.communicate()

    async def pause(self, most_s: float) -> None:
        await asyncio.sleep(self.random.random() * most_s)  # the moment is to be arbitrary

    async def strike(self) -> None:
        what = self.random.choice(("relay", "owner", "owner late", "hang", "relay while it hangs"))
        self.done[what] = self.done.get(what, 0) + 1
        if "hang" in what:
            self.cluster.suspend(1)
        try:
            await self.pause(1.5 if what == "hang" else 0.2)
            if what != "hang":
                name = what.split()[0]
                await self.kill(name)
                await self.pause(1.0 if what == "owner late" else 0.0)
                await self.start(name)
            if "hang" in what:
                await self.pause(2.0)
        finally:
            if "hang" in what:
                self.cluster.resume(1)
        await self.pause(0.8)

    async def end(self) -> None:
        for name in list(self._running):
            await self.kill(name)


async def test_killed_owners_and_relays_and_a_hanging_broker_cost_no_event(
    kafka: Broker, tmp_path: Path
) -> None:
    settings, data_dir = kafka_settings(kafka), tmp_path / "data"
    storm = Storm(kafka, settings.prefix, data_dir, random.Random(ROUNDS))
    async with kafka_event_log(kafka, settings) as log:
        try:
            await storm.start("owner")
            await storm.start("relay")
            for _ in range(ROUNDS):
                await storm.strike()
        finally:
            await storm.end()
        clock = SystemClock()
        last = Relay(data_dir, log, clock, make_ids(clock, start=1))
        await last.drain()
        last.close()
        book = await read_book(log)
    check_nothing_is_lost(book, durable_seqs(data_dir), data_dir)
    assert {len(found) for found in book.settled.values()} == {1}
    assert book.settled.keys() == book.started.keys()
    assert book.repeated, "nothing was ever sent twice: no acknowledgement was lost"
