"""`tidegate demo` when it cannot run: at once, with the reason and exit code 2."""

import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.events.clock import ManualClock
from tidegate.events.errors import Refused
from tidegate.runtime.cli import app
from tidegate.runtime.demo.launch import MAX_SOCKET_PATH_BYTES, new_folder


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def test_a_bad_trace_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"id": "one"}\n')
    assert f"{path}:1: Object missing required field" in refused("--trace", str(path))


def test_a_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    assert f"{kept} exists" in refused("--folder", str(kept))
    assert list(kept.iterdir()) == []


def test_a_bootstrap_without_kafka_is_a_mistake() -> None:
    assert "--log kafka" in refused("--bootstrap", "127.0.0.1:9092")


@pytest.mark.parametrize(
    "arguments", [("--speed", "0"), ("--sessions", "0"), ("--log", "redis"), ("--max-gap", "0")]
)
def test_values_that_make_no_sense_are_usage_errors(arguments: tuple[str, str]) -> None:
    assert arguments[0] in refused(*arguments)


def test_the_folder_is_named_by_the_time_and_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="tg") as short:
        monkeypatch.chdir(short)
        folder = new_folder(None, ManualClock(1_700_000_000_000_000_000))
        assert folder == Path.cwd() / "tidegate-data" / "demo" / "20231114-221320"
        assert folder.is_dir()


def test_below_a_long_path_the_default_folder_is_among_the_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / ("x" * MAX_SOCKET_PATH_BYTES)
    here.mkdir()
    monkeypatch.chdir(here)
    with tempfile.TemporaryDirectory(prefix="tg") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        folder = new_folder(None, ManualClock(1_700_000_000_000_000_000))
        assert folder == Path(short) / "tidegate-demo-20231114-221320"
        assert folder.is_dir()


def test_a_folder_whose_sockets_would_not_fit_is_refused_before_anything_starts(tmp_path: Path) -> None:
    long = tmp_path / ("x" * MAX_SOCKET_PATH_BYTES)
    with pytest.raises(Refused, match="too long a path"):
        new_folder(long, ManualClock())
    assert not long.exists()


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be made"):
        new_folder(tmp_path / "file" / "run", ManualClock())
