"""A role's process ends when it is told to, whatever it waits for; what runs beside it ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from tidegate.events.errors import LogCorrupt
from tidegate.runtime import process as processes
from tidegate.runtime.process import Stopping, beside, kept_up, until_parent_gone

STUCK = """
import asyncio, sys
from tidegate.runtime import process, telemetry

async def role(stopping):
    print("waits", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("closes", flush=True)
        if sys.argv[1] == "for ever":
            await asyncio.Event().wait()

telemetry.configure("test")
process.LAST_WORDS_S = 0.2
process.run_role(role, cut_after_s=0.05)
"""


@pytest.mark.slow
@pytest.mark.parametrize("closing", ["at once", "for ever"])
def test_a_role_that_waits_for_ever_is_cut_after_term(closing: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, closing], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert out == "closes\n"
    assert process.returncode == 1
    assert "did not end in time" in err


WAITING = """
import signal, sys
from tidegate.runtime import process, telemetry

async def role(stopping):
    print("waits", flush=True)
    await stopping.event.wait()
    signal.raise_signal(signal.SIGHUP)
    print("ended in order", flush=True)

if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
telemetry.configure("test")
process.run_role(role)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "numbers", "told"),
    [
        ("plain", [signal.SIGHUP], True),
        ("plain", [signal.SIGHUP, signal.SIGHUP], True),
        ("nohup", [signal.SIGHUP, signal.SIGTERM], False),
    ],
)
def test_a_role_that_is_hung_up_ends_in_order_and_under_nohup_stays(
    how: str, numbers: list[signal.Signals], told: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        for number in numbers:
            process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (out, process.returncode) == ("ended in order\n", 0)
    assert ("hung up" in err) is told


async def test_others_end_with_the_role() -> None:
    seen: list[str] = []

    async def other() -> None:
        seen.append("runs")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    async def role(stopping: Stopping) -> None:
        while not seen:
            await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await beside(role, other)(Stopping())
    assert seen == ["runs", "ended"]


async def test_work_ends_when_the_parents_pipe_closes() -> None:
    read_fd, write_fd = os.pipe()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(until_parent_gone(work(), read_fd))
    await asyncio.sleep(0)
    os.close(write_fd)
    async with asyncio.timeout(10):
        await running
    assert ended.is_set()
    os.close(read_fd)


async def test_a_cancellation_from_elsewhere_is_not_taken_for_the_parents_end() -> None:
    read_fd, write_fd = os.pipe()
    running = asyncio.ensure_future(until_parent_gone(asyncio.Event().wait(), read_fd))
    await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert running.cancelled()
    for handle in (read_fd, write_fd):
        os.close(handle)


async def test_a_part_that_fails_is_told_and_begun_anew_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "PART_RETRY_S", 0.0)
    faults: list[Exception] = [
        PermissionError(13, "Permission denied", "/run/x"),
        LogCorrupt("torn"),
        KeyError("k"),
    ]

    async def part() -> None:
        if faults:
            raise faults.pop(0)

    with capture_logs() as lines:
        async with asyncio.timeout(10):
            await kept_up("numbers", part)
    told = [(line["state"], line["error"], line.get("why"), line.get("path")) for line in lines]
    assert told == [
        ("numbers", "PermissionError", "Permission denied", "/run/x"),
        ("numbers", "LogCorrupt", "torn", None),
        ("numbers", "KeyError", None, None),
    ]


async def test_a_part_that_is_cancelled_is_not_begun_anew() -> None:
    begun: list[None] = []

    async def part() -> None:
        begun.append(None)
        await asyncio.Event().wait()

    running = asyncio.ensure_future(kept_up("numbers", part))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(begun) == 1
