"""`tidegate demo`, the whole of it, as a user runs it: its own numbers agree with each other and with the files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.kafka_providers import Broker
from tidegate.events.types import TargetId
from tidegate.runtime.billing import Bills
from tidegate.runtime.cli import app
from tidegate.runtime.demo import run as demo_run
from tidegate.runtime.demo.log_view import LogView
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings

pytestmark = pytest.mark.slow
TIDEGATE = [sys.executable, "-m", "tidegate.runtime"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="tg-demo-") as short:
        yield Path(short)


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*TIDEGATE, "demo", "--json", "--folder", str(folder / "run"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def numbers_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr + done.stdout
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def must_agree(found: dict[str, Any]) -> None:
    """What holds for every demo that exits with 0."""
    assert found["findings"] == []
    assert found["requests"] == found["succeeded"] + found["refused"] + found["failed"]
    assert found["ledger_nanousd"] == found["invoice_nanousd"] > 0
    assert found["attempts"] == found["settlements"] == sum(found["by_basis"].values())
    assert found["unsettled"] == 0
    assert found["replay_identical"] == found["replay_total"] == found["requests"]
    assert 0 < found["decision_p50_us"] <= found["decision_p99_us"]
    assert 0 < found["added_p50_ms"] <= found["added_p99_ms"]
    assert found["events_per_s"] > 0


def test_the_generated_workload_forces_failovers_and_every_number_agrees(folder: Path) -> None:
    found = numbers_of(demo(folder))
    must_agree(found)
    assert 300 <= found["requests"] <= 500
    assert found["failovers"] >= 20
    assert found["refused"] == 0
    assert found["failed"] <= 5, found["reasons"]
    assert found["by_basis"]["reported"] >= 0.9 * found["settlements"]
    assert found["corrections"] >= found["by_basis"]["estimated"] > 0
    assert found["events"] > 6 * found["requests"]
    foreseen(found)
    asyncio.run(log_says_the_same(folder / "run", found))
    what_to_try_next_works(folder / "run")
    no_secret_is_left(folder / "run")


def foreseen(found: dict[str, Any]) -> None:
    """The short window of the plan runs dry, and was forecast before."""
    short = next(each for each in found["forecasts"] if each["window"] == "5h")
    assert short["forecasts"]
    assert 0 < short["exhausted_s"] < short["length_s"] == 18_000
    for each in short["forecasts"]:
        assert each["at_s"] < short["exhausted_s"]
        assert each["used"] < short["limit"]
        assert 0 <= each["p_exhaust"] <= 1


async def log_says_the_same(run: Path, found: dict[str, Any]) -> None:
    machine = Machine(load_settings(run / "tidegate.toml"), base=run, env={})
    log = machine.open_log()
    view = LogView(log)
    await view.read()
    await view.close()
    await log.close()
    assert view.failovers == found["failovers"]
    assert sum(entry.ledger_nanousd or 0 for entry in view.ledger.entries.values()) == found["ledger_nanousd"]
    for kind in ("RequestAdmitted", "DecisionMade", "RequestFinished"):
        assert view.events[kind] == found["requests"]
    assert {entry.target for entry in view.ledger.entries.values()} == {"flat-plan", "metered", "flaky"}


def what_to_try_next_works(run: Path) -> None:
    config = str(run / "tidegate.toml")
    for command in (
        ["explain"],
        ["report", "failures"],
        ["sql", "SELECT session, requests, failed_over, ledger_nanousd FROM v_sessions ORDER BY 4 DESC"],
    ):
        done = subprocess.run(
            [*TIDEGATE, *command, "-c", config, "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)


def no_secret_is_left(run: Path) -> None:
    assert (run / "providers.toml").stat().st_mode & 0o077 == 0
    for path in ("tidegate.toml", "serve.log", "providers.log"):
        text = (run / path).read_text()
        assert "sk-demo-" not in text
        assert "tg_" not in text


def trace(folder: Path) -> Path:
    """Two sessions of our own making in the form of the public trace: prefixes, a sub-agent, a night's pause."""

    def entry(t: float, blocks: int, out: int, kind: str = "s") -> dict[str, Any]:
        return {"t": t, "type": kind, "in": blocks * 64 + 11, "out": out, "hash_runs": [[1, blocks]]}

    agent = {"t": 40.0, "type": "subagent", "requests": [entry(n * 5.0, 20 + n, 30) for n in range(4)]}
    turns = [entry(n * 12.0, 30 + 9 * n, 40 + n, "ns"[n % 2]) for n in range(25)]
    sessions = [
        {"id": f"s{n}", "block_size": 64, "tool_tokens": 512, "system_tokens": 320, "requests": requests}
        for n, requests in enumerate(([*turns, agent, entry(50_000.0, 60, 9)], turns, turns))
    ]
    path = folder / "trace.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in sessions))
    return path


def test_a_trace_is_driven_as_recorded_and_what_was_changed_is_said(folder: Path) -> None:
    arguments = (
        "--trace",
        str(trace(folder)),
        "--sessions",
        "2",
        "--speed",
        "600",
        "--max-input-tokens",
        "15000",
    )
    found = numbers_of(demo(folder, *arguments))
    must_agree(found)
    assert found["requests"] == 25 + 4 + 1 + 25
    assert found["sessions"] == 2
    assert (found["clipped"], found["shortened"], found["skipped"]) == (2 * 2, 1, 0)


def test_a_ledger_that_is_not_the_invoice_is_said_and_the_exit_code_is_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cheating(Bills):
        """A provider that asks for one nano-dollar more than its lines add up to."""

        async def fetch(self) -> Any:
            bills = await super().fetch()
            self.totals[TargetId("metered")] += 1
            return bills

    monkeypatch.setattr(demo_run, "Bills", Cheating)
    arguments = ["demo", "--sessions", "3", "--speed", "2000", "--folder", str(folder / "run")]
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)
    assert result.exit_code == 1, result.output
    assert "INCONSISTENT: ledger" in result.stdout
    assert "differ by -1 nano-dollars" in result.stdout
    assert "where to look next" in result.stdout


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Where shells start tests in the background, INT is ignored, also by what tests start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_no_process_behind(folder: Path, number: signal.Signals) -> None:
    command = [*TIDEGATE, "demo", "--json", "--folder", str(folder / "run")]
    state = folder / "run" / "data" / "run" / "serve.json"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not state.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        supervisor = json.loads(state.read_text())["pid"]
        process.send_signal(number)
        _, said = process.communicate(timeout=90)
    assert process.returncode == 2
    assert "interrupted" in said
    with pytest.raises(ProcessLookupError):
        os.kill(supervisor, 0)


@pytest.mark.kafka
def test_the_same_demo_runs_on_kafka(folder: Path, kafka: Broker) -> None:
    arguments = ("--log", "kafka", "--bootstrap", kafka.bootstrap, "--sessions", "8", "--speed", "600")
    found = numbers_of(demo(folder, *arguments))
    must_agree(found)
    assert found["failovers"] > 0
    # Its broker may end with the demo: what was decided can be told and replayed all the same.
    config = folder / "run" / "tidegate.toml"
    config.write_text(config.read_text().replace(kafka.bootstrap, "127.0.0.1:1"))
    asked = (["explain"], ["replay", "verify"])
    answers = [CliRunner().invoke(app, [*each, "-c", str(config), "--json"]) for each in asked]
    assert [each.exit_code for each in answers] == [0, 0]
    explained, replayed = (json.loads(each.stdout) for each in answers)
    assert explained["told_by"] == "archive"
    assert replayed["identical"] == replayed["decisions"] == found["replay_total"]
