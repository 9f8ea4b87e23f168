"""Projector and analytics meet at the socket and at the views: both ends together."""

import asyncio
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from support.forecast_history import Told
from support.history import TENANTS, History
from support.read_model import LIMITS, PACE, Heard, folded, memory_log
from tidegate.analytics.catalog import catalog, named
from tidegate.analytics.client import SocketSource
from tidegate.analytics.errors import QueryRefused, QueryUnavailable, UnknownQuery
from tidegate.analytics.reports import REPORTS, Asked, report
from tidegate.analytics.sql import ask, ask_named
from tidegate.events.errors import Refused, Unavailable
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import REQUESTS
from tidegate.projections.limits import Limits
from tidegate.projections.projector import Projector
from tidegate.projections.readonly import open_read_only
from tidegate.projections.rebuild import rebuild

pytestmark = pytest.mark.slow  # real sockets, real databases

HEAVY = "SELECT count(*) FROM range(10000000) AS a, range(10000000) AS b WHERE a.range * b.range = 7"
LATE = msgspec.structs.replace(LIMITS, position_wait_s=0.05)


@asynccontextmanager
async def projecting(
    log: MemoryEventLog, folder: Path, limits: Limits = LIMITS
) -> AsyncGenerator[tuple[SocketSource, Projector]]:
    """A projector that listens, and a client of it."""
    heard, stop = Heard(), asyncio.Event()
    projector = Projector(
        log, folder / "m.duckdb", folder / "q.sock",
        dead_letters=heard.dead_letter, alarm=heard, limits=limits, pace=PACE,
    )  # fmt: skip
    running = asyncio.ensure_future(projector.run(stop))
    waiting = asyncio.ensure_future(projector.ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        running.result()
    try:
        yield SocketSource(folder / "q.sock"), projector
    finally:
        stop.set()
        await running


def ends(log: MemoryEventLog) -> dict[TopicPartition, int]:
    return {where: part.end for where, part in log.store.partitions.items()}


async def test_every_named_query_and_every_report_runs_on_the_views(tmp_path: Path) -> None:
    history = Told(History().day(80)).periods(4).history
    log = await memory_log(history.outgoing())
    request = next(e.draft.request for e in history.events if e.draft.type == "DecisionMade")
    async with projecting(log, tmp_path) as (source, _):
        await source.query("SELECT 1", min_position=ends(log))
        for query in catalog().values():
            given = {"id": request, "tenant": TENANTS[0]}
            wanted = {param.name: given[param.name] for param in query.params if param.required}
            found = await ask_named(source, query.name, wanted)
            assert found.columns
            if "id" not in wanted:
                assert found.rows, query.name
        for name, queries in REPORTS.items():
            params = {param.name: param.required for param in named(queries[0]).params}
            asked = Asked(
                id=request if "id" in params else None, tenant=TENANTS[0] if params.get("tenant") else None
            )
            made = await report(source, name, asked)
            assert all(section.result.rows for section in made.sections), name
            if "tenant" in params:
                nobody = await report(source, name, Asked(tenant="nobody", since_ns=1))
                assert all(not s.result.rows for s in nobody.sections if s.query != "session_totals"), name


async def test_a_report_nobody_knows_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownQuery, match="'profit'; there are sessions, spend, drift"):
        await report(SocketSource(tmp_path / "nowhere"), "profit")


async def test_a_second_swap_while_one_is_under_way_is_refused(tmp_path: Path) -> None:
    log = await memory_log(History().day(5).outgoing())
    async with projecting(log, tmp_path) as (source, projector):
        await source.query("SELECT 1", min_position=ends(log))
        await rebuild(log, tmp_path / "m.duckdb", LIMITS)
        first = asyncio.ensure_future(projector.swap(force=False))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match=r"under way|not open"):
            await projector.swap(force=False)
        assert (await first).swapped


async def test_a_second_projector_on_the_same_files_ends_and_the_first_goes_on(tmp_path: Path) -> None:
    log = await memory_log()
    async with projecting(log, tmp_path) as (source, _):
        script = (
            "import sys, pathlib\n"
            "from tidegate.projections.errors import StoreTaken\n"
            "from tidegate.projections.limits import Limits\n"
            "from tidegate.projections.recovery import open_or_start_over\n"
            "try:\n"
            f"    open_or_start_over(pathlib.Path({str(tmp_path / 'm.duckdb')!r}), Limits())\n"
            "except StoreTaken:\n"
            "    sys.exit(7)\n"
        )
        second = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
        assert await second.wait() == 7
        assert (await ask(source, "SELECT 1")).rows == [[1]]


async def test_tenants_see_their_own_rows_only(tmp_path: Path) -> None:
    history = History().day(80)
    log = await memory_log(history.outgoing())
    theirs = {e.draft.request for e in history.events if e.draft.tenant == "beta" and e.topic is REQUESTS}
    decided = next(
        e.draft.request for e in history.events if e.draft.type == "DecisionMade" and e.draft.tenant == "beta"
    )
    async with projecting(log, tmp_path) as (source, _):
        await source.query("SELECT 1", min_position=ends(log))
        rows = (await ask_named(source, "tenant_requests", {"tenant": "beta"}, audience="tenant")).records()
        assert {row["request"] for row in rows} == theirs
        for name in ("tenant_decision", "tenant_candidates"):
            own = await ask_named(source, name, {"tenant": "beta", "id": decided}, audience="tenant")
            foreign = await ask_named(source, name, {"tenant": "acme", "id": decided}, audience="tenant")
            assert own.rows
            assert foreign.rows == []


async def test_socket_and_file_give_the_same_answers(tmp_path: Path) -> None:
    log = await memory_log(History().day(40).outgoing())
    sql = "SELECT * FROM v_ledger ORDER BY attempt"
    async with projecting(log, tmp_path) as (source, _):
        await source.query("SELECT 1", min_position=ends(log))
        by_socket = await ask(source, sql)
    async with open_read_only(tmp_path / "m.duckdb", LIMITS) as engine:
        by_file = await ask(engine, sql)
    assert by_socket == by_file
    assert by_socket.rows


async def test_only_the_owner_may_open_the_socket(tmp_path: Path) -> None:
    async with projecting(await memory_log(), tmp_path):
        assert stat.S_IMODE((tmp_path / "q.sock").stat().st_mode) == 0o600
    assert not (tmp_path / "q.sock").exists()


async def test_a_socket_file_of_a_dead_projector_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "q.sock").touch()
    async with projecting(await memory_log(), tmp_path) as (source, _):
        assert (await ask(source, "SELECT 1")).rows == [[1]]


async def test_a_socket_path_too_long_for_the_system_is_named(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    with pytest.raises(Refused, match="longer than 100 bytes"):
        async with projecting(await memory_log(), deep):
            pass


async def test_hostile_and_broken_queries_are_refused_with_their_code_and_change_nothing(
    tmp_path: Path,
) -> None:
    log = await memory_log(History().day(10).outgoing())
    async with projecting(log, tmp_path) as (source, _):
        await source.query("SELECT 1", min_position=ends(log))
        for sql, code in (
            ("COMMIT; DELETE FROM r_requests", "sql_refused"),
            ("WITH a AS (DELETE FROM r_requests RETURNING *) SELECT * FROM a", "sql_refused"),
            ("SELECT * FROM read_text('/etc/hostname')", "sql_refused"),
            ("SELECT nope FROM v_requests", "sql_failed"),
        ):
            with pytest.raises(QueryRefused) as refused:
                await source.query(sql)
            assert refused.value.code == code
        with pytest.raises(QueryUnavailable) as slow:
            await source.query(HEAVY, timeout_s=0.05)
        assert slow.value.code == "query_timeout"
        assert (await ask(source, "SELECT count(*) FROM v_requests")).rows == [[10]]


async def test_a_query_waits_for_its_position_and_no_longer_than_the_limit(tmp_path: Path) -> None:
    records = History().day(20).outgoing()
    log = await memory_log(records[:50])
    where = TopicPartition(records[50].topic, records[50].partition)
    wanted = {where: ends(log).get(where, 0) + 1}
    async with projecting(log, tmp_path) as (source, _):
        early = asyncio.ensure_future(source.query("SELECT 1", min_position=wanted))
        await source.query("SELECT 1", min_position=ends(log))
        assert not early.done()
        await log.append([records[50]])
        assert (await early).truncated is False
    async with projecting(log, tmp_path, LATE) as (source, _):
        with pytest.raises(QueryUnavailable, match=r"is at \d+, not") as behind:
            await source.query("SELECT 1", min_position={where: 10**9})
        assert (behind.value.code, behind.value.retry_after_s) == ("not_caught_up", 1.0)


async def test_a_client_that_goes_away_frees_its_slot(tmp_path: Path) -> None:
    one_slot = msgspec.structs.replace(LIMITS, query_slots=1)
    async with projecting(await memory_log(), tmp_path, one_slot) as (source, _):
        hog = asyncio.ensure_future(source.query(HEAVY))
        await asyncio.sleep(0.05)
        hog.cancel()
        assert (await ask(source, "SELECT 1")).rows == [[1]]


async def test_status_tells_positions_counts_and_what_is_stopped(tmp_path: Path) -> None:
    history = History().day(10)
    log = await memory_log(history.outgoing())
    async with projecting(log, tmp_path) as (source, _):
        await source.query("SELECT 1", min_position=ends(log))
        status = await source.status()
    assert status["counts"]["events"] == len(history.events)
    assert {(topic, at): n for topic, at, n in status["positions"] if n} == {
        where: end for where, end in ends(log).items() if end
    }
    assert (status["halted"], status["gaps"], status["started_over"]) == ([], [], None)


async def test_a_rebuilt_file_is_swapped_in_through_the_socket(tmp_path: Path) -> None:
    log = await memory_log(History().day(30).outgoing())
    async with projecting(log, tmp_path) as (source, _):
        await source.query("SELECT 1", min_position=ends(log))
        with pytest.raises(QueryRefused, match="no rebuilt file") as missing:
            await source.swap()
        assert missing.value.code == "store_unusable"
        built = await rebuild(log, tmp_path / "m.duckdb", LIMITS)
        swapped = await source.swap()
        assert (await ask(source, "SELECT count(*) FROM v_requests")).rows == [[30]]
        assert swapped == {
            "swapped": True, "compared": True, "differing": [], "rows": built.rows, "unread": [], "kept": None,
        }  # fmt: skip
    assert await folded(log, tmp_path / "m.duckdb") == await folded(log, tmp_path / "clean.duckdb")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x02{}"[:5],
        b"\x00\x00\x00\x04junk",
        b'\x00\x00\x00\x10{"nonsense": 12}',
    ],
)
async def test_a_peer_that_does_not_speak_the_protocol_is_told_and_left(tmp_path: Path, sent: bytes) -> None:
    async with projecting(await memory_log(), tmp_path) as (source, _):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "q.sock"))
        writer.write(sent)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert b"bad_frame" in answer
        assert (await ask(source, "SELECT 1")).rows == [[1]]


async def test_connections_beyond_the_cap_are_refused_and_the_others_served(tmp_path: Path) -> None:
    async with projecting(await memory_log(), tmp_path) as (source, _):
        open_ones = [await asyncio.open_unix_connection(str(tmp_path / "q.sock")) for _ in range(64)]
        with pytest.raises(QueryUnavailable):
            await source.query("SELECT 1")
        for _, writer in open_ones:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(20):
            while True:
                try:
                    assert (await ask(source, "SELECT 1")).rows == [[1]]
                    break
                except QueryUnavailable:
                    await asyncio.sleep(0.01)


async def test_one_connection_may_ask_many_times(tmp_path: Path) -> None:
    async with projecting(await memory_log(), tmp_path):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "q.sock"))
        for n in range(5):
            body = msgspec.json.encode({"sql": f"SELECT {n} AS n"})
            writer.write(len(body).to_bytes(4, "big") + body)
            length = int.from_bytes(await reader.readexactly(4), "big")
            assert msgspec.json.decode(await reader.readexactly(length))["rows"] == [[n]]
        writer.close()
        await writer.wait_closed()
