"""The bound on held bodies follows what the process may use."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tidegate.events.config import GatewaySettings
from tidegate.runtime.memory import allowed_bytes, held_body_bytes
from tidegate.runtime.roles.gateway import limits_of

MIB = 1024 * 1024


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_a_container_s_limit_goes_before_the_machine_s_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sys/fs/cgroup" / name
    path.parent.mkdir(parents=True)
    unlimited = allowed_bytes(tmp_path)
    path.write_text("max\n")
    assert allowed_bytes(tmp_path) == unlimited
    path.write_text(f"{64 * MIB}\n")
    assert allowed_bytes(tmp_path) == 64 * MIB


@pytest.mark.parametrize(
    ("groups", "mount", "name"),
    [
        ("0::/user.slice/app.service\n", "", "memory.max"),
        (
            "9:name=systemd:/\n4:cpu,memory:/user.slice/app.service\n0::/\n",
            "memory",
            "memory.limit_in_bytes",
        ),
    ],
)
def test_the_least_of_the_own_group_and_those_around_it_holds(
    tmp_path: Path, groups: str, mount: str, name: str
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    top = tmp_path / "sys/fs/cgroup" / mount
    own = top / "user.slice/app.service"
    own.mkdir(parents=True)
    (top / name).write_text(f"{48 * MIB}\n")
    (own / name).write_text(f"{32 * MIB}\n")
    assert allowed_bytes(tmp_path) == 32 * MIB
    (own.parent / name).write_text(f"{16 * MIB}\n")
    assert allowed_bytes(tmp_path) == 16 * MIB
    (own.parent / "other.service").mkdir()
    (own.parent / "other.service" / name).write_text("1\n")
    assert allowed_bytes(tmp_path) == 16 * MIB


@pytest.mark.parametrize("group", ["/docker/4f5e", "/../outside"])
def test_a_group_that_is_not_seen_leaves_the_limit_of_the_container(tmp_path: Path, group: str) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"0::{group}\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/outside").mkdir()
    (tmp_path / "sys/fs/outside/memory.max").write_text("1\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{64 * MIB}\n")
    assert allowed_bytes(tmp_path) == 64 * MIB


def test_a_limit_of_the_process_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32 * MIB, 64 * MIB))
    assert allowed_bytes(tmp_path) == 32 * MIB


def test_workers_share_a_quarter_and_one_body_always_fits() -> None:
    assert held_body_bytes(1024 * MIB, 2, 32 * MIB) == 128 * MIB
    assert held_body_bytes(64 * MIB, 1, 32 * MIB) == 32 * MIB


def test_the_listener_takes_the_setting_or_the_derived_bound() -> None:
    assert limits_of(GatewaySettings(max_held_body_bytes=5 * MIB)).max_held_body_bytes == 5 * MIB
    settings = GatewaySettings()
    derived = held_body_bytes(allowed_bytes(), settings.workers, settings.max_body_bytes)
    assert limits_of(settings).max_held_body_bytes == derived
