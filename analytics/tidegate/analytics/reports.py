"""Reports: a few named queries under one heading."""

import msgspec

from tidegate.analytics.catalog import NamedQuery, named
from tidegate.analytics.errors import UnknownQuery
from tidegate.analytics.ports import SqlSource
from tidegate.analytics.sql import Result, ask_named

SECTION_ROWS = 50


class Section(msgspec.Struct, frozen=True):
    """One table of a report; `brief` as in `NamedQuery`."""

    query: str
    title: str
    result: Result
    brief: tuple[tuple[str, str], ...] = ()


class Report(msgspec.Struct, frozen=True):
    """Sections in reading order."""

    name: str
    sections: tuple[Section, ...]


REPORTS: dict[str, tuple[str, ...]] = {
    "sessions": ("session_totals", "sessions"),
    "spend": ("spend_by_tenant", "spend_by_target", "spend_by_day"),
    "drift": ("drift_by_target", "drift_by_route", "drift_largest"),
    "failures": ("failures", "refusals", "reasons"),
    "quota": ("windows",),
    "forecast": ("forecast_scores", "forecast_reliability", "forecast_windows", "forecast_path"),
    "settlements": ("unsettled", "unreported"),
    "request": ("request", "attempts", "decision", "candidates"),
    "requests": ("tenant_requests",),
    "usage": ("tenant_usage",),
}
"""Report → named queries; what a report can be asked for is what all its queries take."""
OF_TENANT: dict[str, tuple[str, ...]] = {"request": ("tenant_decision", "tenant_candidates")}
"""The same reports as a tenant may see them, where that is another query."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a report is asked for; None filters nothing."""

    id: str | None = None
    """A request's id or a decision's."""
    tenant: str | None = None
    since_ns: int | None = None


async def report(
    source: SqlSource, name: str, asked: Asked | None = None, *, max_rows: int = SECTION_ROWS
) -> Report:
    """Run a report. Raises UnknownQuery (no such report, a filter it has not, or one that it needs), Refused,
    Unavailable."""
    if name not in REPORTS:
        raise UnknownQuery(f"no report is named {name!r}; there are {', '.join(REPORTS)}")
    given = {key: value for key, value in msgspec.to_builtins(asked or Asked()).items() if value is not None}
    queries = [named(query) for query in (OF_TENANT if "tenant" in given else {}).get(name, REPORTS[name])]
    known = {param.name for param in queries[0].params}
    for key in given.keys() - known:
        raise UnknownQuery(f"report {name!r} cannot be narrowed by {key.removesuffix('_ns')}")
    for param in queries[0].params:
        if param.required and param.name not in given:
            raise UnknownQuery(f"report {name!r} needs {param.name}: {param.meaning}")
    return Report(name, tuple([await _section(source, query, given, max_rows) for query in queries]))


async def _section(
    source: SqlSource, query: NamedQuery, given: dict[str, str | int], max_rows: int
) -> Section:
    result = await ask_named(source, query.name, given, max_rows=max_rows)
    return Section(query.name, query.title, result, query.brief)
