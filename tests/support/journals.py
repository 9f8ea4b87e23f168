"""Makes journals and events for tests."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from tidegate.events.clock import Clock, ManualClock
from tidegate.events.ids import IdSource
from tidegate.events.journal.journal import Journal, journal_folders, read_position
from tidegate.events.journal.receipt import Context
from tidegate.events.journal.store import JournalTail
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.signals import AttemptStarted, UsageSettled
from tidegate.events.types import AttemptId, Durability, PoolId, TargetId

PRICE = ListPrice(input_uncached=3_000_000_000, output=15_000_000_000)
CONTEXT = Context(tenant="acme", request="r1", session="s1")
_counter = itertools.count(1)


def make_ids(clock: Clock | None = None, start: int = 0) -> IdSource:
    return IdSource(clock or ManualClock(), random.Random(start).getrandbits)


async def open_journal(
    folder: Path,
    *,
    clock: Clock | None = None,
    durability: Durability = "strict",
    start: int = 0,
    **options: int,
) -> Journal:
    clock = clock or ManualClock()
    options.setdefault("reserve_bytes", 65_536)
    return await Journal.open(folder, clock, make_ids(clock, start), durability=durability, **options)


def started(attempt: str | None = None, pool: str = "plan", target: str = "t1") -> AttemptStarted:
    return AttemptStarted(
        attempt=AttemptId(attempt or f"a{next(_counter)}"),
        target=TargetId(target),
        pool=PoolId(pool),
        route="fast",
        index=0,
        input_tokens=1_000,
        reserve_output_tokens=500,
        price=PRICE,
    )


def settled(start: AttemptStarted, *, input_tokens: int = 1_000, output: int = 40) -> UsageSettled:
    return UsageSettled(
        attempt=start.attempt,
        target=start.target,
        pool=start.pool,
        route=start.route,
        basis="reported",
        outcome="completed",
        tokens=Tokens(input_uncached=input_tokens, output=output),
        cost_nanousd=input_tokens * 3_000 + output * 15_000,
        price=start.price,
    )


def unsent(data_dir: Path) -> dict[str, int]:
    """Per slot, the newest seq in its journal that the relay has not moved on from."""
    found = {}
    for folder in journal_folders(data_dir):
        tail = JournalTail(folder)
        try:
            rows = tail.rows(read_position(folder), 1 << 60, -1)
        finally:
            tail.close()
        if rows:
            found[folder.name] = rows[-1].last_seq
    return found
