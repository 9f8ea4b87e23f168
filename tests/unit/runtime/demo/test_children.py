"""Child processes: ended whatever happens; what went wrong is said with the child's last words."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime.demo import children
from tidegate.runtime.demo.children import Child, ChildFailed
from tidegate.runtime.settings import environment
from tidegate.runtime.waiting import NotInTime, in_time

pytestmark = pytest.mark.slow


def child(folder: Path, code: str) -> Child:
    (folder / "doing.py").write_text(code)
    env = {**environment(), "PYTHONPATH": str(folder)}
    return Child("worker", "doing", (str(folder / "ready"),), env, folder / "said.log")


async def test_a_child_is_awaited_by_its_file_and_asked_to_end(tmp_path: Path) -> None:
    code = (
        "import pathlib, signal, sys, time\n"
        "def end(*_): print('ended in order', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "pathlib.Path(sys.argv[1]).write_text('here')\n"
        "time.sleep(60)\n"
    )
    async with child(tmp_path, code) as running:
        assert await running.wait_file(tmp_path / "ready", 20.0) == "here"
        running.check()
    assert "ended in order" in (tmp_path / "said.log").read_text()
    with pytest.raises(ChildFailed, match="exit code 0"):
        running.check()


async def test_a_child_that_ends_by_itself_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed) as caught:
        async with child(tmp_path, "raise SystemExit('no port is free')") as running:
            await running.wait_file(tmp_path / "ready", 20.0)
    assert "worker: ended with exit code 1" in str(caught.value)
    assert "no port is free" in str(caught.value)


async def test_a_child_that_is_never_ready_is_ended_and_said_so(tmp_path: Path) -> None:
    running = child(tmp_path, "import time; print('thinking', flush=True); time.sleep(60)")
    with pytest.raises(ChildFailed, match="ready did not appear"):
        async with running:
            await running.wait_file(tmp_path / "ready", 0.3)
    with pytest.raises(ChildFailed, match="exit code -15"):
        running.check()


async def test_a_child_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "STOP_GRACE_S", 0.1)
    code = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path(sys.argv[1]).write_text('here')\n"
        "time.sleep(60)\n"
    )
    async with child(tmp_path, code) as running:
        await running.wait_file(tmp_path / "ready", 20.0)
    with pytest.raises(ChildFailed, match="exit code -9"):
        running.check()


async def test_what_does_not_come_in_time_says_what_is_missing_then() -> None:
    import asyncio

    with pytest.raises(NotInTime, match=r"after 0\.01 s three are missing"):
        async with in_time(0.01, lambda: "three are missing"):
            await asyncio.Event().wait()


STARTER = """
import asyncio, pathlib, sys
from tidegate.runtime.demo.children import Child
from tidegate.runtime.settings import environment

async def main():
    folder = pathlib.Path(sys.argv[1])
    env = {**environment(), "PYTHONPATH": str(folder)}
    async with Child("worker", "doing", (str(folder / "ready"),), env, folder / "said.log") as child:
        await child.wait_file(folder / "ready", 20.0)
        print("started", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_child_learns_that_who_started_it_was_killed(tmp_path: Path) -> None:
    (tmp_path / "doing.py").write_text(
        "import os, pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[1]).parent\n"
        "assert sys.argv[2] == '--parent-fd'\n"
        "os.mkfifo(folder / 'end')\n"
        "pathlib.Path(sys.argv[1]).write_text('here')\n"
        "assert os.read(int(sys.argv[3]), 1) == b''\n"
        "(folder / 'end').write_text('the pipe has closed')\n"
    )
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        starter.kill()
    assert (tmp_path / "end").read_text() == "the pipe has closed"
