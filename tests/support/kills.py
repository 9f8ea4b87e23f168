"""Kills roles of a fleet under load and remembers what must be true afterwards."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from support.audit import Book, audit
from support.fleet import Fleet
from support.traffic import Traffic
from tidegate.events.journal.journal import journal_folders
from tidegate.events.journal.sync import SyncedMark


class Killer:
    """`kill` ends a role at an arbitrary moment and brings it back, while requests go on where they can."""

    def __init__(self, fleet: Fleet, traffic: Traffic, rng: random.Random) -> None:
        self.fleet = fleet
        self.traffic = traffic
        self._random = rng
        self.history: list[str] = []
        """Roles in the order they were killed."""
        self.at_kills: set[str] = set()
        """Markers of requests that were open when a gateway was killed."""
        self.durable: dict[str, int] = {}
        """Newest synced seq of each journal at any kill."""

    async def kill(self, role: str) -> None:
        """The moment is an arbitrary number of finished requests away."""
        traffic = self.traffic
        await traffic.more(self._random.randrange(2, 25), f"before {role} is killed")
        self.history.append(role)
        if role == "gateway":
            self.at_kills |= traffic.open
        unknown = len(traffic.of("unknown"))
        self.fleet.kill(role)
        self._note_durable()
        if role != "gateway":
            await traffic.more(self._random.randrange(2, 12), f"without {role}")
            assert len(traffic.of("unknown")) == unknown, f"clients noticed the end of {role}"
        await self.fleet.start(role)

    def _note_durable(self) -> None:
        for slot, seq in durable_seqs(self.fleet.machine.data_dir).items():
            self.durable[slot] = max(seq, self.durable.get(slot, 0))

    async def audit(self) -> Book:
        """Every promise, after the load has ended."""
        book = await audit(self.fleet, self.traffic, self.at_kills, self.durable)
        settlements = [settled for (settled,) in book.settled.values()]
        assert {settled.basis for settled in settlements} == {"reported", "none", "estimated"}
        if "gateway" in self.history:
            outcomes = {settled.outcome for settled in settlements}
            assert "orphaned" in outcomes, "no kill met an attempt"
        return book


def durable_seqs(data_dir: Path) -> dict[str, int]:
    """By slot, the newest seq that its journal calls synced."""
    found = {}
    for folder in journal_folders(data_dir):
        mark = SyncedMark(folder)
        found[folder.name] = mark.read()
        mark.close()
    return found


async def kill_under_load(fleet: Fleet, roles: Sequence[str], kills: int) -> Killer:
    """Kill each of the roles so often, one at a time, in a mixed order; the load has ended afterwards."""
    rng = random.Random(f"{roles} {kills}")
    order = [role for role in roles for _ in range(kills)]
    rng.shuffle(order)
    async with Traffic(fleet.url) as traffic:
        killer = Killer(fleet, traffic, rng)
        for role in order:
            await killer.kill(role)
        await traffic.more(40, "after the last kill")
    return killer
