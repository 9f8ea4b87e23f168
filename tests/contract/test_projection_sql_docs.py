"""docs/reference/sql.md says what is: every view, column, type, query, report, table, bound and refusal."""

import re
from functools import cache
from pathlib import Path

import duckdb
import pytest

from tidegate.analytics.catalog import catalog
from tidegate.analytics.reports import REPORTS
from tidegate.projections.ddl import schema_sql
from tidegate.projections.limits import Limits
from tidegate.projections.sqlguard import CATALOG, DENIED_FUNCTIONS, TABLE_FUNCTIONS
from tidegate.projections.tables import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
BOUNDLESS = {"repeat", "lpad", "rpad", "bar", "printf", "format", "list_resize", "array_resize"}


@cache
def page() -> str:
    return PAGE.read_text("utf-8")


def rows_under(heading: str) -> list[list[str]]:
    """Cells of the first table under a heading."""
    section = re.split(r"^#+ ", page().split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line][1:]


@cache
def schema() -> dict[str, list[tuple[str, str]]]:
    """Views with their columns and types, as the database has them."""
    with duckdb.connect() as database:
        database.execute(schema_sql())
        rows = database.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " WHERE starts_with(table_name, 'v_') ORDER BY table_name, ordinal_position"
        ).fetchall()
    found: dict[str, list[tuple[str, str]]] = {}
    for view, column, kind in rows:
        found.setdefault(view, []).append((column, kind))
    return found


def test_exactly_the_views_there_are_have_a_heading() -> None:
    assert sorted(re.findall(r"^### (v_\w+)$", page(), re.MULTILINE)) == sorted(schema())


@pytest.mark.parametrize("view", sorted(schema()))
def test_every_column_of_a_view_is_named_with_its_type_and_meaning_in_order(view: str) -> None:
    told = rows_under(view)
    assert [(name.strip("`"), kind) for name, kind, _ in told] == schema()[view]
    assert all(meaning for _, _, meaning in told)


def test_sums_in_views_are_integers() -> None:
    for view, columns in schema().items():
        for name, kind in columns:
            if name.endswith("_nanousd") and name not in {"shadow_nanousd", "amortised_nanousd"}:
                assert kind in {"BIGINT", "HUGEINT"}, (view, name)


def test_every_named_query_is_listed_with_its_parameters() -> None:
    told = {
        name.strip("`"): (audience, params, title)
        for name, audience, params, title in rows_under("Named queries")
    }
    expected = {
        query.name: (
            query.audience,
            ", ".join(f"**{p.name}**" if p.required else p.name for p in query.params),
            query.title,
        )
        for query in catalog().values()
    }
    assert told == expected


def test_every_report_is_listed_with_its_queries() -> None:
    told = {
        name.strip("`"): tuple(re.findall(r"`(\w+)`", queries)) for name, queries in rows_under("Reports")
    }
    assert told == REPORTS


def test_every_table_is_listed_with_its_topic() -> None:
    assert [[f"`{t.name}`", f"`{t.topic}`"] for t in TABLES] == rows_under("Tables")[:-1]


def test_the_bounds_are_the_defaults() -> None:
    told = {bound: value for bound, value, _ in rows_under("Asking")}
    limits = Limits()
    assert told == {
        "time of a query": f"{limits.query_timeout_s:g} s",
        "rows of an answer": str(limits.query_rows),
        "size of an answer": f"{limits.query_answer_bytes} bytes",
        "one sort or hash table of a query": f"{limits.query_memory_mb} MB",
        "memory of a query's process, beyond the projector's own": f"{limits.query_process_mb} MB",
        "queries at once": str(limits.query_slots),
        "wait for a position": f"{limits.position_wait_s:g} s",
    }


def test_what_the_guard_lets_through_and_refuses_by_name_is_told() -> None:
    asking = page().split("## Asking\n", 1)[1].split("## The socket", 1)[0]
    named = set(re.findall(r"`\.?([a-z_.]+)`", asking))
    assert named >= TABLE_FUNCTIONS
    assert {name.removeprefix("information_schema.") for name in named} >= CATALOG
    assert BOUNDLESS <= DENIED_FUNCTIONS
    assert named >= BOUNDLESS
