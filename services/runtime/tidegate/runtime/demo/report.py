"""What a demo shows a person: decisions, money beside the bills, forecasts, where to look next."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.events.money import NANOUSD_PER_USD
from tidegate.runtime.commands.brief import five_lines
from tidegate.runtime.demo.figures import Figures
from tidegate.runtime.demo.forecasts import LEGEND, lines
from tidegate.runtime.demo.queries import DecisionRow, SpendRow, WindowRow
from tidegate.runtime.demo.run import Result
from tidegate.runtime.demo.workload import TENANTS

NS_PER_S = 1_000_000_000
_UNKNOWN = "-"
_BASES = {"none": "without cost"}
"""Words for how a settlement came to its cost, where the recorded one is none of a sentence."""


def show(console: Console, result: Result) -> None:
    """Print the whole report; no table needs more than 80 columns."""
    _summary(console, result.figures)
    _section(console, "decisions: mean expected price of a request, dollars")
    console.print(_decisions(result.tables.decisions))
    for reason in result.tables.reasons:
        console.print(f"  not admitted: {reason.times} × {reason.target}, {reason.reason}", highlight=False)
    if result.example is not None:
        _section(console, "one of them: its first choice failed, its client never knew")
        for line in five_lines(result.example, 78).splitlines():
            console.print(Text(f"  {line}"))
    _section(console, "money: spent by tenant (attempts), ledger beside the providers' own invoices")
    console.print(_money(result))
    _section(console, "forecasts: what is left of the quota, and what a unit of it is worth")
    console.print(_forecasts(result.tables.windows, result.speed))
    _foreseen(console, result.figures)
    _proof(console, result.figures)
    _next(console, result)


def _summary(console: Console, found: Figures) -> None:
    console.print(
        f"\n[bold]{found.requests} requests[/bold] of {found.sessions} sessions, {found.origin}, in"
        f" {found.took_s:.1f} s",
        highlight=False,
    )
    console.print(
        f"  {found.succeeded} succeeded, {found.failed} failed, {found.refused} refused;"
        f" {found.failovers} failovers hidden from clients",
        highlight=False,
    )
    changed = {
        "prompts clipped": found.clipped,
        "pauses shortened": found.shortened,
        "requests skipped": found.skipped,
    }
    if any(changed.values()):
        console.print("  of the trace: " + ", ".join(f"{n} {what}" for what, n in changed.items() if n))
    if found.reasons:
        console.print(
            "  what clients saw: " + ", ".join(f"{n} × {code}" for code, n in found.reasons.items()),
            highlight=False,
        )
    if "stream_truncated" in found.reasons:
        console.print("  the flaky provider cuts some on purpose: a begun stream cannot fail over")
    for line in (
        f"deciding took p50 {short(found.decision_p50_us)}, p99 {short(found.decision_p99_us)}",
        f"the gateway added p50 {short(1e3 * found.added_p50_ms)}, p99 {short(1e3 * found.added_p99_ms)}",
        f"{found.events} events, {found.events_per_s:.0f} a second",
        "clients, providers and all roles shared this machine",
    ):
        console.print(f"  {line}", highlight=False)


def _section(console: Console, title: str) -> None:
    console.print(f"\n{title}", style="bold", highlight=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right")
    return table


def _decisions(rows: list[DecisionRow]) -> Table:
    """Per target how often it was the choice, and what a request was expected to cost there."""
    table = _table(
        "target",
        "chosen",
        "price",
        "= cash",
        "+ quota λ·u",
        "+ retry",
    )
    for row in rows:
        prices = (row.price_nanousd, row.cash_nanousd, row.quota_nanousd, row.retry_nanousd)
        table.add_row(row.target, str(row.chosen), *(usd(price) for price in prices))
    return table


def _money(result: Result) -> Table:
    """Spend per target and tenant, and per target the ledger beside the provider's own invoice."""
    table = _table(
        "target",
        *TENANTS,
        "ledger",
        "invoice",
        "differs",
    )
    spend = {(row.target, row.tenant): row for row in result.tables.spend}
    for target, invoice in result.invoices.items():
        ledger = result.by_target.get(target, 0)
        table.add_row(
            target,
            *(_spent(spend, target, tenant) for tenant in TENANTS),
            usd(ledger, 9),
            usd(invoice, 9),
            _difference(ledger - invoice),
        )
    found = result.figures
    table.add_row(
        "all",
        *(
            usd(sum(row.ledger_nanousd for row in result.tables.spend if row.tenant == name), 3)
            for name in TENANTS
        ),
        usd(found.ledger_nanousd, 9),
        usd(found.invoice_nanousd, 9),
        _difference(found.ledger_nanousd - found.invoice_nanousd),
    )
    return table


def _spent(spend: Mapping[tuple[str, str], SpendRow], target: str, tenant: str) -> str:
    row = spend.get((target, tenant))
    return _UNKNOWN if row is None else f"{usd(row.ledger_nanousd, 3)} ({row.attempts})"


def _difference(nanousd: int) -> str:
    return "[green]0[/green]" if nanousd == 0 else f"[red]{nanousd:+,} nano[/red]"


def _forecasts(rows: list[WindowRow], speed: float) -> Table:
    table = _table(
        "window",
        "used",
        "limit",
        "UVI",
        "status",
        "P(exhaust)",
        "λ",
        "resets in",
    )
    for row in rows:
        rest_s = None if row.resets_at_ns is None else (row.resets_at_ns - row.believed_ns) / NS_PER_S * speed
        table.add_row(
            f"{row.pool} {row.window}",
            amount(row.used),
            amount(row.limit),
            _UNKNOWN if row.uvi is None else f"{row.uvi:.2f}",
            row.status,
            _UNKNOWN if row.p_exhaust is None else f"{row.p_exhaust:.2f}",
            usd(round(row.shadow_nanousd), 7),
            _UNKNOWN if rest_s is None else span(rest_s),
        )
    return table


def _foreseen(console: Console, found: Figures) -> None:
    if found.forecasts:
        _section(console, "when that was foreseen: hours of the trace since the window opened")
        console.print(f"  {LEGEND}", style="dim", highlight=False)
    for window in found.forecasts:
        for place, line in enumerate(lines(window)):
            console.print(("" if place == 0 else "  ") + line, highlight=False, markup=False)


def _proof(console: Console, found: Figures) -> None:
    bases = ", ".join(
        f"{count} {_BASES.get(basis, basis)}"
        for basis, count in sorted(found.by_basis.items(), key=lambda each: -each[1])
    )
    console.print(
        f"\n{found.attempts} attempts, {found.settlements} settlements ({bases})\n"
        f"{found.unsettled} unsettled, {found.corrections} corrected\n"
        f"{found.replay_identical} of {found.replay_total} decisions replay bit by bit",
        highlight=False,
    )
    for finding in found.findings:
        console.print(f"INCONSISTENT: {finding}", style="bold red", highlight=False, markup=False)


def _next(console: Console, result: Result) -> None:
    config = shlex.quote(_shown(result.config))
    program = as_called(sys.argv[0])
    console.print("\nwhere to look next", style="bold")
    for command in _commands(result):
        console.print(f"  {program} {command} -c {config}", soft_wrap=True, highlight=False, markup=False)


def _commands(result: Result) -> tuple[str, ...]:
    spent = "sql 'SELECT session, requests, failed_over, ledger_nanousd FROM v_sessions ORDER BY 4 DESC'"
    explain_one = "explain" if result.example is None else f"explain {result.example.decision}"
    return explain_one, "report failures", spent


def as_called(program: str) -> str:
    """How a shell finds this program again, as it was called: by name where that leads to it, else by path."""
    path = Path(program)
    if not path.name.startswith("tidegate") or not path.is_file():  # `python -m`
        return f"{shlex.quote(sys.executable)} -m tidegate.runtime"
    found = shutil.which(path.name)
    if found is not None and Path(found).resolve() == path.resolve():
        return path.name
    return shlex.quote(program if path.is_absolute() or "/" in program else f"./{program}")


def _shown(path: Path) -> str:
    """Relative to the working folder, where it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def usd(nanousd: int | None, decimals: int = 4) -> str:
    """Dollars with a fixed number of decimals; nine are exact."""
    return _UNKNOWN if nanousd is None else f"{nanousd / NANOUSD_PER_USD:,.{decimals}f}"


def amount(units: int) -> str:
    """At most three digits and a letter: `49`, `469k`, `1.20M`."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if units >= size:
            value = units / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{letter}"
    return str(units)


def short(microseconds: float) -> str:
    """A short duration: `68 µs`, `2.5 ms`, `1.2 s`."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:.1f} {unit}"
    return f"{microseconds:.0f} µs"


def span(seconds: float) -> str:
    """A duration in its two largest units: `4h 10m`, `6d 3h`."""
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    left = max(0, int(seconds))
    parts: list[str] = []
    for letter, size_s in units:
        count, left = divmod(left, size_s)
        if count or parts:
            parts.append(f"{count}{letter}")
    return " ".join(parts[:2]) or "0s"
