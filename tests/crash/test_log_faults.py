"""Full disks, failed calls, read-only folders and flipped bits: the SQLite log names the file and never lies."""

import asyncio
import random
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from support.faulty_disk import FaultPlan, failing_calls, make_read_only, tiny_disk
from support.log_reading import numbers, outgoing, read_all
from tidegate.events.clock import SystemClock
from tidegate.events.errors import AckUnknown, LogCorrupt, LogUnavailable
from tidegate.events.log import sqlite_files
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.topics import SIGNALS

PLACES = [TopicPartition(SIGNALS.name, p) for p in range(3)]
A = PLACES[0]
BATCHES = 5

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def open_log(folder: Path, *roles: str) -> SqliteEventLog:
    return SqliteEventLog.open(folder, frozenset(roles), SystemClock())


async def append_until_unavailable(log: SqliteEventLog, size: int = 2_000) -> tuple[int, LogUnavailable]:
    """How many records were acknowledged before the first refusal, and the refusal."""
    for done in range(0, 100_000, 10):
        try:
            await log.append(outgoing(A, range(done, done + 10), size=size))
        except LogUnavailable as refusal:
            return done, refusal
    raise AssertionError("the disk never got full")


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: writes fail with EFBIG (Python ignores SIGXFSZ)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("checkpoint_pages", [8, 100_000])  # the WAL or the file itself meets the limit first
async def test_a_file_that_may_not_grow_refuses_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint_pages: int
) -> None:
    monkeypatch.setattr(sqlite_files, "_CHECKPOINT_PAGES", checkpoint_pages)
    log = open_log(tmp_path, "relay")
    with file_size_limit(1_500_000):
        done, refusal = await append_until_unavailable(log)
        assert done > 0
        assert str(tmp_path / "relay.db") in str(refusal)
        assert numbers(await read_all(log, [A])) == list(range(done))
        with pytest.raises(LogUnavailable):
            await log.append(outgoing(A, [-1] * 500, size=2_000))

    await log.append(outgoing(A, [done]))
    await log.close()
    again = open_log(tmp_path, "relay")
    assert numbers(await read_all(again, [A])) == list(range(done + 1))
    await again.close()


@pytest.mark.parametrize("checkpoint_pages", [8, 100_000])
async def test_a_full_disk_refuses_loses_nothing_and_writes_again_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint_pages: int
) -> None:
    monkeypatch.setattr(sqlite_files, "_CHECKPOINT_PAGES", checkpoint_pages)
    with tiny_disk(tmp_path / "disk"):
        folder = tmp_path / "disk"
        (folder / "ballast").write_bytes(bytes(200_000))
        log = open_log(folder, "relay")
        done, refusal = await append_until_unavailable(log)
        assert str(refusal).startswith(f"{folder / 'relay.db'}: the disk is full; nothing was written")
        assert numbers(await read_all(log, [A])) == list(range(done))

        (folder / "ballast").unlink()
        await log.append(outgoing(A, [done]))
        await log.close()
        again = open_log(folder, "relay")
        assert numbers(await read_all(again, [A])) == list(range(done + 1))
        await again.close()


async def test_a_read_only_folder_is_named_and_left_alone(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk"):
        folder = tmp_path / "disk"
        log = open_log(folder, "relay")
        await log.append(outgoing(A, [1]))
        await log.close()
        before = (folder / "relay.db").read_bytes()
        make_read_only(folder)

        with pytest.raises(LogUnavailable, match=r"relay\.db: cannot be opened or written; check the folder"):
            open_log(folder, "relay")
        with pytest.raises(LogUnavailable, match=r"control\.db: cannot be opened or written"):
            open_log(folder, "control")
        with pytest.raises(LogUnavailable, match="nested"):
            open_log(folder / "nested", "relay")
        assert (folder / "relay.db").read_bytes() == before


async def fill_through(folder: Path, plan: FaultPlan) -> dict[str, set[int]]:
    """Write a few batches through a failing disk; the fate of each, as told to the caller.

    Before closing, the files are copied to `folder/copy` as a power cut right then would leave them.
    """
    told: dict[str, set[int]] = {"acknowledged": set(), "refused": set(), "unknown": set()}
    with failing_calls(plan):
        try:
            log = open_log(folder / "live", "relay")
        except LogUnavailable:
            return told
        for n in range(BATCHES):
            try:
                await log.append([outgoing(where, [n], size=3_000)[0] for where in PLACES])
                told["acknowledged"].add(n)
            except LogUnavailable:
                told["refused"].add(n)
            except AckUnknown:
                told["unknown"].add(n)
        (folder / "copy").mkdir()
        for name in ("relay.db", "relay.db-wal"):
            shutil.copy(folder / "live" / name, folder / "copy" / name)
        plan.heal()  # a VFS in Python raises out of close, where SQLite would only leave the WAL as it is
        await log.close()
    return told


@pytest.mark.parametrize("points", [10, pytest.param(10_000, marks=pytest.mark.nightly)], ids=["some", "all"])
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for_ever"])
@pytest.mark.parametrize(
    ("code", "calls"),
    [
        (apsw.SQLITE_FULL, frozenset({"write"})),
        (apsw.SQLITE_IOERR_WRITE, frozenset({"write", "truncate"})),
        (apsw.SQLITE_IOERR_FSYNC, frozenset({"sync"})),
    ],
    ids=["full", "write", "sync"],
)
async def test_whichever_call_fails_the_answer_given_is_the_truth(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    calls: frozenset[str],
    points: int,
    *,
    for_ever: bool,
) -> None:
    monkeypatch.setattr(sqlite_files, "_CHECKPOINT_PAGES", 8)  # so that checkpoints fail, too
    counting = FaultPlan(None, code, for_ever=False, calls=calls)
    (tmp_path / "count").mkdir()
    assert await fill_through(tmp_path / "count", counting) == {
        "acknowledged": set(range(BATCHES)),
        "refused": set(),
        "unknown": set(),
    }
    assert counting.count >= BATCHES

    failed = 0
    for fail_at in range(1, counting.count + 1, max(1, counting.count // points)):
        folder = tmp_path / f"at{fail_at}"
        folder.mkdir()
        told = await fill_through(folder, FaultPlan(fail_at, code, for_ever=for_ever, calls=calls))
        failed += bool(told["refused"] or told["unknown"])
        for name in ("copy", "live"):
            if (folder / name / "relay.db").exists():
                await assert_truth(folder / name, told)
    assert failed > 0


async def assert_truth(folder: Path, told: dict[str, set[int]]) -> None:
    log = open_log(folder, "relay")
    for where in PLACES:
        found = numbers(await read_all(log, [where]))
        assert found == sorted(set(found))
        assert told["acknowledged"] <= set(found)
        assert not told["refused"] & set(found)
        assert set(found) <= told["acknowledged"] | told["unknown"]
    await log.append(outgoing(A, [99]))
    await log.close()


async def test_after_a_failed_sync_nothing_is_acknowledged_until_a_restart(tmp_path: Path) -> None:
    opened = FaultPlan(None, apsw.SQLITE_IOERR_FSYNC, for_ever=False, calls=frozenset({"sync"}))
    with failing_calls(opened):
        await open_log(tmp_path / "count", "relay").close()
    plan = FaultPlan(opened.count, apsw.SQLITE_IOERR_FSYNC, for_ever=False, calls=frozenset({"sync"}))
    with failing_calls(plan):
        log = open_log(tmp_path / "live", "relay")
        plan.count = opened.count - 1
        with pytest.raises(AckUnknown, match=r"relay\.db: the sync of a commit failed"):
            await log.append(outgoing(A, [1]))
        with pytest.raises(LogUnavailable, match="a sync failed earlier; restart"):
            await log.append(outgoing(A, [2]))
        await log.close()
    again = open_log(tmp_path / "live", "relay")
    assert set(numbers(await read_all(again, [A]))) <= {1}
    await again.append(outgoing(A, [3]))
    await again.close()


async def test_a_file_that_is_no_database_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "relay.db"
    path.write_bytes(b"this was a log once" * 1_000)
    before = path.read_bytes()
    with pytest.raises(LogCorrupt, match=r"relay\.db: damaged .*left untouched"):
        open_log(tmp_path, "relay")
    reading = open_log(tmp_path)
    with pytest.raises(LogCorrupt, match=r"relay\.db: damaged"):
        await read_all(reading, [A])
    await reading.close()
    assert path.read_bytes() == before


async def test_a_cut_off_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    log = open_log(tmp_path, "relay")
    await log.append(outgoing(A, range(200), size=500))
    await log.close()
    path = tmp_path / "relay.db"
    path.write_bytes(path.read_bytes()[: -(path.stat().st_size // 2)])
    before = path.read_bytes()

    reading = open_log(tmp_path)
    with pytest.raises(LogCorrupt, match=r"relay\.db: damaged"):
        await read_all(reading, [A])
    await reading.close()
    assert path.read_bytes() == before


def content(records: list[Record]) -> list[tuple[object, ...]]:
    return [(r.partition, r.offset, r.key, r.value, r.append_ns) for r in records]


@pytest.mark.parametrize("flips", [400, pytest.param(8_000, marks=pytest.mark.nightly)])
async def test_a_flipped_bit_is_noticed_or_harmless_and_never_read_as_a_fact(
    tmp_path: Path, flips: int
) -> None:
    log = open_log(tmp_path / "good", "relay")
    for where in PLACES:
        await log.append(outgoing(where, range(20), size=300))
    truth = content(await read_all(log, PLACES))
    await log.close()
    good = (tmp_path / "good" / "relay.db").read_bytes()
    used = [at for at, byte in enumerate(good) if byte]
    headers = [page + at for page in range(0, len(good), 8_192) for at in range(40)]
    rng = random.Random(flips)
    refusals: list[str] = []
    bad_folder = tmp_path / "bad"
    for at in [*rng.sample(used, flips * 3 // 4), *rng.choices(headers, k=flips // 4)]:
        bad = bytearray(good)
        bad[at] ^= 1 << rng.randrange(8)
        bad_folder.mkdir()
        (bad_folder / "relay.db").write_bytes(bad)
        reading = open_log(bad_folder)
        try:
            async with asyncio.timeout(20):
                assert content(await read_all(reading, PLACES)) == truth, f"byte {at}"
        except LogCorrupt as damage:
            refusals.append(str(damage))
        await reading.close()
        assert (bad_folder / "relay.db").read_bytes() == bytes(bad)
        shutil.rmtree(bad_folder)
    assert len(refusals) > flips // 4
    assert all(refusal.startswith(str(bad_folder / "relay.db")) for refusal in refusals)
