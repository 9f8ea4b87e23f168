"""Queries beside ingest: bounds, exact values, cancellation."""

import asyncio
import fcntl
import os
import resource
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import duckdb
import msgspec
import pytest

from support.history import History
from support.read_model import LIMITS, filled, rows_in
from tidegate.events.errors import Unavailable
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import REQUESTS
from tidegate.projections.batch import Part
from tidegate.projections.errors import (
    QueryTimeout,
    QueryTooLarge,
    SqlFailed,
    SqlRefused,
    StoreTaken,
    StoreUnusable,
)
from tidegate.projections.limits import Limits
from tidegate.projections.query import QueryEngine
from tidegate.projections.readonly import open_read_only
from tidegate.projections.sqlguard import SqlGuard
from tidegate.projections.store import Store

pytestmark = pytest.mark.slow  # each opens databases

HEAVY = "SELECT count(*) FROM range(10000000) AS a, range(10000000) AS b WHERE a.range * b.range = 7"


@asynccontextmanager
async def engine(folder: Path, limits: Limits = LIMITS) -> AsyncGenerator[QueryEngine]:
    store, guard = Store.open(folder / "m.duckdb", limits), SqlGuard()
    queries = QueryEngine(store.source, limits, guard)
    try:
        yield queries
    finally:
        queries.close()
        store.close()
        guard.close()


async def test_an_answer_names_columns_and_types_and_keeps_integers_exact(tmp_path: Path) -> None:
    async with engine(tmp_path) as queries:
        answer = await queries.query(
            "SELECT 9007199254740993 AS big, 170141183460469231731687303715884105727 AS huge, NULL AS unknown,"
            " 0.1::DOUBLE AS real, 1.50::DECIMAL(5, 2) AS dec, DATE '2027-01-15' AS day, 'é' AS text"
        )
    assert answer.columns == ("big", "huge", "unknown", "real", "dec", "day", "text")
    assert answer.types[:2] == ("BIGINT", "HUGEINT")
    assert rows_in(answer) == [
        [9007199254740993, 170141183460469231731687303715884105727, None, 0.1, "1.50", "2027-01-15", "é"]
    ]
    assert not answer.truncated


async def test_parameters_are_bound_by_name_and_by_place_and_never_spliced(tmp_path: Path) -> None:
    hostile = "x'; DELETE FROM positions; --"
    async with engine(tmp_path) as queries:
        by_name = await queries.query("SELECT $tenant AS t, $n + 1 AS n", {"tenant": hostile, "n": 2**53})
        by_place = await queries.query("SELECT $1 AS t", [hostile])
        kept = await queries.query("SELECT count(*) FROM positions")
    assert rows_in(by_name) == [[hostile, 2**53 + 1]]
    assert rows_in(by_place) == [[hostile]]
    assert rows_in(kept) == [[48]]


async def test_more_rows_than_the_cap_are_cut_and_said_so(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, query_rows=2_500)
    async with engine(tmp_path, limits) as queries:
        capped = await queries.query("SELECT * FROM range(1000000000)")
        asked_less = await queries.query("SELECT * FROM range(10)", max_rows=3)
        asked_more = await queries.query("SELECT * FROM range(3000)", max_rows=99_999)
        exactly = await queries.query("SELECT * FROM range(2500)")
        none = await queries.query("SELECT * FROM range(0)")
        nothing_wanted = await queries.query("SELECT * FROM range(5)", max_rows=0)
    assert [row[0] for row in rows_in(capped)] == list(range(2_500))
    assert capped.truncated
    assert (rows_in(asked_less), asked_less.truncated) == ([[0], [1], [2]], True)
    assert (len(rows_in(asked_more)), asked_more.truncated) == (2_500, True)
    assert (len(rows_in(exactly)), exactly.truncated) == (2_500, False)
    assert (rows_in(none), none.truncated) == ([], False)
    assert (rows_in(nothing_wanted), nothing_wanted.truncated) == ([], True)


async def test_a_heavy_query_is_stopped_at_its_time_limit_and_the_slot_is_usable_again(
    tmp_path: Path,
) -> None:
    async with engine(tmp_path) as queries:
        for _ in range(2 * LIMITS.query_slots):
            with pytest.raises(QueryTimeout, match=r"longer than 0\.05 s"):
                await queries.query(HEAVY, timeout_s=0.05)
        assert rows_in(await queries.query("SELECT 1")) == [[1]]


async def test_no_client_can_ask_for_more_time_than_the_limit(tmp_path: Path) -> None:
    async with engine(tmp_path, msgspec.structs.replace(LIMITS, query_timeout_s=0.05)) as queries:
        with pytest.raises(QueryTimeout):
            await queries.query(HEAVY, timeout_s=3_600)


async def test_a_query_that_finds_no_slot_in_its_time_is_told_so(tmp_path: Path) -> None:
    async with engine(tmp_path, msgspec.structs.replace(LIMITS, query_slots=1)) as queries:
        hog = asyncio.ensure_future(queries.query(HEAVY))
        await asyncio.sleep(0)
        with pytest.raises(QueryTimeout, match="no query slot"):
            await queries.query("SELECT 1", timeout_s=0.02)
        hog.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hog
        assert rows_in(await queries.query("SELECT 1")) == [[1]]


async def test_a_query_over_its_memory_is_refused_and_others_go_on(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, query_memory_mb=8, temp_mb=1)
    async with engine(tmp_path, limits) as queries:
        with pytest.raises(QueryTooLarge, match="8 MB"):
            await queries.query("SELECT list(range) FROM range(30000000)")
        assert rows_in(await queries.query("SELECT 1")) == [[1]]


def doubled(step: str, times: int, seed: str = "'x'") -> str:
    """A value grown step by step, each step over a subquery of the one before."""
    sql = f"SELECT {seed} AS x"
    for _ in range(times):
        sql = f"SELECT {step} AS x FROM ({sql})"
    return sql


DOUBLE_X = "replace(x, 'x', 'xx')"
DOUBLE_ALL = "regexp_replace(x, '(.*)', '\\1\\1')"
ATTACKS = {
    "text joined to itself": f"SELECT length(x) FROM ({doubled('x || x', 33)})",
    "text joined in many rows": f"SELECT sum(length(x || range)) FROM ({doubled('x || x', 20)}), range(5000)",
    "text replaced by more": f"SELECT length(x) FROM ({doubled(DOUBLE_X, 33)})",
    "text replaced by a pattern": f"SELECT length(x) FROM ({doubled(DOUBLE_ALL, 33)})",
    "lists": f"SELECT len(x) FROM ({doubled('list_concat(x, x)', 33, '[1]')})",
    "nested values": doubled("{'a': x, 'b': x}", 28),
    "an aggregate of text": "SELECT length(string_agg(range::VARCHAR, ',')) FROM range(300000000)",
    "an aggregate of a list": "SELECT len(list(range)) FROM range(300000000)",
    "a recursion": "WITH RECURSIVE r(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM r WHERE length(x) < 10000000000)"
    " SELECT max(length(x)) FROM r",
    "a slow pattern": f"SELECT regexp_replace(x, '(x|xx)*y', 'z', 'g') FROM ({doubled('x || x', 22)}), range(2000)",
    "a slow function": f"SELECT levenshtein(x, x || 'y') FROM ({doubled('x || x', 17)})",
    "a large product": HEAVY,
}
ATTACK_S = 1.0
PROCESS_MB = 128


@pytest.mark.parametrize("name", ATTACKS)
async def test_whatever_a_query_does_its_memory_and_time_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux holds a process to an address space")
    peaks: list[int] = []

    def waited(pid: int, options: int) -> tuple[int, int]:
        pid, status, usage = os.wait4(pid, options)
        peaks.append(usage.ru_maxrss * 1_024)
        return pid, status

    monkeypatch.setattr(os, "waitpid", waited)
    own_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    limits = msgspec.structs.replace(LIMITS, query_process_mb=PROCESS_MB)
    async with engine(tmp_path, limits) as queries:
        # The slack is for a busy machine; what it bounds ran for 36 s under a limit of 8 s, and for ever.
        async with asyncio.timeout(ATTACK_S + 15):
            with pytest.raises((QueryTimeout, QueryTooLarge)):
                await queries.query(ATTACKS[name], timeout_s=ATTACK_S)
        assert rows_in(await queries.query("SELECT 1")) == [[1]]
    assert max(peaks) < own_bytes + PROCESS_MB * 1_000_000


async def test_a_query_larger_than_its_memory_spills_and_leaves_no_file(tmp_path: Path) -> None:
    async with engine(tmp_path, msgspec.structs.replace(LIMITS, temp_mb=512)) as queries:
        many = "SELECT x FROM (SELECT hash(range) AS x FROM range(5000000)) ORDER BY x LIMIT 1 OFFSET 4999999"
        assert len(rows_in(await queries.query(many))) == 1
        assert [list(spills.iterdir()) for spills in tmp_path.glob("*.spill-*")] == [[]]
    assert not list(tmp_path.glob("*.spill-*"))


async def test_a_querys_process_holds_no_lock_and_no_socket_of_ours(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    async with engine(tmp_path) as queries:
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            hog = asyncio.ensure_future(queries.query(HEAVY))
            pids = [await forked(queries)]
        with lock.open("w") as again:  # a file that a fork still has open would stay locked
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hog.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hog
        async with asyncio.timeout(10):
            while any(Path(f"/proc/{pid}").exists() for pid in pids):
                await asyncio.sleep(0.01)


async def test_a_querys_process_ends_by_itself_when_nobody_is_left_to_end_it(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, pathlib, sys, threading\n"
        "from tidegate.projections.limits import Limits\n"
        "from tidegate.projections.readonly import open_read_only\n"
        "async def main():\n"
        "    limits = Limits(query_timeout_s=1.0)\n"
        f"    async with open_read_only(pathlib.Path({str(tmp_path / 'm.duckdb')!r}), limits) as queries:\n"
        f"        asking = asyncio.ensure_future(queries.query({HEAVY!r}))\n"
        "        while not (pids := [c._pid for c in queries._running if c._pid]):\n"
        "            await asyncio.sleep(0.01)\n"
        "        print(pids[0], flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    Store.open(tmp_path / "m.duckdb", LIMITS).close()
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    owner.kill()
    await owner.wait()
    async with asyncio.timeout(20):
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
            await asyncio.sleep(0.05)
    Store.open(tmp_path / "m.duckdb", LIMITS).close()
    assert not list(tmp_path.glob("*.spill-*")), "what a killed process spilled is removed at the next start"


async def forked(queries: QueryEngine) -> int:
    """Pid of the one running query, once its process has closed what is not its own."""
    async with asyncio.timeout(10):
        while True:
            for child in queries._running:
                pid = child._pid
                if pid and not holds_lock(pid):
                    return pid
            await asyncio.sleep(0.01)


def holds_lock(pid: int) -> bool:
    """Whether a process still has the file open: it closes some while they are looked at."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if "lock" in str(link.readlink()):
                return True
    return False


async def test_an_answer_over_its_size_is_refused(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, query_answer_bytes=10_000)
    async with engine(tmp_path, limits) as queries:
        with pytest.raises(QueryTooLarge, match="10000 bytes"):
            await queries.query("SELECT * FROM range(5000)")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nope FROM v_spend",
        "SELECT $a",
        "SELECT 1 + 'x'",
        "SELECT MAP {TRUE: 2}",
    ],
)
async def test_a_query_the_database_cannot_run_is_the_callers_fault(tmp_path: Path, sql: str) -> None:
    async with engine(tmp_path) as queries:
        with pytest.raises(SqlFailed):
            await queries.query(sql)
        assert rows_in(await queries.query("SELECT 1")) == [[1]]


async def test_what_is_no_select_is_refused_before_the_database_sees_it(tmp_path: Path) -> None:
    async with engine(tmp_path) as queries:
        with pytest.raises(SqlRefused):
            await queries.query("COMMIT; DELETE FROM positions")
        assert rows_in(await queries.query("SELECT count(*) FROM positions")) == [[48]]


async def test_even_a_write_that_passed_the_guard_would_find_a_read_only_transaction(tmp_path: Path) -> None:
    class Blind(SqlGuard):
        def check(self, sql: str) -> None:
            pass

    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    queries = QueryEngine(store.source, LIMITS, Blind())
    with pytest.raises(SqlFailed, match="read-only"):
        await queries.query("WITH a AS (DELETE FROM positions RETURNING *) SELECT * FROM a")
    assert len(store.positions()) == 48
    queries.close()
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SET memory_limit = '9GB'",
        "SET enable_external_access = true",
        "SET temp_directory = '/tmp'",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM sources",
    ],
)
async def test_behind_the_guard_settings_are_locked_and_nothing_outside_can_be_read(
    tmp_path: Path, statement: str
) -> None:
    class Blind(SqlGuard):
        def check(self, sql: str) -> None:
            pass

    sources = [(1,)]  # what a replacement scan would find
    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    queries = QueryEngine(store.source, LIMITS, Blind())
    with pytest.raises(SqlFailed):
        await queries.query(statement)
    queries.close()
    store.close()
    assert sources


async def test_closing_stops_running_queries_and_says_why(tmp_path: Path) -> None:
    async with engine(tmp_path) as queries:
        running = asyncio.ensure_future(queries.query(HEAVY))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(queries.close)
        with pytest.raises(Unavailable, match="closing"):
            await running
        with pytest.raises(Unavailable, match="closing"):
            await queries.query("SELECT 1")


async def test_queries_see_whole_commits_while_ingest_goes_on(tmp_path: Path) -> None:
    store, guard = Store.open(tmp_path / "m.duckdb", LIMITS), SqlGuard()
    queries = QueryEngine(store.source, LIMITS, guard)
    row: tuple[object, ...] = (4, 9, "e", 1, "gw", "t", "r", "s", "k", None, "code", 404, None)
    where = TopicPartition(REQUESTS.name, 4)
    for number in range(20):
        part = Part(where=where, position=number, rows={"r_refusals": [row] * 3})
        writing = asyncio.ensure_future(asyncio.to_thread(store.apply, [part]))
        seen = rows_in(await queries.query("SELECT count(*) % 3 FROM r_refusals"))
        await writing
        assert seen == [[0]]
    queries.close()
    store.close()
    guard.close()


async def test_without_a_projector_the_file_answers_read_only_under_the_same_guard(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    await filled(path, History().day(10))
    before = path.read_bytes()
    async with open_read_only(path, LIMITS) as queries:
        assert rows_in(await queries.query("SELECT count(*) FROM v_requests")) == [[10]]
        with pytest.raises(SqlRefused):
            await queries.query("DELETE FROM r_requests")
        with pytest.raises(QueryTimeout):
            await queries.query(HEAVY, timeout_s=0.05)
    assert path.read_bytes() == before


async def test_a_file_that_is_no_read_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "junk.duckdb").write_bytes(b"junk" * 5_000)
    for name in ("junk.duckdb", "missing.duckdb"):
        with pytest.raises(StoreUnusable, match=name):
            async with open_read_only(tmp_path / name, LIMITS):
                pass


async def test_a_database_of_others_or_of_another_schema_is_not_asked(tmp_path: Path) -> None:
    for name, statements, message in (
        ("theirs", "CREATE TABLE t (a INT)", "is no read model"),
        (
            "old",
            "CREATE TABLE meta (schema_digest VARCHAR); INSERT INTO meta VALUES ('old')",
            "another schema",
        ),
    ):
        with duckdb.connect(str(tmp_path / name)) as database:
            database.execute(statements)
        with pytest.raises(StoreUnusable, match=message):
            async with open_read_only(tmp_path / name, LIMITS):
                pass


async def test_a_file_in_use_points_to_the_socket(tmp_path: Path) -> None:
    # Within one process DuckDB shares the instance, so the other owner must be another process.
    path = tmp_path / "m.duckdb"
    await filled(path, History().day(2))
    script = (
        "import sys, duckdb\n"
        f"held = duckdb.connect({str(path)!r})\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    await owner.stdout.readline()
    with pytest.raises(StoreTaken, match="ask its socket"):
        async with open_read_only(path, LIMITS):
            pass
    owner.kill()
    await owner.wait()


async def test_a_read_model_that_is_not_there_yet_is_told_with_who_makes_it(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"no read model at .*m\.duckdb yet: a projector makes it"):
        async with open_read_only(tmp_path / "m.duckdb", LIMITS):
            pass
