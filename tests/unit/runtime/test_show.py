"""Tables on a console: as such where they fit, else row by row, with every value whole."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.runtime.commands import shared

LONG = "01a22b12-b866-7000-bf0b-d99f53a6564a"


def shown(monkeypatch: pytest.MonkeyPatch, width: int, table: Table) -> str:
    file = io.StringIO()
    monkeypatch.setattr(shared, "out", Console(file=file, width=width))
    shared.show(table)
    return file.getvalue()


def wide() -> Table:
    table = Table(title="What [was] asked", caption="2 rows")
    for name in ("request", "session", "outcome"):
        table.add_column(Text(name))
    table.add_row(Text(LONG), Text(LONG[::-1]), Text("[bold]done[/]"))
    table.add_row(Text("r2"), Text("–"), Text("failed"))
    return table


def test_a_table_that_fits_stays_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 120, wide())
    assert any(LONG in line and LONG[::-1] in line for line in text.splitlines())


@pytest.mark.parametrize("width", [20, 60, 80])
def test_a_table_too_wide_is_written_row_by_row_and_no_value_is_cut(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    assert shown(monkeypatch, width, wide()).splitlines() == [
        "What [was] asked", "",
        f"request: {LONG}", f"session: {LONG[::-1]}", "outcome: [bold]done[/]", "",
        "request: r2", "session: –", "outcome: failed", "",
        "2 rows",
    ]  # fmt: skip
