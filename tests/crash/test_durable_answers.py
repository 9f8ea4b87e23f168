"""An answer that a client saw whole is settled in the journal, on disk, whenever the gateway is killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.fleet import Fleet
from support.traffic import Traffic
from tidegate.events import codec
from tidegate.events.journal import frames
from tidegate.events.journal.store import JournalTail
from tidegate.events.journal.sync import SyncedMark
from tidegate.events.signals import UsageSettled
from tidegate.events.types import Durability

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def settled_in(folder: Path) -> dict[str | None, int]:
    """Seq of the settlement of each request that a journal says was completed."""
    tail = JournalTail(folder)
    try:
        rows = tail.rows(0, 1 << 60, -1)
    finally:
        tail.close()
    found: dict[str | None, int] = {}
    for frame in (frame for row in rows for frame in frames.unpack(row.frames)):
        if frame.flag == frames.SETTLED:
            envelope = codec.decode_envelope(frame.value)
            data = codec.decode_data(envelope)
            if isinstance(data, UsageSettled) and data.outcome == "completed":
                found[envelope.request] = envelope.seq
    return found


@pytest.mark.parametrize(
    ("durability", "kills"),
    [
        ("strict", 3),
        pytest.param("strict", 30, marks=pytest.mark.nightly),
        pytest.param("fast", 30, marks=pytest.mark.nightly),
    ],
)
async def test_what_a_client_saw_whole_is_settled_when_the_gateway_is_killed(
    tmp_path: Path, durability: Durability, kills: int
) -> None:
    rng = random.Random(kills)
    journal = tmp_path / "data" / "journals" / "gw-0"
    async with Fleet(tmp_path, durability=durability) as fleet:
        await fleet.start("gateway")
        async with Traffic(fleet.url, clients=12) as traffic:
            for kill in range(kills):
                await traffic.more(rng.randrange(5, 40), f"before kill {kill}")
                told = await traffic.next_finished()
                fleet.kill("gateway")  # while the terminal marker is still warm
                settled = settled_in(journal)
                mark = SyncedMark(journal)
                synced = mark.read()
                mark.close()
                for asked in (told, *traffic.of("finished")):
                    assert asked.request in settled, asked
                    if durability == "strict":
                        assert settled[asked.request] <= synced, f"{asked} was told before it was on disk"
                await fleet.start("gateway")
            traffic.stop()
