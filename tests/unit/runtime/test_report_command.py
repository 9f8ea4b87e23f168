"""`tidegate report forecast`: tables, JSON, and one page; where it cannot be, it says why."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.forecast_history import Told
from support.history import History
from support.read_model import filled
from tidegate.runtime.cli import app
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings


@pytest.fixture(name="config")
async def _config(tmp_path: Path) -> Path:
    config = tmp_path / "tidegate.toml"
    config.write_text('data_dir = "data"\n')
    machine = Machine(load_settings(config), base=tmp_path, env={})
    machine.projections_path.parent.mkdir(parents=True)
    await filled(machine.projections_path, Told(History()).periods(6).history)
    return config


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = CliRunner().invoke(app, ["report", *(str(argument) for argument in arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_page_is_written_and_nothing_is_printed_but_where(config: Path, tmp_path: Path) -> None:
    code, out, err = run("forecast", "-c", config, "--html", tmp_path / "page.html")
    assert (code, out) == (0, "")
    assert "page.html is written" in err
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") == 3 + 2 * 7


def test_a_page_and_json_go_together(config: Path, tmp_path: Path) -> None:
    code, out, _ = run("forecast", "-c", config, "--html", tmp_path / "page.html", "--json")
    assert code == 0
    sections = {section["query"]: section["rows"] for section in json.loads(out)["sections"]}
    assert len(sections["forecast_windows"]) == 7
    assert len(sections["forecast_path"]) > 50, "a page and what goes with it have all rows"


@pytest.mark.parametrize(
    ("name", "title"),
    [("forecast", "Reliability: said and came true"), ("quota", "Quota windows as believed now")],
)
def test_people_get_tables_within_80_columns(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str, title: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(name, "-c", config)
    assert code == 0
    assert title in out
    assert max(map(len, out.splitlines())) <= 80


def test_other_reports_have_no_page(config: Path, tmp_path: Path) -> None:
    code, _, err = run("spend", "-c", config, "--html", tmp_path / "page.html")
    assert code == 2
    assert "only the report forecast" in err
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_is_named(config: Path, tmp_path: Path) -> None:
    code, _, err = run("forecast", "-c", config, "--html", tmp_path / "nowhere" / "page.html")
    assert code == 2
    assert "page.html cannot be written: No such file or directory" in err
