"""Reports: every named query has one, and what a report cannot be narrowed by is refused, not ignored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.history import History
from support.read_model import LIMITS, filled
from tidegate.analytics.catalog import catalog, named
from tidegate.analytics.errors import UnknownQuery
from tidegate.analytics.reports import OF_TENANT, REPORTS, Asked, report
from tidegate.projections.readonly import open_read_only


def test_every_named_query_is_in_a_report() -> None:
    used = {query for queries in (*REPORTS.values(), *OF_TENANT.values()) for query in queries}
    assert used == set(catalog())


def test_the_queries_of_a_report_take_the_same() -> None:
    for name, queries in (*REPORTS.items(), *OF_TENANT.items()):
        taken = {tuple((p.name, p.required) for p in named(query).params) for query in queries}
        assert len(taken) == 1, name


async def test_brief_columns_are_columns_of_their_query(tmp_path: Path) -> None:
    await filled(tmp_path / "m.duckdb", History().day(20))
    async with open_read_only(tmp_path / "m.duckdb", LIMITS) as source:
        for name in REPORTS:
            needs = {param.name for param in named(REPORTS[name][0]).params if param.required}
            asked = Asked(**{each: "acme" if each == "tenant" else "r1" for each in needs})  # type: ignore[arg-type]
            for section in (await report(source, name, asked)).sections:
                assert {column for column, _ in section.brief} <= set(section.result.columns), section.query


IMPLIED = {"pool", "period"}
"""A target's id stands for one pool for ever, and a window's period ends when it resets: both are shown."""


@pytest.mark.parametrize("name", sorted(catalog()))
def test_rows_that_are_apart_look_apart_in_the_columns_that_are_shown(name: str) -> None:
    query = named(name)
    groups = re.findall(r"^GROUP BY (.+)$", query.sql, re.MULTILINE)
    if not groups or groups == ["ALL"] or not query.brief:
        return
    renamed = dict(re.findall(r"^ +(\w+) AS (\w+),$", query.sql, re.MULTILINE))
    told_by = {renamed.get(column, column) for column in groups[-1].split(", ")}
    assert told_by - IMPLIED <= {column for column, _ in query.brief}


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("nothing", Asked(), "no report is named 'nothing'; there are sessions"),
        ("quota", Asked(tenant="acme"), "'quota' cannot be narrowed by tenant"),
        ("spend", Asked(id="r1"), "'spend' cannot be narrowed by id"),
        ("request", Asked(), "'request' needs id"),
        ("request", Asked(id="r1", since_ns=1), "'request' cannot be narrowed by since"),
        ("usage", Asked(), "'usage' needs tenant"),
    ],
)
async def test_what_a_report_cannot_be_asked_is_said(
    tmp_path: Path, name: str, asked: Asked, said: str
) -> None:
    await filled(tmp_path / "m.duckdb", History().day(2))
    async with open_read_only(tmp_path / "m.duckdb", LIMITS) as source:
        with pytest.raises(UnknownQuery, match=said):
            await report(source, name, asked)


async def test_a_tenant_sees_of_a_request_what_is_its_own(tmp_path: Path) -> None:
    await filled(tmp_path / "m.duckdb", History().day(20))
    async with open_read_only(tmp_path / "m.duckdb", LIMITS) as source:
        found = await source.query("SELECT request, tenant FROM v_decisions WHERE tenant = 'acme' LIMIT 1")
        request = str(found.rows, "utf-8").split('"')[1]
        own = await report(source, "request", Asked(id=request, tenant="acme"))
        foreign = await report(source, "request", Asked(id=request, tenant="beta"))
    assert [section.query for section in own.sections] == ["tenant_decision", "tenant_candidates"]
    assert all(section.result.rows for section in own.sections)
    assert not any(section.result.rows for section in foreign.sections)
