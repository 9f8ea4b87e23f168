"""The one writer: all or nothing, one process, disposable file."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from support.history import History
from support.read_model import LIMITS, filled
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import REQUESTS, SIGNALS
from tidegate.projections.batch import MarkRow, Part
from tidegate.projections.content import content
from tidegate.projections.errors import StoreTaken, StoreUnusable
from tidegate.projections.recovery import open_or_start_over
from tidegate.projections.store import Store
from tidegate.projections.tables import TOPICS

pytestmark = pytest.mark.slow  # each opens databases

AT = TopicPartition(REQUESTS.name, 4)
REFUSAL = (4, 9, "e", 1, "gw", "t", "r", "s", "k", None, "code", 404, None)


def part(position: int, row: tuple[object, ...] = REFUSAL, where: TopicPartition = AT) -> Part:
    return Part(
        where=where,
        position=position,
        rows={"r_refusals": [row]},
        marks=[MarkRow(*where, "gw", position, None)],
    )


def test_rows_position_and_marks_of_a_batch_are_kept_together(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    store.apply([part(10)])
    store.apply([part(12)])
    store.close()
    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    assert store.positions()[AT] == 12
    assert store.marks() == [MarkRow(*AT, "gw", 12, None)]
    assert content(store.connection)["r_refusals"].rows == 2
    store.close()


def test_a_batch_that_fails_leaves_nothing_behind_and_the_next_one_works(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    too_wide = (*REFUSAL[:1], 2**70, *REFUSAL[2:])
    other = TopicPartition(SIGNALS.name, 0)
    with pytest.raises(duckdb.Error):
        store.apply([part(5, where=other), part(10, too_wide)])
    assert set(store.positions().values()) == {0}
    assert store.marks() == []
    store.apply([part(10)])
    assert content(store.connection)["r_refusals"].rows == 1
    store.close()


def test_a_forgotten_mark_is_gone_and_others_stay(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    old = MarkRow(*AT, "old", 3, 7)
    store.apply([Part(where=AT, position=4, marks=[old, MarkRow(*AT, "gw", 4, None)])])
    elsewhere = TopicPartition(REQUESTS.name, 5)
    store.apply([Part(where=elsewhere, position=1, marks=[MarkRow(*elsewhere, "old", 1, 7)])])
    store.apply([Part(where=AT, position=5, forgotten=["old"])])
    assert sorted(store.marks()) == [MarkRow(*AT, "gw", 4, None), MarkRow(*elsewhere, "old", 1, 7)]
    store.close()


def test_a_new_store_starts_every_folded_partition_at_zero(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "m.duckdb", LIMITS)
    assert store.positions() == {
        TopicPartition(topic.name, n): 0 for topic in TOPICS for n in range(topic.partitions)
    }
    store.close()


def test_a_second_process_is_told_that_the_store_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    script = (
        "import sys, pathlib\n"
        "from tidegate.projections.limits import Limits\n"
        "from tidegate.projections.recovery import open_or_start_over\n"
        f"opened = open_or_start_over(pathlib.Path({str(path)!r}), Limits())\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(StoreTaken, match="open in another process"):
            open_or_start_over(path, LIMITS)
        owner.kill()
    assert not path.with_name("m.duckdb.broken").exists()


async def damage(path: Path, how: str) -> None:
    await filled(path, History().day(5))
    raw = bytearray(path.read_bytes())
    if how == "no database":
        raw[:] = b"garbage" * 1_000
    elif how == "first block":
        raw[4_096:4_200] = b"x" * 104
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize("how", ["no database", "first block"])
async def test_a_damaged_file_is_moved_aside_and_begun_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m.duckdb"
    await damage(path, how)
    damaged = path.read_bytes()
    opened = open_or_start_over(path, LIMITS)
    assert set(opened.store.positions().values()) == {0}
    opened.store.close()
    assert opened.moved_aside is not None
    assert opened.moved_aside.read_bytes() == damaged
    assert opened.reason


def test_a_file_of_another_schema_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    with duckdb.connect(str(path)) as old:
        old.execute("CREATE TABLE meta (schema_digest VARCHAR)")
        old.execute("INSERT INTO meta VALUES ('of last year')")
    opened = open_or_start_over(path, LIMITS)
    opened.store.close()
    assert opened.moved_aside == tmp_path / "m.duckdb.broken"
    assert "another schema" in (opened.reason or "")


def test_a_sound_file_is_simply_opened(tmp_path: Path) -> None:
    open_or_start_over(tmp_path / "m.duckdb", LIMITS).store.close()
    opened = open_or_start_over(tmp_path / "m.duckdb", LIMITS)
    opened.store.close()
    assert opened.moved_aside is None


def test_a_folder_that_is_missing_is_named_not_repaired(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="nowhere is no folder"):
        open_or_start_over(tmp_path / "nowhere" / "m.duckdb", LIMITS)
