"""Results for people and for programs."""

import io

import msgspec
import pytest
from rich.console import Console
from rich.table import Table

from tidegate.analytics.bills import BillLine
from tidegate.analytics.ledger import Ledger
from tidegate.analytics.reconcile import Unreported, plan
from tidegate.analytics.render import (
    as_table,
    reconciliation_json,
    reconciliation_table,
    replay_json,
    replay_table,
    report_json,
    report_tables,
    result_json,
    shown,
    unbalanced_table,
    unreported_table,
)
from tidegate.analytics.replay_verify import Example, ReplayReport
from tidegate.analytics.reports import Report, Section
from tidegate.analytics.sql import Result
from tidegate.events.money import Tokens
from tidegate.events.types import AttemptId, TargetId

BIG = 2**53 + 1
RESULT = Result(
    columns=("tenant", "attempts", "ledger_nanousd", "p"),
    types=("VARCHAR", "HUGEINT", "HUGEINT", "DOUBLE"),
    rows=[["acme", BIG, 1_234_500_000, 0.125], [None, 0, None, None]],
    truncated=True,
)


def printed(table: Table) -> str:
    console = Console(file=io.StringIO(), width=160, force_terminal=True, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_money_is_shown_in_exact_dollars_and_the_unknown_is_no_zero() -> None:
    text = printed(as_table(RESULT, "What was spent"))
    assert "ledger $" in text
    assert "1.2345" in text
    assert str(BIG) in text
    assert "–" in text
    assert "more rows than shown" in text


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("a_nanousd", 1, "0.000000001"),
        ("a_nanousd", BIG, "9007199.254740993"),
        ("a_nanousd", 0, "0.00"),
        ("mean_error_nanousd", -1.5e9, "-1.50"),
        ("n", None, "–"),
        ("n", True, "yes"),
        ("n", False, "no"),
        ("n", [1, {"a": None}], '[1,{"a":null}]'),
        ("n", 0.1, "0.1"),
    ],
)
def test_a_cell_says_what_it_holds(column: str, value: object, text: str) -> None:
    assert shown(column, value) == text


def test_values_can_neither_style_nor_steer_the_terminal() -> None:
    hostile = "[bold red]x[/] \x1b[2J\x07\nnext"
    text = printed(as_table(Result(("a\x1b[2J",), ("VARCHAR",), [[hostile]], False), None))
    assert "[bold red]x[/]" in text
    assert "\x07" not in text
    assert "\x1b[2J" not in text


def test_json_keeps_values_as_they_are() -> None:
    assert result_json(RESULT) == {
        "columns": ["tenant", "attempts", "ledger_nanousd", "p"],
        "types": ["VARCHAR", "HUGEINT", "HUGEINT", "DOUBLE"],
        "rows": [["acme", BIG, 1_234_500_000, 0.125], [None, 0, None, None]],
        "truncated": True,
    }


def test_a_report_is_one_table_per_question() -> None:
    report = Report("spend", (Section("q", "First", RESULT), Section("r", "Second", RESULT)))
    assert [table.title for table in report_tables(report)] == ["First", "Second"]
    sections = report_json(report)["sections"]
    assert [(section["query"], section["title"]) for section in sections] == [("q", "First"), ("r", "Second")]


def test_a_replay_shows_its_counts_and_the_first_difference() -> None:
    report = ReplayReport(
        decisions=5,
        identical=3,
        different=1,
        other_version=1,
        input_missing=0,
        examples=(Example("d1", "r1", "different", "seed: 1 != 2"),),
    )
    text = printed(replay_table(report))
    assert "5 decisions replayed" in text
    assert "d1" in text
    assert "seed: 1 != 2" in text
    assert (replay_json(report)["clean"], replay_json(report)["different"]) == (False, 1)


def test_a_replay_of_nothing_says_so() -> None:
    report = ReplayReport(
        decisions=0, identical=0, different=0, other_version=0, input_missing=0, examples=()
    )
    assert "nothing replayed" in printed(replay_table(report))
    assert replay_json(report)["clean"] is False


def test_a_reconciliation_shows_ledger_and_bills_side_by_side() -> None:
    found = plan(Ledger(), [])
    text = printed(reconciliation_table(found))
    assert "ledger after" in text
    assert "0 corrections" in text
    answer = reconciliation_json(found)
    assert answer["balanced"] is True
    msgspec.json.encode(answer)


def test_a_reconciliation_names_every_line_and_attempt_that_keeps_it_from_being_balanced() -> None:
    def line(attempt: str | None, cost: int) -> BillLine:
        return BillLine(attempt=attempt, provider="prov", tokens=Tokens(), cost_nanousd=cost)

    nothing = plan(Ledger(), [])
    found = msgspec.structs.replace(
        nothing,
        unknown_lines=(line(None, 1_500_000_000), line("at-foreign", 7)),
        open_lines=(line("at-open", 9),),
        missing=(AttemptId("at-missing"),),
        uncovered=(AttemptId("at-uncovered"),),
    )
    rows = [" ".join(row.split()) for row in printed(unbalanced_table(found)).splitlines()]
    assert rows[2:] == [
        "billed, no attempt of ours prov – 1.50",
        "billed, no attempt of ours prov at-foreign 0.000000007",
        "billed, still open prov at-open 0.000000009",
        "on no bill – at-missing –",
        "of a provider without a bill – at-uncovered –",
    ]
    assert unbalanced_table(nothing).row_count == 0


def test_a_reconciliation_names_attempts_whose_usage_was_not_reported() -> None:
    each = Unreported(
        attempt=AttemptId("at-1"), target=TargetId("t"), basis="estimated", outcome="orphaned", confirmed=True
    )
    found = msgspec.structs.replace(plan(Ledger(), []), unreported=(each,))
    assert (
        " ".join(printed(unreported_table(found)).splitlines()[-1].split()) == "at-1 t estimated orphaned yes"
    )
