"""A rebuild gives identical content, and takes the place of the live file without losing anything."""

import asyncio
from pathlib import Path

import pytest

from support.history import History
from support.read_model import LIMITS, PACE, Heard, asked, folded, memory_log, rows_in, until
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing
from tidegate.events.topics import REQUESTS
from tidegate.projections.content import content
from tidegate.projections.errors import StoreUnusable
from tidegate.projections.projector import Projector
from tidegate.projections.protocol import Ask
from tidegate.projections.rebuild import adopt, next_path, rebuild
from tidegate.projections.store import Store

pytestmark = pytest.mark.slow  # each opens databases


def held(path: Path) -> tuple[object, object]:
    store = Store.open(path, LIMITS)
    try:
        return content(store.connection), store.positions()
    finally:
        store.close()


async def test_a_rebuild_is_identical_to_what_was_folded_in_small_steps(tmp_path: Path) -> None:
    path, records = tmp_path / "m.duckdb", History().day(60).outgoing()
    log = await memory_log()
    for cut in range(0, len(records), 90):
        for record in records[cut : cut + 90]:
            await log.append([record])
        await folded(log, path)
    before = held(path)
    steps: list[tuple[int, int]] = []
    rebuilt = await rebuild(log, path, LIMITS, lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1] == (len(records), len(records))
    assert (rebuilt.content, rebuilt.halted, rebuilt.gaps) == (before[0], (), ())
    assert rebuilt.events == len(records)
    swapped = adopt(path, LIMITS)
    assert (swapped.swapped, swapped.compared, swapped.differing) == (True, True, ())
    assert held(path) == before
    assert not next_path(path).exists()


async def test_a_live_file_that_is_behind_or_ahead_is_compared_as_far_as_both_have_come(
    tmp_path: Path,
) -> None:
    records = History().day(60).outgoing()
    for live_records, rebuilt_records in ((150, len(records)), (len(records), 150)):
        path = tmp_path / f"{live_records}.duckdb"
        await folded(await memory_log(records[:live_records]), path)
        await rebuild(await memory_log(records[:rebuilt_records]), path, LIMITS)
        assert adopt(path, LIMITS).swapped
        assert asked(path, "SELECT sum(next_offset) FROM positions") == [(rebuilt_records,)]


async def test_a_rebuild_that_differs_is_named_and_not_taken_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    log = await memory_log(History().day(30).outgoing())
    await folded(log, path)
    store = Store.open(path, LIMITS)
    store.connection.execute("DELETE FROM r_settlements WHERE rowid = 0")
    store.close()
    tampered = held(path)
    await rebuild(log, path, LIMITS)
    refused = adopt(path, LIMITS)
    assert (refused.swapped, refused.differing) == (False, ("r_settlements",))
    assert held(path) == tampered
    assert adopt(path, LIMITS, force=True).swapped
    assert held(path)[0] == await folded(log, tmp_path / "clean.duckdb")
    assert held(path.with_name("m.duckdb.old")) == tampered


async def test_a_live_file_that_cannot_be_read_is_replaced_uncompared(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    path.write_bytes(b"junk" * 5_000)
    log = await memory_log(History().day(10).outgoing())
    await rebuild(log, path, LIMITS)
    swapped = adopt(path, LIMITS)
    assert (swapped.swapped, swapped.compared) == (True, False)
    assert held(path)[0] == await folded(log, tmp_path / "clean.duckdb")


async def test_without_a_rebuilt_file_there_is_nothing_to_swap(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="no rebuilt file"):
        adopt(tmp_path / "m.duckdb", LIMITS)


async def test_a_rebuild_starts_from_nothing_even_over_the_rest_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    log = await memory_log(History().day(10).outgoing())
    next_path(path).write_bytes(b"half a database")
    next_path(path).with_name(next_path(path).name + ".wal").write_bytes(b"half a log")
    assert (await rebuild(log, path, LIMITS)).content == await folded(log, tmp_path / "clean.duckdb")


async def test_a_rebuild_reports_what_it_could_not_read(tmp_path: Path) -> None:
    log = await memory_log(History().day(30).outgoing())
    await log.append([unknown_at_the_end(), Outgoing(REQUESTS.name, 1, b"x", b"junk")])
    where = next(at for at, part in log.store.partitions.items() if part.end > 5 and at.partition > 1)
    await log.delete_before(where, 3)
    rebuilt = await rebuild(log, tmp_path / "m.duckdb", LIMITS)
    assert [halt.where.partition for halt in rebuilt.halted] == [0]
    assert [(gap.topic, gap.partition, gap.oldest) for gap in rebuilt.gaps] == [(*where, 3)]
    dead = rebuilt.dead_letters
    assert (dead.count, dead.topic) == (1, "tidegate.deadletter.v1")
    assert [(each.topic, each.partition) for each in dead.first] == [(REQUESTS.name, 1)]


FUTURE = b'{"id":"x","type":"FromTheFuture","v":1,"ts":1,"source":"gw","seq":1,"data":{}}'


def unknown_at_the_end(partition: int = 0) -> Outgoing:
    """A record of a newer version: an older build stops there."""
    return Outgoing(REQUESTS.name, partition, b"x", FUTURE)


async def whole_file_and_half_rebuild(path: Path) -> MemoryEventLog:
    """A live file that holds a day; the rebuild stopped where an event of that day is unknown to it."""
    records = History().day(20).outgoing()
    await folded(await memory_log(records), path)
    stop = next(place for place, record in enumerate(records) if record.topic == REQUESTS.name)
    spoilt = [*records[:stop], unknown_at_the_end(records[stop].partition), *records[stop + 1 :]]
    log = await memory_log(spoilt)
    assert (await rebuild(log, path, LIMITS)).halted
    return log


async def test_a_rebuild_that_stopped_half_way_replaces_a_whole_file_only_by_force_and_that_is_kept(
    tmp_path: Path,
) -> None:
    path, old = tmp_path / "m.duckdb", tmp_path / "m.duckdb.old"
    await whole_file_and_half_rebuild(path)
    before = held(path)
    refused = adopt(path, LIMITS)
    assert (refused.swapped, refused.kept) == (False, None)
    assert "unknown type" in " ".join(refused.unread)
    assert (held(path), old.exists()) == (before, False)
    forced = adopt(path, LIMITS, force=True)
    assert (forced.swapped, forced.kept, len(forced.unread)) == (True, str(old), 1)
    assert held(old) == before
    assert held(path) != before


async def test_a_rebuild_of_a_log_with_a_gap_is_not_taken_even_where_nothing_is_live(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    log = await memory_log(History().day(30).outgoing())
    where = next(at for at, part in log.store.partitions.items() if part.end > 5)
    await log.delete_before(where, 3)
    await rebuild(log, path, LIMITS)
    refused = adopt(path, LIMITS)
    assert (refused.swapped, refused.compared) == (False, False)
    assert refused.unread == (
        f"{where.topic}/{where.partition}: the log no longer has the records from 0 to before 3",
    )
    forced = adopt(path, LIMITS, force=True)
    assert (forced.swapped, forced.kept) == (True, None)


class Running:
    """A projector in this loop."""

    def __init__(self, log: MemoryEventLog, folder: Path) -> None:
        self.heard = Heard()
        self.projector = Projector(
            log,
            folder / "m.duckdb",
            folder / "m.sock",
            dead_letters=self.heard.dead_letter,
            alarm=self.heard,
            limits=LIMITS,
            pace=PACE,
        )
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self.projector.run(self.stop))

    async def ready(self) -> Projector:
        waiting = asyncio.ensure_future(self.projector.ready.wait())
        await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.task.done():
            self.task.result()
        return self.projector

    async def end(self) -> None:
        self.stop.set()
        await self.task


async def test_a_running_projector_takes_the_rebuilt_file_over_and_goes_on(tmp_path: Path) -> None:
    records = History().day(60).outgoing()
    log = await memory_log(records[:200])
    running = Running(log, tmp_path)
    projector = await running.ready()
    await until(lambda: projector.status().counts.events == 200)
    await rebuild(log, tmp_path / "m.duckdb", LIMITS)
    for record in records[200:]:
        await log.append([record])
    swapped = await projector.swap(force=False)
    assert (swapped.swapped, swapped.differing) == (True, ())
    wanted = [(at.topic, at.partition, part.end) for at, part in log.store.partitions.items()]
    total = "SELECT count(*) FROM r_settlements"
    answer = await projector.query(Ask(sql=total, min_position=wanted))
    await running.end()
    await folded(log, tmp_path / "clean.duckdb")
    assert [tuple(row) for row in rows_in(answer)] == asked(tmp_path / "clean.duckdb", total)


async def test_a_running_projector_refuses_a_rebuild_that_stopped_half_way_and_goes_on(
    tmp_path: Path,
) -> None:
    log = await whole_file_and_half_rebuild(tmp_path / "m.duckdb")
    before = held(tmp_path / "m.duckdb")
    running = Running(log, tmp_path)
    projector = await running.ready()
    refused = await projector.swap(force=False)
    assert (refused.swapped, len(refused.unread)) == (False, 1)
    assert rows_in(await projector.query(Ask(sql="SELECT count(*) FROM v_requests"))) == [[20]]
    forced = await projector.swap(force=True)
    await running.end()
    assert (forced.swapped, forced.kept) == (True, str(tmp_path / "m.duckdb.old"))
    assert held(tmp_path / "m.duckdb.old") == before


async def test_a_swap_that_is_refused_leaves_the_projector_running(tmp_path: Path) -> None:
    log = await memory_log(History().day(5).outgoing())
    running = Running(log, tmp_path)
    projector = await running.ready()
    with pytest.raises(StoreUnusable, match="no rebuilt file"):
        await projector.swap(force=False)
    assert rows_in(await projector.query(Ask(sql="SELECT 1"))) == [[1]]
    await running.end()


async def test_a_damaged_database_is_rebuilt_from_the_log_with_an_alarm(tmp_path: Path) -> None:
    (tmp_path / "m.duckdb").write_bytes(b"junk" * 5_000)
    log = await memory_log(History().day(20).outgoing())
    running = Running(log, tmp_path)
    projector = await running.ready()
    ends = sum(part.end for part in log.store.partitions.values())
    await until(lambda: projector.status().counts.events == ends)
    assert projector.status().started_over
    await running.end()
    ((aside, reason),) = running.heard.restarts
    assert aside == tmp_path / "m.duckdb.broken"
    assert "cannot be opened" in reason
    assert held(tmp_path / "m.duckdb")[0] == await folded(log, tmp_path / "clean.duckdb")
