"""The supervisor: a role that cannot be started now is started later; a port that orphans still hold is waited for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tidegate.runtime import supervisor
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import parse_settings
from tidegate.runtime.sockets import CannotListen, bound, given
from tidegate.runtime.supervisor import Child, ChildSpec, Supervisor


async def test_a_role_that_cannot_be_started_now_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[OSError] = [
        BlockingIOError(11, "Resource temporarily unavailable"),
        OSError(12, "no memory"),
    ]
    started: list[tuple[Any, ...]] = []

    class Process:
        returncode = 0

        async def wait(self) -> int:
            child.stop()
            return 0

    async def start(*command: Any, **_how: Any) -> Process:
        if faults:
            raise faults.pop(0)
        started.append(command)
        return Process()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(supervisor, "BACKOFF_MAX_S", 0.001)
    child = Child(ChildSpec("log", "log"), Path("c.toml"), 3)
    async with asyncio.timeout(10):
        await child.keep_running()
    assert (len(started), child.restarts) == (1, 2)


def test_a_listening_socket_is_inherited_by_nobody_that_is_not_given_it() -> None:
    with bound("127.0.0.1", 0) as listening:
        assert not listening.get_inheritable()
        listening.set_inheritable(True)  # as it is in the process it was given to
        with given(listening.detach()) as taken:
            assert not taken.get_inheritable()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    with bound("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    text = f'data_dir = "data"\n[gateway]\nport = {port}\n[admin]\nport = 0'
    found = Machine(parse_settings(text), env={}, base=tmp_path)
    found.make_folders()
    return found


def test_after_a_killed_supervisor_a_port_in_use_is_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = bound("127.0.0.1", machine.settings.gateway.port)
    (machine.run_dir / "serve.json").write_text("{}")  # only an end in order takes it away
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        holder.close()

    monkeypatch.setattr(time, "sleep", pause)
    next_one = Supervisor(machine, Path("c.toml"))
    next_one.bind()
    next_one.close()
    assert len(pauses) == 1
    assert next_one.tenant_port == machine.settings.gateway.port


def test_a_port_in_use_is_told_at_once_where_no_supervisor_was_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(_seconds: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(time, "sleep", pause)
    with bound("127.0.0.1", machine.settings.gateway.port), pytest.raises(CannotListen, match="in use"):
        Supervisor(machine, Path("c.toml")).bind()
