"""Whatever stands where a command looks for its folder, it ends with an exit code and a line, never with a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from support.one_target import CONFIG, ROLES
from tidegate.runtime import cli
from tidegate.runtime.commands import starting

ASKING = {
    "config check": (),
    "explain": (),
    "keys list": (),
    "log --drain": ("data",),
    "prices board": (),
    "rebuild": (),
    "reconcile": ("--wait-s", "0"),
    "replay verify": (),
    "reprice": ("--wait-s", "0"),
    "report": ("spend",),
    "sql": ("SELECT 1",),
    "status": (),
    "targets disable": ("a",),
    "targets disable --local": ("a",),
    "targets enable": ("a",),
    "targets list": (),
    "topics apply": (),
    "topics check": (),
}
"""Commands that look into the data folder, with what they need besides, and that do not run on."""
ELSEWHERE = {
    "config schema": (),
    "demo --folder": ("data",),
    "dev kafka --data": ("data",),
    "keys new": ("k2", "acme"),
    "prices check --prices": ("data",),
    "prices import -o": ("data", "--csv", "data"),
    "prices list --prices": ("data",),
    "prices show --prices": ("data", "openai/gpt-4o"),
    "simulate -c": ("data",),
}
"""Commands of no data folder; where they have a path it is given `data`."""
MAKES_ITS_FOLDER = {"demo --folder", "dev kafka --data"}
"""These run where there is room for them."""


def leaves(command: Any, path: str = "") -> Iterator[str]:
    """Every command, by its words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, each in inner.items():
        yield from leaves(each, f"{path} {name}".strip())


def test_the_table_has_every_command() -> None:
    known = {name.partition(" -")[0] for name in (*ASKING, *ELSEWHERE, *ROLES)}
    assert known == set(leaves(typer.main.get_command(cli.app)))


def missing(_path: Path) -> None:
    """Nothing is there."""


def file(path: Path) -> None:
    path.write_text("no folder")


def circle(path: Path) -> None:
    """A link to itself: nobody can read it, not even root."""
    path.symlink_to(path)


def full_of_files(path: Path) -> None:
    """A folder whose own folders are files."""
    path.mkdir()
    for name in ("run", "log", "journals", "archive", "switches"):
        (path / name).write_text("no folder")


def full_of_folders(path: Path) -> None:
    """A folder whose own files are folders."""
    for name in ("projections.duckdb", "admin.token", "run/serve.json", "archive/manifest.jsonl", "data.key"):
        (path / name).mkdir(parents=True)


PLACES = (missing, file, circle, full_of_files, full_of_folders)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tidegate.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_KEY", "secret-of-a-provider")
    monkeypatch.setattr(starting, "configure", lambda *_: None)
    return tmp_path


def ended(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs `tidegate` to its end; what it wrote. Any other end than an exit is an error of ours."""
    monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    said = capsys.readouterr()
    assert caught.value.code in {0, 1, 2}, arguments
    if caught.value.code == 2:
        assert said.err.strip(), "it says why"
    assert "Traceback" not in said.err
    return f"{caught.value.code} {said.out}{said.err}"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", ASKING)
def test_a_command_on_a_data_folder_that_is_none_ends_in_a_line(
    command: str,
    place: Callable[[Path], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place(folder / "data")
    ended([*command.split(), *ASKING[command]], monkeypatch, capsys)


@pytest.mark.parametrize("place", PLACES[1:4])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_on_a_data_folder_that_is_none_is_refused_in_a_line(
    role: str,
    place: Callable[[Path], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place(folder / "data")
    assert ended([role], monkeypatch, capsys).startswith("2 ")


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (command, place)
        for command in ELSEWHERE
        for place in PLACES
        if command not in MAKES_ITS_FOLDER or place in {file, circle}
    ],
)
def test_a_command_on_a_path_that_is_not_what_it_should_be_ends_in_a_line(
    command: str,
    place: Callable[[Path], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place(folder / "data")
    ended([*command.split(), *ELSEWHERE[command]], monkeypatch, capsys)


@pytest.mark.parametrize("command", [*ASKING, *ROLES])
def test_a_config_that_cannot_be_read_is_named_in_a_line(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    circle(folder / "other.toml")
    said = ended([*command.split(), *ASKING.get(command, ()), "-c", "other.toml"], monkeypatch, capsys)
    assert said.startswith("2 ")
    assert "other.toml" in said or command == "log --drain"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("none", "none does not exist: nothing was drained"),
        ("tidegate.toml", "tidegate.toml is no folder: nothing was drained"),
        (".", "it has no journals: nothing was drained; did you mean {folder}/data?"),
        ("data/journals", "it has no journals: nothing was drained; did you mean {folder}/data?"),
        ("empty", "it has no journals: nothing was drained\n"),
    ],
)
def test_a_drain_of_what_is_no_data_folder_is_refused_and_names_what_is_missing(
    given: str,
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "data" / "journals").mkdir(parents=True)
    (folder / "empty").mkdir()
    said = ended(["log", "--drain", given, "--json"], monkeypatch, capsys)
    assert said.startswith("2 ")
    assert words.format(folder=folder.resolve()) in said


def test_a_switch_where_no_admin_ever_ran_says_so_and_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ended(["targets", "disable", "a"], monkeypatch, capsys)
    assert said.startswith("2 there is no ")
    assert "data/admin.token: no admin has ever run on this data folder" in said
    assert not (folder / "data").exists()


@pytest.mark.parametrize("content", ["garbage", "[]", '{"admin_port": "x"}'])
def test_a_state_file_that_is_none_is_named(
    content: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "data" / "run").mkdir(parents=True)
    (folder / "data" / "admin.token").write_text("t" * 40)
    (folder / "data" / "run" / "serve.json").write_text(content)
    said = ended(["targets", "disable", "a"], monkeypatch, capsys)
    assert said.startswith("2 ")
    assert "serve.json cannot be read" in said


@pytest.mark.parametrize("arguments", [("bad id", "acme"), ("k2", "ac me"), ("k2\n", "acme"), ("", "acme")])
def test_a_key_with_a_name_that_no_config_may_have_is_not_made(
    arguments: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ended(["keys", "new", *arguments], monkeypatch, capsys)
    assert said.startswith("2 ")
    assert "letters, digits and" in said
    assert "tg_" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("k2", "acme"), None),
        (("k2", "nobody"), "has no tenant `nobody` yet"),
        (("k1", "acme"), "has a key `k1` already"),
    ],
)
def test_what_the_config_says_against_a_new_key_is_told(
    arguments: tuple[str, str],
    words: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = ended(["keys", "new", *arguments], monkeypatch, capsys)
    assert said.startswith("0 key (")
    assert words is None or words in said
    assert ("or `config check` refuses" in said) is (words is not None)


def test_a_first_key_is_made_before_there_is_a_config(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tidegate.toml").unlink()
    monkeypatch.setenv("HOME", str(folder))
    assert ended(["keys", "new", "k1", "acme"], monkeypatch, capsys).startswith("0 key (")
    assert ended(["keys", "new", "k1", "acme", "-c", "x.toml"], monkeypatch, capsys).startswith("2 ")
