"""What the SQLite log promises beyond the port: who writes what, bounded WAL, torn tails, closing, damage."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from support.log_reading import drain, numbers, outgoing, read_all
from tidegate.events.clock import SystemClock
from tidegate.events.errors import AckUnknown, Broken, LogCorrupt, LogUnavailable, Refused
from tidegate.events.log import sqlite_files, sqlite_role
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.log.sqlite_view import RoleFileView
from tidegate.events.topics import CONTROL, ROLES, SIGNALS, SNAPSHOTS, STATE

A = TopicPartition(SIGNALS.name, 3)
C = TopicPartition(CONTROL.name, 0)
SNAP = TopicPartition(SNAPSHOTS.name, 2)
WAIT_S = 20.0


def open_log(folder: Path, *roles: str) -> SqliteEventLog:
    return SqliteEventLog.open(folder, frozenset(roles), SystemClock())


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[SqliteEventLog]:
    log = open_log(tmp_path, "relay")
    yield log
    await log.close()


async def test_only_the_named_roles_are_written_the_others_are_read(tmp_path: Path, relay: EventLog) -> None:
    await relay.append(outgoing(A, [1]))
    with pytest.raises(Refused, match=r"control\.db.*opened for writing relay"):
        await relay.append(outgoing(C, [1]))
    assert not (tmp_path / "control.db").exists()

    control = open_log(tmp_path, "control")
    await control.append(outgoing(C, [2]))
    with pytest.raises(Refused, match="relay"):
        await control.append(outgoing(A, [3]))
    assert numbers(await read_all(relay, [A, C])) == [1, 2]
    await control.close()


async def test_a_log_opened_for_no_role_only_reads(tmp_path: Path, relay: EventLog) -> None:
    await relay.append(outgoing(A, [1]))
    reader = open_log(tmp_path)
    assert numbers(await read_all(reader, [A])) == [1]
    with pytest.raises(Refused, match="reading only"):
        await reader.writer("any")
    await reader.close()


async def test_a_role_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gatway"):
        open_log(tmp_path, "gatway")


async def test_one_write_never_spans_two_files(tmp_path: Path) -> None:
    log = open_log(tmp_path, *ROLES)
    with pytest.raises(Refused, match="control, relay"):
        await log.append([*outgoing(A, [1]), *outgoing(C, [1])])
    writer = await log.writer("one-file")
    await writer.commit(outgoing(SNAP, [1]), {A: 1})
    with pytest.raises(Refused, match="positions are in the file of estimator"):
        await writer.commit(outgoing(C, [1]), {A: 2})
    assert dict(await writer.positions()) == {A: 1}
    assert numbers(await read_all(log, [A, C, SNAP])) == [1]
    await log.close()


async def test_a_file_that_does_not_exist_yet_reads_as_empty_and_is_picked_up(tmp_path: Path) -> None:
    early = open_log(tmp_path / "later")
    reader = early.reader({A: 0})
    assert await reader.poll() == []
    assert await early.end(A) == 0

    waiting = asyncio.ensure_future(reader.poll(timeout_s=WAIT_S))
    await asyncio.sleep(0)
    late = open_log(tmp_path / "later", "relay")
    await late.append(outgoing(A, [1]))

    assert numbers(await waiting) == [1]
    await early.close()
    await late.close()


async def test_a_file_without_its_schema_yet_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "relay.db").touch()
    log = open_log(tmp_path)
    assert await read_all(log, [A]) == []
    await log.close()


async def test_every_commit_is_synced_in_wal_mode(relay: SqliteEventLog) -> None:
    modes = await relay._file("relay")._run(
        lambda connection: (connection.pragma("journal_mode"), connection.pragma("synchronous"))
    )
    assert modes == ("wal", 2)


async def test_an_sqlite_that_can_corrupt_wal_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(Broken, match=r"3\.51\.2 can corrupt WAL files; 3\.51\.3"):
        open_log(tmp_path, "relay")
    assert not (tmp_path / "relay.db").exists()


async def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "relay.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()

    with pytest.raises(LogCorrupt, match=r"relay\.db: not a file of this log"):
        open_log(tmp_path, "relay")
    reading = open_log(tmp_path)
    with pytest.raises(LogCorrupt, match="not a file of this log"):
        await reading.end(A)
    await reading.close()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


async def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await open_log(tmp_path, "relay").close()
    newer = apsw.Connection(str(tmp_path / "relay.db"))
    newer.pragma("user_version", 99)
    newer.close()
    with pytest.raises(LogCorrupt, match="schema 99, but this version knows 1"):
        open_log(tmp_path, "relay")


async def test_a_position_beyond_the_end_is_an_error_and_not_silence(relay: EventLog) -> None:
    await relay.append(outgoing(A, range(3)))
    reader = relay.reader({A: 4})
    with pytest.raises(
        LogCorrupt, match=r"relay\.db: position 4 of tidegate\.signals\.v1/3 is beyond its end 3"
    ):
        await reader.poll()
    with pytest.raises(Refused, match="-1 is no position"):
        reader.seek(A, -1)
    with pytest.raises(Refused, match="does not follow"):
        reader.seek(C, 0)
    await reader.close()


async def test_deleting_what_is_archived_moves_begin_and_leaves_the_rest(relay: SqliteEventLog) -> None:
    await relay.append(outgoing(A, range(12_000)))
    await relay.delete_before(A, 11_990)
    await relay.delete_before(A, 5)

    assert await relay.begin(A) == 11_990
    assert [r.offset for r in await read_all(relay, [A])] == list(range(11_990, 12_000))
    await relay.delete_before(A, 99_999)
    assert await relay.begin(A) == await relay.end(A) == 12_000
    assert await read_all(relay, [A]) == []
    await relay.append(outgoing(A, [7]))
    assert [r.offset for r in await read_all(relay, [A])] == [12_000]


async def test_deleting_history_keeps_the_latest_of_each_key(tmp_path: Path) -> None:
    log = open_log(tmp_path, "estimator")
    await log.append([*outgoing(SNAP, [1], key="a"), *outgoing(SNAP, [2], key="b")])
    kept = TopicPartition(STATE.name, 0)
    await log.append([*outgoing(kept, [1], key="a"), *outgoing(kept, [2], key="a")])

    await log.delete_before(SNAP, 2)
    await log.delete_before(kept, 2)

    assert sorted(numbers((await log.latest(SNAPSHOTS.name))[0].values())) == [1, 2]
    assert numbers(await read_all(log, [kept])) == [2]
    assert await log.begin(kept) == 1
    await log.close()


@pytest.mark.slow
async def test_a_slow_reader_neither_blocks_the_writer_nor_lets_the_wal_grow(
    tmp_path: Path, relay: EventLog
) -> None:
    slow, keen = relay.reader({A: 0}), relay.reader({A: 0})
    wal = tmp_path / "relay.db-wal"
    written, largest = 0, 0
    for step in range(120):
        batch = outgoing(A, range(step * 500, step * 500 + 500), size=1_500)
        await relay.append(batch)
        written += sum(len(record.value or b"") for record in batch)
        assert len(await slow.poll(max_records=1)) == 1  # always far behind, always in the middle
        await keen.poll()
        largest = max(largest, wal.stat().st_size)
    assert written == 90_000_000
    assert largest < 40_000_000
    await slow.close()
    await keen.close()


async def test_no_statement_is_open_after_a_poll(tmp_path: Path, relay: EventLog) -> None:
    await relay.append(outgoing(A, range(2_000)))
    reader = relay.reader({A: 0})
    checking = apsw.Connection(str(tmp_path / "relay.db"))
    for _ in range(3):
        assert len(await reader.poll(max_records=100)) == 100
        # Truncating needs that no one reads from the WAL: with an open statement this raises BusyError.
        checking.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        await relay.append(outgoing(A, [0]))
    checking.close()
    await reader.close()


class LeapingClock(SystemClock):
    """Every look at it is 20 ms later than the last."""

    def __init__(self) -> None:
        self.looks = 0

    def mono_ns(self) -> int:
        self.looks += 1
        return self.looks * 20_000_000


async def test_a_statement_ends_after_fifty_milliseconds_or_a_mebibyte(
    tmp_path: Path, relay: EventLog
) -> None:
    await relay.append(outgoing(A, range(200)))
    b = A._replace(partition=4)
    await relay.append(outgoing(b, range(200), size=100_000))

    slow = RoleFileView(tmp_path / "relay.db", LeapingClock())
    view = RoleFileView(tmp_path / "relay.db", SystemClock())

    assert len(slow.history(A, 0, 5_000)) == 48  # three steps of 16 records, then 60 ms have passed
    assert len(view.history(A, 0, 5_000)) == 200
    assert sum(len(record.value or b"") for record in view.history(b, 0, 5_000)) < 3_000_000
    slow.close()
    view.close()


async def test_a_wal_that_a_reader_kept_from_shrinking_is_emptied_later(
    tmp_path: Path, relay: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "_WAL_LIMIT_BYTES", 200_000)
    wal = tmp_path / "relay.db-wal"
    await relay.append(outgoing(A, [0]))
    stuck = apsw.Connection(str(tmp_path / "relay.db"), flags=apsw.SQLITE_OPEN_READONLY)
    stuck.execute("BEGIN")
    stuck.execute("SELECT count(*) FROM records").fetchall()
    for n in range(10):
        await relay.append(outgoing(A, range(n * 50, n * 50 + 50), size=2_000))
    assert wal.stat().st_size > 1_000_000

    stuck.execute("COMMIT")
    await relay.append(outgoing(A, [0]))

    assert wal.stat().st_size == 0
    stuck.close()


async def test_a_file_held_by_another_process_is_waited_for_and_then_called_unavailable(
    tmp_path: Path, relay: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = apsw.Connection(str(tmp_path / "relay.db"))
    holder.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(relay.append(outgoing(A, [1])))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    holder.execute("ROLLBACK")
    await waiting

    monkeypatch.setattr(sqlite_files, "_BUSY_PAUSES", 3)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LogUnavailable, match=r"relay\.db: another process holds the file"):
        await relay.append(outgoing(A, [2]))
    holder.execute("ROLLBACK")
    holder.close()
    assert numbers(await read_all(relay, [A])) == [1]


async def test_closing_acknowledges_the_running_write_and_not_those_behind_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, "relay")
    holder = apsw.Connection(str(tmp_path / "relay.db"))
    holder.execute("BEGIN IMMEDIATE")
    running, behind = (asyncio.ensure_future(log.append(outgoing(A, [n]))) for n in (1, 2))
    await asyncio.sleep(0.01)
    closing = asyncio.ensure_future(log.close())
    await asyncio.sleep(0.01)
    holder.execute("ROLLBACK")
    holder.close()

    await running
    with pytest.raises(AckUnknown, match="closed before this write was acknowledged"):
        await behind
    await closing
    again = open_log(tmp_path)
    assert numbers(await read_all(again, [A])) == [1]
    await again.close()


async def test_a_failed_batch_leaves_nothing_behind_and_the_next_one_works(relay: EventLog) -> None:
    wrong = outgoing(A, [2])[0]._replace(key="text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await relay.append([*outgoing(A, [1]), wrong])
    await relay.append(outgoing(A, [3]))
    assert [(r.offset, *numbers([r])) for r in await read_all(relay, [A])] == [(0, 3)]


@pytest.mark.slow
async def test_a_torn_wal_opens_with_exactly_the_appends_that_were_whole_in_it(tmp_path: Path) -> None:
    live = tmp_path / "live"
    log = open_log(live, "relay")
    wal = live / "relay.db-wal"
    sizes = [wal.stat().st_size]
    for n in range(12):
        await log.append([*outgoing(A, [n] * 3, size=700), *outgoing(A._replace(partition=n), [n])])
        sizes.append(wal.stat().st_size)
    cuts = {size + shift for size in sizes for shift in (-1, 0, 1, 5_000)} | {0, 1, 31, 32, 100}
    for cut in sorted(cut for cut in cuts if 0 <= cut <= sizes[-1]):
        torn = tmp_path / f"torn{cut}"
        torn.mkdir()
        shutil.copy(live / "relay.db", torn)
        (torn / "relay.db-wal").write_bytes(wal.read_bytes()[:cut])

        opened = open_log(torn, "relay")
        whole = sum(size <= cut for size in sizes) - 1
        expected = [n for n in range(max(whole, 0)) for _ in range(3 if n != A.partition else 4)]
        assert numbers(await read_all(opened, [A])) == expected
        await opened.append(outgoing(A, [99]))
        assert numbers(await read_all(opened, [A])) == [*expected, 99]
        await opened.close()
    await log.close()


async def test_a_hole_in_the_file_is_named_and_never_skipped(tmp_path: Path, relay: EventLog) -> None:
    await relay.append(outgoing(A, range(10)))
    hand = apsw.Connection(str(tmp_path / "relay.db"))
    hand.execute("DELETE FROM records WHERE place & 1099511627775 = 4")
    hand.close()
    with pytest.raises(LogCorrupt, match=r"relay\.db: tidegate\.signals\.v1/3 lacks records from 0 on"):
        await read_all(relay, [A])


async def test_retention_between_two_statements_of_a_poll_is_no_hole(
    relay: SqliteEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await relay.append(outgoing(A, range(10)))
    reader = relay.reader({A: 0})
    view = reader._files["relay"].view
    spans = view.spans()
    await relay.delete_before(A, 6)
    real = view.spans
    monkeypatch.setattr(view, "spans", iter([spans, real()]).__next__)

    assert numbers(await reader.poll()) == [6, 7, 8, 9]
    await reader.close()


@pytest.mark.parametrize(
    "change",
    [
        "value = x'00'",
        "value = NULL",
        "key = x'6b6b'",
        "append_ns = append_ns + 1",
        "value = 'text'",
        "crc = 7",
    ],
)
async def test_a_row_that_was_changed_on_disk_is_never_read_as_a_fact(
    tmp_path: Path, relay: EventLog, change: str
) -> None:
    await relay.append(outgoing(A, range(3)))
    hand = apsw.Connection(str(tmp_path / "relay.db"))
    hand.execute(f"UPDATE records SET {change} WHERE place & 1099511627775 = 1")
    hand.close()
    with pytest.raises(LogCorrupt, match=r"relay\.db: damaged"):
        await read_all(relay, [A])


@pytest.mark.parametrize("change", ["next = next - 1", "begin = 1", "next = NULL", "next = 'x'"])
async def test_an_end_that_was_changed_on_disk_is_never_read_as_a_fact(
    tmp_path: Path, relay: EventLog, change: str
) -> None:
    await relay.append(outgoing(A, range(3)))
    hand = apsw.Connection(str(tmp_path / "relay.db"))
    if "NULL" in change:
        hand.execute("ALTER TABLE ends ALTER COLUMN next DROP NOT NULL")
    hand.execute(f"UPDATE ends SET {change}")
    hand.close()
    with pytest.raises(LogCorrupt, match=r"relay\.db: damaged"):
        await relay.end(A)
    with pytest.raises(LogCorrupt, match=r"relay\.db: damaged"):
        await relay.append(outgoing(A, [3]))


async def test_readers_keep_their_promise_of_order_while_partitions_share_the_room(relay: EventLog) -> None:
    places = [A._replace(partition=p) for p in range(12)]
    await relay.append([record for where in places for record in outgoing(where, range(700))])
    reader = relay.reader(dict.fromkeys(places, 0))
    first = await reader.poll(max_records=6_000)
    assert len({record.partition for record in first}) == 12  # a long backlog starves no other partition
    rest = await drain(relay, reader)
    for where in places:
        mine = [r for r in [*first, *rest] if r.partition == where.partition]
        assert numbers(mine) == list(range(700))
    await reader.close()


async def test_delete_steps_are_bounded(relay: SqliteEventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_role, "_DELETE_STEP", 10)
    await relay.append(outgoing(A, range(35)))
    await relay.delete_before(A, 31)
    assert numbers(await read_all(relay, [A])) == [31, 32, 33, 34]
