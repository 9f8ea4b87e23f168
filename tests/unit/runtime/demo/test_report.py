"""The report for people: within 80 columns, every number in its place, inconsistencies loud."""

import io
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from support.history import History
from tidegate.events.decision import DecisionMade
from tidegate.runtime.demo import report
from tidegate.runtime.demo.figures import Figures
from tidegate.runtime.demo.forecasts import Foreseen, WindowForecasts
from tidegate.runtime.demo.queries import DecisionRow, ReasonRow, SpendRow, Tables, WindowRow
from tidegate.runtime.demo.report import amount, as_called, short, show, span, usd
from tidegate.runtime.demo.run import Result

FIGURES = Figures(
    requests=3_330, succeeded=3_320, refused=4, failed=6, attempts=3_541, failovers=211,
    ledger_nanousd=137_686_123_600, invoice_nanousd=137_686_123_600, settlements=3_541,
    by_basis={"none": 134, "reported": 3_312, "estimated": 95}, corrections=95, unsettled=0,
    replay_identical=3_330, replay_total=3_330, events=20_059, decision_p50_us=94.0, decision_p99_us=2_866.9,
    added_p50_ms=18.4, added_p99_ms=109.3, events_per_s=150.9, took_s=132.95,
    origin="claude_code_sessions.jsonl.gz", sessions=40, clipped=3, shortened=151, skipped=2,
    reasons={"stream_truncated": 6, "nothing_admitted": 4}, findings=(),
    forecasts=(
        WindowForecasts(
            pool="plan", window="5h", limit=208, length_s=18_000.0, exhausted_s=2_340.0,
            forecasts=(
                Foreseen(at_s=180.0, used=20, p_exhaust=0.91, p10_s=1_800.0, p50_s=2_460.0, p90_s=3_720.0),
            ),
        ),
    ),
)  # fmt: skip
TABLES = Tables(
    ledger_nanousd=137_686_123_600,
    decisions=[
        DecisionRow("flaky", 2_320, 3_330, 41_000_000, 38_000_000, 0, 3_000_000),
        DecisionRow("flat-plan", 408, 408, 21_000_000, 0, 20_900_000, 100_000),
        DecisionRow("metered", 602, 3_330, None, None, None, None),
    ],
    reasons=[ReasonRow("flat-plan", "window_exhausted", 2_922), ReasonRow("flaky", "circuit_refusing", 12)],
    spend=[
        SpendRow("flaky", "acme", 1_600, 90_000_000, 90_123_456_700),
        SpendRow("flat-plan", "globex", 408, 40_000_000, 0),
        SpendRow("metered", "globex", 900, 50_000_000, 47_562_666_900),
    ],
    windows=[
        WindowRow("plan", "5h", 208, 208, "exhausted", 4.46, 1.0, 13_102_476.7, 70 * 10**9, 10 * 10**9),
        WindowRow("plan", "week", 120_434_974, 120_434_974, "critical", None, None, 927.9, None, 1),
    ],
)  # fmt: skip


@pytest.fixture(autouse=True)
def called_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "as_called", lambda _: "tidegate")


def example() -> DecisionMade:
    history = History()
    history.request("gw-0", 3, 3)
    return next(each.draft.data for each in history.events if isinstance(each.draft.data, DecisionMade))


def result(**changes: object) -> Result:
    plain = Result(
        FIGURES, TABLES, {"flat-plan": 0, "metered": 47_562_666_900, "flaky": 90_123_456_700},
        {"flat-plan": 0, "metered": 47_562_666_900, "flaky": 90_123_456_700}, example(),
        Path("/srv/run one/tidegate.toml"), 240.0,
    )  # fmt: skip
    return plain._replace(**changes)


def shown(what: Result) -> list[str]:
    text = io.StringIO()
    show(Console(file=text, width=80, color_system=None), what)
    return text.getvalue().splitlines()


def test_no_line_but_a_command_needs_more_than_80_columns() -> None:
    lines = shown(result())
    assert max(len(line) for line in lines if not line.startswith("  tidegate ")) <= 80
    assert not any("…" in line for line in lines), "a cell was cut"
    assert not any(line.rstrip().endswith((";", ",")) for line in lines), "a line breaks off"


def test_everything_a_person_looks_for_is_there() -> None:
    text = " ".join(" ".join(shown(result())).split())
    for part in (
        "3330 requests of 40 sessions", "3320 succeeded, 6 failed, 4 refused", "211 failovers",
        "3 prompts clipped, 151 pauses shortened, 2 requests skipped", "6 × stream_truncated",
        "the flaky provider cuts some on purpose", "window 5h of plan, 5:00 h long: ran dry at 0:39",
        "deciding took p50 94 µs, p99 2.9 ms", "the gateway added p50 18.4 ms, p99 109.3 ms",
        "0.91 0:41 [0:30–1:02]", "● median",
        "2922 × flat-plan, window_exhausted", "12 × flaky, circuit_refusing", "exhausted", "4.46", "runner-up:",
        "90.123456700", "137.686123600", "0.0131025", "4h 0m",
        "3541 settlements (3312 reported, 134 without cost, 95 estimated)", "95 corrected",
        "3330 of 3330 decisions replay bit by bit",
    ):  # fmt: skip
        assert part in text, part


def test_no_failure_is_called_meant_that_is_not() -> None:
    text = "\n".join(shown(result(figures=msgspec.structs.replace(FIGURES, reasons={"nothing_admitted": 4}))))
    assert "on purpose" not in text


def test_commands_to_try_next_are_three_and_quote_the_config() -> None:
    commands = [line.strip() for line in shown(result()) if line.startswith("  tidegate ")]
    assert len(commands) == 3
    assert all(command.endswith("-c '/srv/run one/tidegate.toml'") for command in commands)
    assert "explain" in commands[0]


def test_a_difference_and_every_finding_stand_out() -> None:
    findings = ("ledger 1 and invoices 2 differ by -1 nano-dollars", "3 attempts have no settlement")
    wrong = msgspec.structs.replace(FIGURES, invoice_nanousd=FIGURES.invoice_nanousd + 1, findings=findings)
    invoices = {"flat-plan": 0, "metered": 47_562_666_901, "flaky": 90_123_456_700}
    text = "\n".join(shown(result(figures=wrong, invoices=invoices, example=None)))
    assert text.count("-1 nano") == 3, "of the target, of all, and in the finding"
    for finding in findings:
        assert f"INCONSISTENT: {finding}" in text
    assert "runner-up" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (59, "59s"),
        (61, "1m 1s"),
        (3_600, "1h 0m"),
        (15_012, "4h 10m"),
        (604_799, "6d 23h"),
        (-5, "0s"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("microseconds", "text"), [(0.4, "0 µs"), (999, "999 µs"), (2_508, "2.5 ms"), (1_234_567, "1.2 s")]
)
def test_a_short_duration_has_the_unit_of_its_size(microseconds: float, text: str) -> None:
    assert short(microseconds) == text


def test_dollars_have_fixed_decimals_and_unknown_is_not_zero() -> None:
    assert usd(1_234_567_890_123, 9) == "1,234.567890123"
    assert usd(0) == "0.0000"
    assert usd(None) == "-"


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.00k"),
        (46_920, "46.9k"),
        (469_026, "469k"),
        (1_201_014, "1.20M"),
        (120_434_974, "120M"),
        (5_470_000_000, "5.47G"),
    ],
)
def test_amounts_are_short(units: int, text: str) -> None:
    assert amount(units) == text


@pytest.mark.parametrize(
    ("called", "on_path", "printed"),
    [
        ("bin/tidegate", False, "bin/tidegate"),
        ("./bin/tidegate", False, "./bin/tidegate"),
        ("{here}/bin/tidegate", False, "'{here}/bin/tidegate'"),
        ("{here}/bin/tidegate", True, "tidegate"),
        ("bin/tidegate", True, "tidegate"),
        ("nowhere/tidegate", True, "{python} -m tidegate.runtime"),
        ("{here}/tidegate/__main__.py", True, "{python} -m tidegate.runtime"),
    ],
)
def test_a_pasted_command_finds_the_program_that_printed_it(
    called: str, on_path: bool, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "a folder"
    (here / "bin").mkdir(parents=True)
    program = here / "bin" / "tidegate"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o700)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f"{here / 'bin'}:/usr/bin:/bin" if on_path else "/usr/bin:/bin")
    names = {"here": str(here), "python": sys.executable}
    assert as_called(called.format(**names)) == printed.format(**names)
    if "python" not in printed:
        said = subprocess.run(
            ["/bin/sh", "-c", as_called(called.format(**names))], capture_output=True, text=True, check=True
        )
        assert said.stdout == "found\n"


def test_another_program_of_the_name_on_the_path_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("mine", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tidegate").write_text("#!/bin/sh\n")
        (tmp_path / folder / "tidegate").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}{os.pathsep}/bin")
    assert as_called(str(tmp_path / "mine" / "tidegate")) == str(tmp_path / "mine" / "tidegate")
