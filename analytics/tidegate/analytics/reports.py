"""Reports: a few named queries under one heading."""

import msgspec

from tidegate.analytics.catalog import named
from tidegate.analytics.errors import UnknownQuery
from tidegate.analytics.ports import SqlSource
from tidegate.analytics.sql import Result, ask_named

SECTION_ROWS = 50


class Section(msgspec.Struct, frozen=True):
    """One table of a report."""

    query: str
    title: str
    result: Result


class Report(msgspec.Struct, frozen=True):
    """Sections in reading order."""

    name: str
    sections: tuple[Section, ...]


REPORTS: dict[str, tuple[str, ...]] = {
    "sessions": ("session_totals", "sessions"),
    "drift": ("drift_by_target", "drift_by_route", "drift_largest"),
    "spend": ("spend_by_tenant", "spend_by_target", "spend_by_day"),
    "failures": ("failures", "refusals"),
}
"""Report → named queries. Each takes `tenant` and `since_ns`."""


async def report(
    source: SqlSource,
    name: str,
    *,
    tenant: str | None = None,
    since_ns: int | None = None,
    max_rows: int = SECTION_ROWS,
) -> Report:
    """Run a report, for one tenant or all. Raises UnknownQuery, Refused, Unavailable."""
    queries = REPORTS.get(name)
    if queries is None:
        raise UnknownQuery(f"no report is named {name!r}; there are {', '.join(REPORTS)}")
    given = {"tenant": tenant, "since_ns": since_ns}
    return Report(
        name,
        tuple(
            [
                Section(query, named(query).title, await ask_named(source, query, given, max_rows=max_rows))
                for query in queries
            ]
        ),
    )
