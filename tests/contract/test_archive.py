"""The log is archive + live topics: exact seam, nothing twice, nothing lost, whatever is interrupted."""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.log_reading import drain, numbers, outgoing, read_all, read_from
from tidegate.events.archive import Archiver
from tidegate.events.archive_alone import ArchiveAlone
from tidegate.events.archive_log import ArchivedLog
from tidegate.events.archive_manifest import Manifest
from tidegate.events.archive_parquet import read_piece
from tidegate.events.archive_retention import delete_archived
from tidegate.events.archive_verify import verify
from tidegate.events.clock import ManualClock
from tidegate.events.errors import LogCorrupt, LogUnavailable
from tidegate.events.log.memory import MemoryEventLog, MemoryStore
from tidegate.events.log.port import Outgoing, Reader, Record, TopicPartition
from tidegate.events.topics import ROLES, SIGNALS, SNAPSHOTS

A = TopicPartition(SIGNALS.name, 0)
B = TopicPartition(SIGNALS.name, 11)
SNAP = TopicPartition(SNAPSHOTS.name, 4)
PLACES = [A, B, SNAP]
DAY_NS = 86_400 * 1_000_000_000
FOREVER_NS = 1 << 62


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def live(clock: ManualClock) -> MemoryEventLog:
    return MemoryEventLog(clock)


async def archive(log: Any, folder: Path, until_ns: int = FOREVER_NS, **limits: int) -> int:
    """Files written by one run of a fresh archiver."""
    archiver = Archiver(log, folder, **limits)
    try:
        return (await archiver.run(until_ns)).files
    finally:
        archiver.close()


async def test_raw_records_come_back_from_parquet_with_their_positions(
    tmp_path: Path, live: MemoryEventLog
) -> None:
    envelope = msgspec.json.encode({"id": "x", "type": "UsageSettled", "v": 1, "ts": 5, "tenant": "acme"})
    await live.append(
        [
            Outgoing(*A, b"\x00\xff", envelope),
            Outgoing(*A, b"", None),
            Outgoing(*A, b"k", b""),
            Outgoing(*A, b"k", b"\xffnot json"),
            Outgoing(*A, b"k", b'{"type":1}'),
            Outgoing(*A, b"k", b'{"ts":99999999999999999999999}'),
        ]
    )
    truth = await read_all(live, [A])
    await archive(live, tmp_path)

    (path,) = tmp_path.rglob("*.parquet")
    assert path.relative_to(tmp_path).as_posix() == (
        "topic=tidegate.signals.v1/day=2027-01-15/partition=00/00000000000000000000-00000000000000000005.parquet"
    )
    assert read_piece(path).records == truth
    table = pq.read_table(path, partitioning=None).to_pydict()  # type: ignore[no-untyped-call]
    assert table["type"] == ["UsageSettled", None, None, None, None, None]
    assert table["ts"] == [5, None, None, None, None, None]
    assert table["tenant"] == ["acme", None, None, None, None, None]
    await live.delete_before(A, 6)
    assert await read_all(ArchivedLog(live, tmp_path), [A]) == truth


async def test_the_manifest_says_what_each_file_holds(tmp_path: Path, live: MemoryEventLog) -> None:
    await live.append(outgoing(B, range(7)))
    await archive(live, tmp_path)

    (line,) = (tmp_path / "manifest.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["start"], entry["end"], entry["first"], entry["last"], entry["rows"]) == (0, 7, 0, 6, 7)
    assert entry["sha256"] == Manifest(tmp_path).all_files()[0].sha256
    assert (tmp_path / entry["path"]).stat().st_size == entry["size_bytes"]
    assert verify(tmp_path) == []


async def test_files_are_cut_by_utc_day_and_by_size(
    tmp_path: Path, live: MemoryEventLog, clock: ManualClock
) -> None:
    for day in range(3):
        await live.append(outgoing(A, range(day * 5, day * 5 + 5)))
        clock.advance_ns(DAY_NS)
    assert await archive(live, tmp_path, max_rows=3) == 6

    files = Manifest(tmp_path).files(A)
    assert [(file.day, file.rows) for file in files] == [
        (day, rows) for day in ("2027-01-15", "2027-01-16", "2027-01-17") for rows in (3, 2)
    ]
    assert [file.start for file in files[1:]] == [file.end for file in files[:-1]]


async def test_only_what_is_old_enough_is_archived_and_the_next_run_goes_on_there(
    tmp_path: Path, live: MemoryEventLog, clock: ManualClock
) -> None:
    await live.append(outgoing(A, range(3)))
    clock.advance_ns(10)
    cut_ns = clock.wall_ns()
    await live.append(outgoing(A, range(3, 6)))

    assert await archive(live, tmp_path, cut_ns) == 1
    assert await archive(live, tmp_path, cut_ns) == 0
    assert Manifest(tmp_path).end(A) == 3
    assert await archive(live, tmp_path) == 1
    assert [(f.first, f.last) for f in Manifest(tmp_path).files(A)] == [(0, 2), (3, 5)]


async def test_begin_is_the_first_archived_offset_and_end_is_the_live_one(
    tmp_path: Path, live: MemoryEventLog
) -> None:
    spanning = ArchivedLog(live, tmp_path)
    await live.append(outgoing(A, range(6)))
    await live.delete_before(A, 2)
    assert await spanning.begin(A) == 2
    await archive(live, tmp_path)
    await live.delete_before(A, 6)
    assert await live.begin(A) == 6
    assert await spanning.begin(A) == 2
    assert await spanning.end(A) == 6
    assert numbers(await read_all(spanning, [A])) == [2, 3, 4, 5]


async def test_an_archive_alone_reads_as_the_log_did_to_where_it_ends_and_takes_nothing(
    tmp_path: Path, live: MemoryEventLog, clock: ManualClock
) -> None:
    for n in range(40):
        clock.advance_ns(1)
        place = PLACES[n % 3]
        value = None if n % 7 == 6 else str(n).encode()
        await live.append([Outgoing(place.topic, place.partition, f"k{n % 5}".encode(), value)])
    cut_ns = clock.wall_ns()
    latest = await live.latest(SNAPSHOTS.name)
    ends = {place: await live.end(place) for place in PLACES}
    before = await read_all(live, PLACES)
    assert await archive(live, tmp_path) > 0
    clock.advance_ns(1)
    await live.append([*outgoing(SNAP, [99])])

    alone = ArchiveAlone(tmp_path)
    assert {place: await alone.end(place) for place in PLACES} == ends
    assert {place: await alone.begin(place) for place in PLACES} == {
        place: await live.begin(place) for place in PLACES
    }
    assert await read_all(alone, PLACES) == before
    assert (await alone.latest(SNAPSHOTS.name))[0] == latest[0]
    assert alone.newest_ns == cut_ns
    with pytest.raises(LogUnavailable, match="takes no records"):
        await alone.append(outgoing(A, [1]))
    with pytest.raises(LogUnavailable, match="takes no records"):
        await alone.writer("relay")
    await alone.close()

    nothing = ArchiveAlone(tmp_path / "none")
    assert (await nothing.end(A), await nothing.begin(A), nothing.newest_ns) == (0, 0, None)


async def test_retention_deletes_only_what_is_archived_old_and_of_the_own_roles(
    tmp_path: Path, live: MemoryEventLog, clock: ManualClock
) -> None:
    await live.append(outgoing(A, range(4)))
    await live.append(outgoing(SNAP, range(4)))
    await archive(live, tmp_path)
    clock.advance_ns(DAY_NS)
    await live.append(outgoing(A, range(4, 8)))
    manifest = Manifest(tmp_path)
    later_ns = clock.wall_ns() + 14 * DAY_NS

    assert await delete_archived(live, manifest, frozenset({"relay"}), clock.wall_ns()) == 0
    assert await delete_archived(live, manifest, frozenset({"relay"}), later_ns) == 4
    assert await delete_archived(live, manifest, frozenset({"relay"}), later_ns) == 0
    assert (await live.begin(A), await live.begin(SNAP)) == (4, 0)
    assert numbers(await read_all(live, [A])) == [4, 5, 6, 7]  # too old as well, but not archived


async def test_retention_keeps_records_whose_file_changed(
    tmp_path: Path, live: MemoryEventLog, clock: ManualClock
) -> None:
    await live.append(outgoing(A, range(4)))
    await archive(live, tmp_path)
    (path,) = tmp_path.rglob("*.parquet")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    later_ns = clock.wall_ns() + 15 * DAY_NS

    with pytest.raises(LogCorrupt, match="changed since it was archived"):
        await delete_archived(live, Manifest(tmp_path), frozenset({"relay"}), later_ns)
    path.unlink()
    with pytest.raises(LogCorrupt, match="listed in the manifest but missing"):
        await delete_archived(live, Manifest(tmp_path), frozenset({"relay"}), later_ns)
    assert await live.begin(A) == 0


async def test_every_flipped_byte_of_a_file_is_noticed(tmp_path: Path, live: MemoryEventLog) -> None:
    await live.append(outgoing(A, range(50)))
    await archive(live, tmp_path)
    await live.delete_before(A, 50)
    (path,) = tmp_path.rglob("*.parquet")
    good = path.read_bytes()
    for at in range(0, len(good), max(1, len(good) // 60)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        with pytest.raises(LogCorrupt, match=path.name):
            await read_all(ArchivedLog(live, tmp_path), [A])
        assert len(verify(tmp_path)) >= 1
    path.write_bytes(good)
    assert numbers(await read_all(ArchivedLog(live, tmp_path), [A])) == list(range(50))


async def test_verify_names_what_is_missing_changed_or_unlisted(tmp_path: Path, live: MemoryEventLog) -> None:
    for n in range(3):
        await live.append(outgoing(A, [n]))
        await archive(live, tmp_path)
    first, second, third = sorted(tmp_path.rglob("*.parquet"))
    lines = (tmp_path / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "manifest.jsonl").write_bytes(lines[0] + lines[2])
    first.unlink()

    faults = verify(tmp_path)

    assert faults == [
        f"{first}: listed in the manifest but missing",
        f"{third}: offsets 1 to 1 before it are missing",
        f"{second}: not listed in the manifest",
    ]


async def test_a_hole_is_an_error_until_a_reader_seeks_behind_it(
    tmp_path: Path, live: MemoryEventLog
) -> None:
    await live.append(outgoing(A, range(3)))
    await archive(live, tmp_path)
    await live.append(outgoing(A, range(3, 9)))
    await live.delete_before(A, 6)  # what only a broker's own retention can do
    archiver = Archiver(live, tmp_path)
    run = await archiver.run(FOREVER_NS)
    archiver.close()

    assert run.holes == ("tidegate.signals.v1/0: offsets 3 to 5",)
    reader = ArchivedLog(live, tmp_path).reader({A: 0})
    assert numbers(await reader.poll()) == [0, 1, 2]
    with pytest.raises(LogCorrupt, match=r"offsets 3 to 5 of tidegate\.signals\.v1/0 were never archived"):
        await reader.poll()
    reader.seek(A, 6)
    assert numbers(await reader.poll()) == [6, 7, 8]
    await reader.close()


async def test_one_process_archives_at_a_time(tmp_path: Path, live: MemoryEventLog) -> None:
    archiver = Archiver(live, tmp_path)
    with pytest.raises(LogUnavailable, match="another process archives there"):
        Archiver(live, tmp_path)
    archiver.close()
    Archiver(live, tmp_path).close()


async def test_a_file_that_overlaps_listed_ones_is_set_aside_and_not_lost(
    tmp_path: Path, live: MemoryEventLog
) -> None:
    await live.append(outgoing(A, range(4)))
    await archive(live, tmp_path, max_rows=2)
    files = Manifest(tmp_path).files(A)
    await archive(live, tmp_path / "other")
    (whole,) = (tmp_path / "other").rglob("*.parquet")
    whole.rename((tmp_path / files[0].path).with_name(whole.name))
    (tmp_path / "other" / "manifest.jsonl").unlink()

    assert await archive(live, tmp_path) == 0

    assert [f.path for f in Manifest(tmp_path).files(A)] == [f.path for f in files]
    assert len(list(tmp_path.rglob("*.stray"))) == 1
    assert [fault.endswith("was set aside") for fault in verify(tmp_path)] == [True]
    assert numbers(await read_all(ArchivedLog(live, tmp_path), [A])) == [0, 1, 2, 3]


async def test_a_lost_manifest_is_rebuilt_from_the_files(tmp_path: Path, live: MemoryEventLog) -> None:
    writer = await live.writer("gaps")
    for n in range(6):
        await live.append(outgoing(A, [n]))
        await writer.commit(outgoing(SNAP, [n]))
        await archive(live, tmp_path)
    before = Manifest(tmp_path).all_files()
    for where in (A, SNAP):
        await live.delete_before(where, await live.end(where))
    (tmp_path / "manifest.jsonl").unlink()

    assert await archive(live, tmp_path) == 0

    assert Manifest(tmp_path).all_files() == before
    assert numbers(await read_all(ArchivedLog(live, tmp_path), [A])) == list(range(6))


async def test_a_manifest_line_that_is_none_is_named(tmp_path: Path, live: MemoryEventLog) -> None:
    (tmp_path / "manifest.jsonl").write_bytes(b'{"path":"x"}\n')
    with pytest.raises(LogCorrupt, match=r"manifest\.jsonl: not a manifest line .*path"):
        await ArchivedLog(live, tmp_path).begin(A)


async def test_a_cancelled_run_ends_its_file_first(tmp_path: Path, live: MemoryEventLog) -> None:
    await live.append(outgoing(A, range(2_000)))
    archiver = Archiver(live, tmp_path, max_rows=100)
    running = asyncio.ensure_future(archiver.run(FOREVER_NS))
    while not Manifest(tmp_path).files(A):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    archiver.close()
    assert verify(tmp_path) == []
    assert 0 < Manifest(tmp_path).end(A) < 2_000
    await archive(live, tmp_path)
    assert numbers(await read_all(ArchivedLog(live, tmp_path), [A])) == list(range(2_000))


class OvertakenReader:
    """A live reader during whose poll, after `first` records, something else happens."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.positions, self.seek, self.close = reader.positions, reader.seek, reader.close
        self.event: Callable[[], Awaitable[None]] | None = None
        self.first = 0

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        if self.event is None:
            return await self._reader.poll(max_records, timeout_s)
        event, self.event = self.event, None
        before = list(await self._reader.poll(min(self.first, max_records))) if self.first else []
        await event()
        left = max_records - len(before)
        return [*before, *(await self._reader.poll(left, timeout_s) if left else ())]


class OvertakenLog(MemoryEventLog):
    """Remembers its newest reader, so that a test can interrupt it."""

    newest: OvertakenReader

    def reader(self, start: Mapping[TopicPartition, int]) -> Any:
        self.newest = OvertakenReader(super().reader(start))
        return self.newest


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("deleted", [2, 4, 6])
async def test_retention_that_overtakes_a_live_reader_costs_it_nothing(
    tmp_path: Path, clock: ManualClock, first: int, deleted: int
) -> None:
    live = OvertakenLog(clock)
    await live.append([*outgoing(A, range(6)), *outgoing(B, range(3))])
    reader = ArchivedLog(live, tmp_path).reader({A: 0, B: 0})
    interrupted = live.newest

    async def archive_and_delete() -> None:
        await archive(live, tmp_path, max_rows=deleted)
        await live.delete_before(A, deleted)
        await live.delete_before(B, 3)

    interrupted.first, interrupted.event = first, archive_and_delete
    taken: list[Record] = []
    while len(taken) < 9:
        part = await reader.poll()
        assert part
        taken += part
    assert numbers(r for r in taken if r.partition == A.partition) == list(range(6))
    assert numbers(r for r in taken if r.partition == B.partition) == list(range(3))
    assert interrupted.event is None
    await reader.close()


class Killed(Exception):
    """The process ended here."""


@contextmanager
def killed_at(sync: int) -> Iterator[None]:
    """The `sync`-th fsync never returns: what was written before it may or may not be there."""
    left, real = sync, os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        real(descriptor)

    with patch("os.fsync", fsync):
        yield


def tear_manifest(folder: Path, cut: int) -> None:
    """Drop a few last bytes, never more than the last line, as a crash before its sync may."""
    path = folder / "manifest.jsonl"
    if path.exists() and path.read_bytes():
        last = len(path.read_bytes().splitlines(keepends=True)[-1])
        os.truncate(path, path.stat().st_size - min(cut, last))


@pytest.mark.parametrize("cut", [0, 1, 60, 10_000])
@pytest.mark.parametrize("sync", range(1, 13))
async def test_a_run_killed_at_any_sync_is_finished_by_the_next(
    tmp_path: Path, live: MemoryEventLog, sync: int, cut: int
) -> None:
    await live.append([*outgoing(A, range(5)), *outgoing(B, range(2))])
    archiver = Archiver(live, tmp_path, max_rows=3)
    with pytest.raises(Killed), killed_at(sync):  # three files: thirteen syncs
        await archiver.run(FOREVER_NS)
    archiver.close()
    tear_manifest(tmp_path, cut)

    await live.append([*outgoing(A, range(5, 9)), *outgoing(B, range(2, 3))])
    await archive(live, tmp_path)
    for where in (A, B):
        await live.delete_before(where, await live.end(where))

    spanning = ArchivedLog(live, tmp_path)
    assert numbers(await read_all(spanning, [A])) == list(range(9))
    assert numbers(await read_all(spanning, [B])) == list(range(3))
    assert verify(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.suffix in {".part", ".stray"}] == []


steps = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([A, B]), st.integers(1, 9)),
    st.tuples(st.just("commit"), st.just(SNAP), st.integers(0, 4)),
    st.tuples(st.just("time"), st.sampled_from([1, DAY_NS // 3, DAY_NS])),
    st.tuples(st.just("archive"), st.integers(0, 2) | st.just(-1), st.integers(1, 7)),
    st.tuples(st.just("killed"), st.integers(1, 14), st.integers(0, 60)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("read"), st.integers(1, 12)),
    st.tuples(st.just("overtake"), st.integers(0, 4), st.integers(1, 9)),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=3, max_size=25), st.data())
def test_archive_and_live_together_read_as_the_full_sequence(
    sequence: list[Any], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(World(Path(folder)).live_through(sequence, data))


class World:
    """A log that is appended to, archived, killed, deleted from and read, and a log that only grows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.live = OvertakenLog(self.clock)
        self.truth = MemoryEventLog(self.clock, MemoryStore())
        self.reader = ArchivedLog(self.live, folder).reader(dict.fromkeys(PLACES, 0))
        self.interrupted = self.live.newest
        self.read: list[Record] = []
        self.appended = 0

    async def live_through(self, sequence: list[Any], data: st.DataObject) -> None:
        for step in sequence:
            await self.apply(step)
        spanning = ArchivedLog(self.live, self.folder)
        self.read += await drain(spanning, self.reader)
        for where in PLACES:
            everything = await read_all(self.truth, [where])
            assert [r for r in self.read if r.partition == where.partition] == everything
            position = data.draw(st.integers(0, await self.truth.end(where)))
            assert await read_from(spanning, {where: position}) == [
                r for r in everything if r.offset >= position
            ]
        assert verify(self.folder) == []

    async def apply(self, step: Any) -> None:
        match step:
            case ("append", where, count):
                batch = outgoing(where, range(self.appended, self.appended + count))
                self.appended += count
                for log in (self.live, self.truth):
                    await log.append(batch)
            case ("commit", where, count):
                for log in (self.live, self.truth):
                    writer = await log.writer("w")
                    await writer.commit(outgoing(where, range(count)))
            case ("time", by_ns):
                self.clock.advance_ns(by_ns)
            case ("archive", age_days, max_rows):
                until_ns = self.clock.wall_ns() - age_days * DAY_NS
                await archive(self.live, self.folder, until_ns, max_rows=max_rows)
            case ("killed", sync, cut):
                await self.archive_until_killed(sync, cut)
            case ("delete",):
                await self.delete()
            case ("overtake", first, max_rows):
                await self.overtake(first, max_rows)
            case ("read", max_records):
                self.read += await self.reader.poll(max_records)
            case _:
                raise AssertionError(step)

    async def delete(self) -> None:
        far_ns = self.clock.wall_ns() + 100 * DAY_NS
        await delete_archived(self.live, Manifest(self.folder), frozenset(ROLES), far_ns)

    async def overtake(self, first: int, max_rows: int) -> None:
        async def archive_and_delete() -> None:
            await archive(self.live, self.folder, max_rows=max_rows)
            await self.delete()

        self.interrupted.first, self.interrupted.event = first, archive_and_delete
        self.read += await self.reader.poll()
        self.interrupted.event = None

    async def archive_until_killed(self, sync: int, cut: int) -> None:
        archiver = None
        try:
            with killed_at(sync):
                archiver = Archiver(self.live, self.folder, max_rows=3)
                await archiver.run(FOREVER_NS)
        except Killed:
            tear_manifest(self.folder, cut)
        finally:
            if archiver is not None:
                archiver.close()
        Archiver(self.live, self.folder).close()  # the restart, before anyone deletes
