"""The main job on recorded traffic: 40 coding sessions, on both logs, to the nano-dollar and to the last bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.arithmetic import UNTUNED, tuned
from support.kafka_providers import Broker
from support.shared_data import shared_data

TRACE = "data/claude-code-sessions/claude_code_sessions.jsonl.gz"
TIDEGATE = [sys.executable, "-m", "tidegate.runtime"]

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="tg-real-") as short:
        yield Path(short) / "run"


def run(*arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(
        [*TIDEGATE, *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr[-4_000:] + done.stdout[-4_000:]
    return json.loads(done.stdout)


def check(folder: Path, *arguments: str) -> None:
    trace = shared_data(TRACE)
    found = run(
        "demo",
        "--trace",
        str(trace),
        "--sessions",
        "40",
        "--speed",
        "480",
        "--folder",
        str(folder),
        *arguments,
    )
    assert found["findings"] == []
    assert found["requests"] == found["succeeded"] + found["refused"] + found["failed"] > 3_000
    assert found["ledger_nanousd"] == found["invoice_nanousd"] > 0
    assert found["attempts"] == found["settlements"] == sum(found["by_basis"].values())
    assert found["by_basis"]["reported"] >= 0.9 * found["attempts"]
    assert (found["unsettled"], found["failovers"] >= 20) == (0, True)
    assert found["replay_identical"] == found["replay_total"] == found["requests"]
    config = str(folder / "tidegate.toml")
    for name, env in {"hash seed": UNTUNED, "other instructions": tuned()}.items():
        report = run("replay", "verify", "--config", config, env=env)
        assert report["identical"] == report["decisions"] == found["requests"], name


def test_forty_sessions_on_the_embedded_log(folder: Path) -> None:
    check(folder, "--log", "sqlite")


@pytest.mark.kafka
def test_forty_sessions_on_kafka(folder: Path, kafka: Broker) -> None:
    check(folder, "--log", "kafka", "--bootstrap", kafka.bootstrap)
