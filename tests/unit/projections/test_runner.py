"""Following the log: commits with positions, stopped partitions, outages, memory."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support.history import History
from support.read_model import Heard, folded, memory_log, running, until
from tidegate.events.archive_log import ArchivedLog
from tidegate.events.archive_manifest import MANIFEST
from tidegate.events.envelope import Envelope
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.topics import REQUESTS, SIGNALS
from tidegate.projections import ingest
from tidegate.projections.batch import Part
from tidegate.projections.content import content
from tidegate.projections.errors import StoreUnusable
from tidegate.projections.rows import Place, Row, rows_of
from tidegate.projections.runner import Pace
from tidegate.projections.store import Store

pytestmark = pytest.mark.slow  # each opens databases

FUTURE = b'{"id":"x","type":"FromTheFuture","v":1,"ts":1,"source":"gw","seq":1,"data":{}}'


def fully(log: MemoryEventLog) -> dict[TopicPartition, int]:
    return {where: part.end for where, part in log.store.partitions.items()}


async def test_all_of_the_log_is_folded_and_positions_reach_its_ends(tmp_path: Path) -> None:
    history = History().day(60)
    log = await memory_log(history.outgoing())
    async with running(log, tmp_path / "m.duckdb") as (runner, store):
        await runner.catch_up()
        held = store.positions()
        assert all(held[where] == end for where, end in fully(log).items())
        assert runner.counts.events == len(history.events)


async def test_content_does_not_depend_on_how_records_are_cut_into_batches(tmp_path: Path) -> None:
    log = await memory_log(History().day(40).outgoing())
    whole = await folded(log, tmp_path / "whole.duckdb")
    sevens = await folded(
        log, tmp_path / "sevens.duckdb", pace=Pace(batch_records=7, linger_s=0, poll_s=0.05)
    )
    assert whole == sevens


async def test_a_restart_goes_on_where_the_last_commit_ended(tmp_path: Path) -> None:
    records = History().day(40).outgoing()
    log = await memory_log(records[:150])
    await folded(log, tmp_path / "m.duckdb")
    for record in records[150:]:
        await log.append([record])
    resumed = await folded(log, tmp_path / "m.duckdb")
    assert resumed == await folded(log, tmp_path / "once.duckdb")


async def test_a_live_runner_takes_what_is_appended_and_stops_when_told(tmp_path: Path) -> None:
    records = History().day(20).outgoing()
    log = await memory_log(records[:10])
    stop = asyncio.Event()
    async with running(log, tmp_path / "m.duckdb") as (runner, _):
        task = asyncio.ensure_future(runner.run(stop))
        await until(lambda: runner.counts.events == 10)
        for record in records[10:]:
            await log.append([record])
        await until(lambda: runner.counts.events == len(records))
        stop.set()
        await task


async def test_an_unknown_type_stops_its_partition_and_no_other(tmp_path: Path) -> None:
    history, heard = History().day(30), Heard()
    log = await memory_log(history.outgoing())
    await log.append([Outgoing(REQUESTS.name, 0, b"x", FUTURE)])
    halt_at = fully(log)[TopicPartition(REQUESTS.name, 0)] - 1
    more = History(seed=2).day(30)
    for record in more.outgoing():
        await log.append([record])
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, store):
        await runner.catch_up()
        held = store.positions()
        stuck = TopicPartition(REQUESTS.name, 0)
        assert held[stuck] == halt_at
        assert all(held[where] == end for where, end in fully(log).items() if where != stuck)
        assert [(halt.where, halt.position) for halt in heard.halts] == [(stuck, halt_at)]
        assert set(runner.halted) == {stuck}


async def test_a_stopped_partition_is_tried_again_at_the_next_start(tmp_path: Path) -> None:
    log, heard = await memory_log([Outgoing(REQUESTS.name, 0, b"x", FUTURE)]), Heard()
    await folded(log, tmp_path / "m.duckdb", heard)
    await folded(log, tmp_path / "m.duckdb", heard)
    assert len(heard.halts) == 2


def refused(status: int) -> Outgoing:
    data = b'{"key":"k","code":"x","status":%d}' % status
    return Outgoing(
        REQUESTS.name, 1, b"x", FUTURE.replace(b"FromTheFuture", b"RequestRefused").replace(b"{}", data)
    )


async def test_a_number_beyond_bounds_is_a_dead_letter_and_stops_nothing(tmp_path: Path) -> None:
    history, heard = History().day(30), Heard()
    log = await memory_log([refused(2**70), *history.outgoing()])
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, store):
        await runner.catch_up()
        assert (heard.halts, store.positions()) == ([], fully(log))
    ((record, reason),) = heard.dead
    assert (record.partition, record.offset) == (1, 0)
    assert "$.status" in reason


async def test_a_value_the_database_cannot_hold_stops_its_partition_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grown(place: Place, envelope: Envelope, data: Any) -> Iterator[tuple[str, Row]]:
        for table, row in rows_of(place, envelope, data):
            yield table, (*row[:-2], 2**70, row[-1]) if table == "r_refusals" and data.status == 599 else row

    monkeypatch.setattr(ingest, "rows_of", grown)
    history, heard = History().day(30), Heard()
    log = await memory_log(history.outgoing())
    await log.append([refused(599)])
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, store):
        await runner.catch_up()
        held = store.positions()
    stuck = TopicPartition(REQUESTS.name, 1)
    assert [halt.where for halt in heard.halts] == [stuck]
    assert held[stuck] == 0
    assert all(held[where] == end for where, end in fully(log).items() if where != stuck)


async def test_bytes_that_are_no_envelope_are_reported_and_passed(tmp_path: Path) -> None:
    heard = Heard()
    log = await memory_log([Outgoing(SIGNALS.name, 3, b"k", b"not json")])
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, store):
        await runner.catch_up()
        assert store.positions()[TopicPartition(SIGNALS.name, 3)] == 1
        assert runner.counts.poison == 1
    ((record, reason),) = heard.dead
    assert (record.topic, record.partition, record.offset) == (SIGNALS.name, 3, 0)
    assert "no envelope" in reason


async def test_a_dead_letter_that_cannot_be_kept_holds_the_commit_and_loses_nothing(tmp_path: Path) -> None:
    history = History().day(20)
    log = await memory_log(history.outgoing())
    await log.append([Outgoing(SIGNALS.name, 3, b"k", b"not json")])

    class Flaky(Heard):
        failures = 3

        async def dead_letter(self, record: Record, reason: str, /) -> None:
            if self.failures:
                self.failures -= 1
                raise LogUnavailable("the dead letter cannot be written")
            await super().dead_letter(record, reason)

    heard, stop = Flaky(), asyncio.Event()
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, store):
        task = asyncio.ensure_future(runner.run(stop))
        await until(lambda: bool(heard.dead) and runner.counts.events == len(history.events))
        stop.set()
        await task
        assert runner.counts.log_retries == 3
        held = content(store.connection)
    clean = await folded(await memory_log(history.outgoing()), tmp_path / "clean.duckdb")
    assert held == clean


async def test_a_log_that_is_away_is_tried_again_until_it_is_back(tmp_path: Path) -> None:
    history = History().day(10)

    class Away(MemoryEventLog):
        refusals = 2

        async def begin(self, where: TopicPartition) -> int:
            if self.refusals:
                self.refusals -= 1
                raise LogUnavailable("away")
            return await super().begin(where)

    there = await memory_log(history.outgoing())
    log, stop = Away(there._clock, there.store), asyncio.Event()
    async with running(log, tmp_path / "m.duckdb") as (runner, _):
        task = asyncio.ensure_future(runner.run(stop))
        await until(lambda: runner.counts.events == len(history.events))
        stop.set()
        await task
        assert runner.counts.log_retries == 2


async def test_a_damaged_archive_is_told_once_and_followed_again_when_it_is_mended(tmp_path: Path) -> None:
    history = History().day(10)
    manifest, stop, heard = tmp_path / "archive" / MANIFEST, asyncio.Event(), Heard()
    manifest.parent.mkdir()
    manifest.write_text("garbage{\n")
    log = ArchivedLog(await memory_log(history.outgoing()), manifest.parent)
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, _):
        task = asyncio.ensure_future(runner.run(stop))
        await until(lambda: runner.counts.log_retries >= 2)
        assert runner.damage is not None
        manifest.unlink()
        await until(lambda: runner.counts.events == len(history.events))
        stop.set()
        await task
        assert runner.damage is None
    (damage,) = heard.damages
    assert str(manifest) in damage


class Hungry(Store):
    """Has no memory for the first batches it is given."""

    refusals = 3
    sizes: list[int]

    def apply(self, parts: Sequence[Part]) -> None:
        self.sizes.append(len(parts))
        if self.refusals:
            self.refusals -= 1
            raise duckdb.OutOfMemoryException("no memory")
        super().apply(parts)


async def test_a_batch_that_finds_no_memory_is_tried_again_in_smaller_pieces(tmp_path: Path) -> None:
    history = History().day(20)
    log = await memory_log(history.outgoing())
    async with running(log, tmp_path / "m.duckdb") as (runner, store):
        store.__class__ = Hungry
        assert isinstance(store, Hungry)
        store.sizes = []
        await runner.catch_up()
        assert runner.counts.memory_retries == 3
        assert store.sizes[0] > 1
        assert set(store.sizes[1:]) == {1}
        held = content(store.connection)
    assert held == await folded(log, tmp_path / "calm.duckdb")


async def test_a_database_that_cannot_be_written_ends_the_runner(tmp_path: Path) -> None:
    log = await memory_log(History().day(5).outgoing())
    async with running(log, tmp_path / "m.duckdb") as (runner, store):

        def full(_: Any) -> None:
            raise duckdb.IOException("no space left")

        store.apply = full  # type: ignore[method-assign]
        with pytest.raises(StoreUnusable, match="no space left"):
            await runner.run(asyncio.Event())


async def test_records_the_log_no_longer_holds_are_named_as_a_gap(tmp_path: Path) -> None:
    log = await memory_log(History().day(30).outgoing())
    where = next(at for at, end in fully(log).items() if end > 5 and at.topic == REQUESTS.name)
    await log.delete_before(where, 4)
    async with running(log, tmp_path / "m.duckdb") as (runner, _):
        await runner.catch_up()
        assert [(gap.partition, gap.position, gap.oldest) for gap in runner.gaps.values()] == [
            (where.partition, 0, 4)
        ]


async def test_gaps_of_transaction_markers_are_no_lag(tmp_path: Path) -> None:
    log = await memory_log()
    writer = await log.writer("w")
    for record in History().day(3).outgoing():
        await writer.commit([record])
    async with running(log, tmp_path / "m.duckdb") as (runner, store):
        await runner.catch_up()
        held: Mapping[TopicPartition, int] = store.positions()
        assert all(held[where] == end for where, end in fully(log).items())
