"""Whatever holds the log, the read model, the ledger and the replay made from it are the same."""

from pathlib import Path

import msgspec
import pytest

from support.history import History, append
from support.log_reading import OpenLog
from support.planning import plan as decide_on
from support.planning_worlds import world_of
from support.read_model import asked, folded, memory_log
from tidegate.analytics.ledger import read_ledger
from tidegate.analytics.replay_verify import ReplayReport, verify
from tidegate.events.control import ConfigPublished
from tidegate.events.log.port import EventLog
from tidegate.events.topics import CONTROL, REQUESTS, SNAPSHOTS
from tidegate.planner.replay import verify as verify_one
from tidegate.planner.view import view_of
from tidegate.projections.tables import TABLES

pytestmark = pytest.mark.slow  # real files, real databases

WORLDS = 40


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every table without the offsets, which are each log's own."""
    return {
        table.name: sorted(asked(path, f"SELECT * EXCLUDE (log_offset) FROM {table.name}"), key=repr)
        for table in TABLES
    }


async def test_every_log_gives_the_same_read_model(event_log_factory: OpenLog, tmp_path: Path) -> None:
    records = History().day(25).outgoing()
    log = await event_log_factory()
    await append(log, records)
    await folded(log, tmp_path / "this.duckdb")
    await folded(await memory_log(records), tmp_path / "memory.duckdb")
    assert rows_of(tmp_path / "this.duckdb") == rows_of(tmp_path / "memory.duckdb")


async def test_every_log_gives_the_same_ledger(event_log_factory: OpenLog) -> None:
    records = History().day(25).outgoing()
    log = await event_log_factory()
    await append(log, records)
    this, memory = await read_ledger(log), await read_ledger(await memory_log(records))
    assert this.entries == memory.entries
    assert this.open == memory.open


async def replayed(log: EventLog, tamper: int | None = None) -> ReplayReport:
    """Decisions over many worlds written to the log, then replayed from it; one of them may be falsified."""
    history = History()
    for n in range(WORLDS):
        world = world_of(n)
        view = view_of(world.routing, world.snapshots)
        history.write(
            CONTROL, view.digest, view.digest,
            ConfigPublished(digest=view.digest, routing=world.routing, actor="op"), slot="ctl",
        )  # fmt: skip
        # Subjects of different worlds share names: versions tell their snapshots apart, as they do in life.
        snapshots = {
            subject: msgspec.structs.replace(snapshot, version=1_000 * n + snapshot.version)
            for subject, snapshot in world.snapshots.items()
        }
        for subject, snapshot in snapshots.items():
            history.write(SNAPSHOTS, subject, subject, snapshot, slot="est")
        made = decide_on(view_of(world.routing, snapshots), world.ask, world.local, seed=n)
        made = msgspec.structs.replace(made, decision=f"d-{n}")
        if n == tamper:
            made = msgspec.structs.replace(made, seed=made.seed + 1, strategy="declared-otherwise")
        history.write(REQUESTS, f"s{n}", f"r{n}", made, tenant="acme", request=f"r{n}", session=f"s{n}")
    await append(log, history.outgoing())
    return await verify(log, verify_one)


async def test_decisions_of_the_planner_replay_bit_by_bit_from_every_log(event_log_factory: OpenLog) -> None:
    report = await replayed(await event_log_factory())
    assert (report.decisions, report.identical) == (WORLDS, WORLDS)


async def test_one_falsified_decision_among_many_is_found_with_the_field_that_differs() -> None:
    report = await replayed(await memory_log(), tamper=17)
    assert (report.identical, report.different) == (WORLDS - 1, 1)
    (example,) = report.examples
    assert (example.decision, example.request) == ("d-17", "r17")
    assert example.detail.startswith("strategy: 'declared-otherwise' !=")
    assert not report.is_clean
