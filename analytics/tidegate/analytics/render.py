"""Results for people (rich tables, money in dollars) and for programs (plain values for `--json`)."""

from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from tidegate.analytics.reconcile import Reconciliation
from tidegate.analytics.replay_verify import ReplayReport
from tidegate.analytics.reports import Report, Section
from tidegate.analytics.reprice import Repricing
from tidegate.analytics.sql import Result
from tidegate.events.money import dollars

_MONEY = "_nanousd"
_UNKNOWN = "–"
_CONTROL = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], "�")
"""Values come from clients and providers: nothing in them may steer a terminal."""


def as_table(result: Result, title: str | None = None) -> Table:
    """A table; columns `x_nanousd` become `x $`, exact."""
    note = "more rows than shown" if result.truncated else None
    table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for name, kind in zip(result.columns, result.types, strict=True):
        table.add_column(plain(_heading(name)), justify="right" if _is_numeric(kind) else "left")
    for row in result.rows:
        cells = zip(result.columns, row, strict=True)
        table.add_row(*(plain(shown(name, value)) for name, value in cells))
    return table


def _heading(column: str) -> str:
    return f"{column.removesuffix(_MONEY)} $" if column.endswith(_MONEY) else column


def _is_numeric(kind: str) -> bool:
    return kind.endswith("INT") or kind in {"INTEGER", "DOUBLE", "FLOAT"} or kind.startswith("DECIMAL")


def shown(column: str, value: Any) -> str:
    """One cell as text."""
    if value is None:
        return _UNKNOWN
    if column.endswith(_MONEY) and isinstance(value, (int, float)):
        return dollars(round(value))
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def plain(text: str) -> Text:
    """Text without markup and control characters."""
    return Text(text.translate(_CONTROL))


def result_json(result: Result) -> dict[str, Any]:
    """`{"columns", "types", "rows", "truncated"}`."""
    return {
        "columns": list(result.columns),
        "types": list(result.types),
        "rows": result.rows,
        "truncated": result.truncated,
    }


def report_tables(report: Report, *, wide: bool = False) -> list[Table]:
    """One table per section, a line for each row: its brief columns, or all of them."""
    return [_lines(section, () if wide else section.brief) for section in report.sections]


def _lines(section: Section, brief: tuple[tuple[str, str], ...]) -> Table:
    result = section.result
    note = "more rows than shown" if result.truncated else None
    title = section.title if result.rows else f"{section.title}: none"
    table = Table(
        title=title, caption=note, title_justify="left", caption_justify="left", box=None, pad_edge=False,
        padding=(0, 2, 0, 0), title_style="bold", header_style="dim", show_header=bool(result.rows),
    )  # fmt: skip
    headings = dict(brief) or {name: _heading(name) for name in result.columns}
    for name, heading in headings.items():
        kind = result.types[result.columns.index(name)]
        table.add_column(plain(heading), justify="right" if _is_numeric(kind) else "left", no_wrap=True)
    for row in result.records():
        table.add_row(
            *(plain(_short(name, row[name]) if brief else shown(name, row[name])) for name in headings)
        )
    return table


def _short(column: str, value: Any) -> str:
    """One cell where room is scarce: times to the minute, money to six places."""
    if column.endswith("_at") and isinstance(value, str):
        return value[5:16].replace("T", " ")
    if column.endswith(_MONEY) and isinstance(value, int):
        return f"{value / 1e9:.6f}"
    return f"{value:.3g}" if isinstance(value, float) else shown(column, value)


def report_json(report: Report) -> dict[str, Any]:
    """`{"report", "sections": [{"query", "title", columns, …}]}`."""
    sections = [
        {"query": section.query, "title": section.title, **result_json(section.result)}
        for section in report.sections
    ]
    return {"report": report.name, "sections": sections}


def replay_json(report: ReplayReport) -> dict[str, Any]:
    """The counts, the examples, and `clean`."""
    return {**msgspec.to_builtins(report), "clean": report.is_clean}


def replay_table(report: ReplayReport) -> Table:
    """The counts, then the first decisions that were not identical."""
    found = (
        f"{report.decisions} decisions replayed"
        if report.decisions
        else "nothing replayed: no decision found"
    )
    table = Table(title=found, title_justify="left")
    for heading in ("outcome", "decisions", "first seen at", "what differs"):
        table.add_column(heading)
    for outcome in ("identical", "different", "other_version", "input_missing", "unreadable"):
        first = next((example for example in report.examples if example.outcome == outcome), None)
        table.add_row(
            outcome,
            str(getattr(report, outcome)),
            plain("" if first is None else first.decision),
            plain("" if first is None else first.detail),
        )
    if report.beyond_reach != 0:
        count = "unknown" if report.beyond_reach is None else str(report.beyond_reach)
        table.add_row("beyond reach", count, "", "the archive ends before")
    return table


def reconciliation_json(found: Reconciliation) -> dict[str, Any]:
    """Everything found and written, and `balanced`."""
    return {**msgspec.to_builtins(found), "balanced": found.is_balanced}


def reconciliation_table(found: Reconciliation) -> Table:
    """Ledger and bills side by side."""
    table = Table(title="Ledger against the providers' bills", title_justify="left")
    for heading in ("", "attempts", "$", "unpriced"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, sums in (("ledger before", found.before), ("ledger after", found.after)):
        table.add_row(name, str(sums.attempts), dollars(sums.nanousd), str(sums.unpriced))
    table.add_row("billed", "", dollars(found.billed_nanousd), "")
    open_doubts = sum(not each.confirmed for each in found.unreported)
    table.caption = (
        f"{len(found.corrections)} corrections, {open_doubts} of {len(found.unreported)} unreported attempts in "
        f"doubt, {len(found.unknown_lines)} lines of no attempt of ours, {len(found.open_lines)} of open attempts,"
        f" {len(found.left_out)} attempts for the next run, {len(found.missing)} on no bill,"
        f" {len(found.uncovered)} of providers without one, {len(found.absurd_lines)} lines that cannot be true"
    )
    return table


def repricing_json(found: Repricing) -> dict[str, Any]:
    """Everything found and written."""
    built: dict[str, Any] = msgspec.to_builtins(found)
    return built


def repricing_table(found: Repricing) -> Table:
    """The ledger before and after."""
    table = Table(title="Attempts that had no price", title_justify="left")
    for heading in ("", "attempts", "$", "unpriced"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, sums in (("ledger before", found.before), ("ledger after", found.after)):
        table.add_row(name, str(sums.attempts), dollars(sums.nanousd), str(sums.unpriced))
    table.caption = (
        f"{len(found.corrections)} priced, {len(found.without_price)} of targets without a price for that time, "
        f"{len(found.without_usage)} of which only a bill can tell what they used"
    )
    return table


def unreported_table(found: Reconciliation) -> Table:
    """Attempts whose usage the provider did not tell with its answer, a line each."""
    table = _plain_table("Attempts whose usage was not reported with the answer")
    for heading in ("attempt", "target", "basis", "outcome", "confirmed"):
        table.add_column(heading, no_wrap=True)
    for each in found.unreported:
        values = (each.attempt, each.target, each.basis, each.outcome, "yes" if each.confirmed else "no")
        table.add_row(*map(plain, values))
    return table


def unbalanced_table(found: Reconciliation) -> Table:
    """Every line and attempt that keeps the ledger from being equal to the bills, and why."""
    table = _plain_table("Why the ledger does not equal the bills")
    for heading in ("what", "provider", "attempt", "billed $"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "billed $" else "left")
    lines = (("billed, no attempt of ours", found.unknown_lines), ("billed, still open", found.open_lines))
    for what, billed in lines:
        for line in billed:
            values = (what, line.provider, line.attempt or _UNKNOWN, dollars(line.cost_nanousd))
            table.add_row(*map(plain, values))
    for absurd in found.absurd_lines:
        what = f"line {absurd.line} of the bill cannot be true: {absurd.reason}"
        table.add_row(*map(plain, (what, absurd.provider, absurd.attempt or _UNKNOWN, _UNKNOWN)))
    attempts = (("on no bill", found.missing), ("of a provider without a bill", found.uncovered))
    for what, ids in attempts:
        for attempt in ids:
            table.add_row(*map(plain, (what, _UNKNOWN, attempt, _UNKNOWN)))
    return table


def _plain_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
