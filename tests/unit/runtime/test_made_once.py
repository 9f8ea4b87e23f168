"""The data key and the admin token: made whole by the first process, read by all, never half there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.runtime.admin_token import admin_token
from tidegate.runtime.machine import DATA_KEY_BYTES, Machine
from tidegate.runtime.settings import ConfigInvalid, parse_settings

Make = Callable[[Machine], object]

SECRETS: dict[str, Make] = {"data.key": Machine.data_key, "admin.token": admin_token}
each = pytest.mark.parametrize("name", SECRETS)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(parse_settings('data_dir = "data"'), env={}, base=tmp_path)
    found.make_folders()
    return found


def on_sync(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Have `do` happen when the content is written and not synced yet."""
    sync = os.fsync

    def synced(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            do()
        sync(handle)

    monkeypatch.setattr(os, "fsync", synced)


@each
def test_it_is_seen_only_when_it_is_whole_and_on_disk(
    machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    on_sync(monkeypatch, lambda: seen.append((machine.data_dir / name).exists()))
    made = SECRETS[name](machine)
    assert seen == [False]
    assert SECRETS[name](machine) == made
    assert seen == [False], "it was made twice"
    assert [left.name for left in machine.data_dir.glob(f"{name}*")] == [name]
    assert stat.S_IMODE((machine.data_dir / name).stat().st_mode) == 0o600


@each
def test_a_process_that_dies_while_making_it_leaves_nothing_that_others_take_for_it(
    machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        on_sync(patched, die)
        with pytest.raises(KeyboardInterrupt):
            SECRETS[name](machine)
    assert not (machine.data_dir / name).exists()
    (machine.data_dir / f"{name}.0123456789abcdef").touch()  # what a kill -9 leaves
    made = SECRETS[name](machine)
    assert SECRETS[name](machine) == made


@each
def test_of_two_that_make_it_at_once_both_use_the_first(
    machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.data_dir / name
    first = b"f" * DATA_KEY_BYTES

    def be_first() -> None:
        path.write_bytes(first)

    on_sync(monkeypatch, be_first)
    assert SECRETS[name](machine) in {first, first.decode()}
    assert path.read_bytes() == first


def test_an_empty_data_key_says_how_to_go_on(machine: Machine) -> None:
    (machine.data_dir / "data.key").touch()
    with pytest.raises(ConfigInvalid, match="it is empty: delete it, and a new one is made"):
        machine.data_key()
