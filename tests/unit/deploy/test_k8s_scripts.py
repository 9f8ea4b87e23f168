"""The small programs inside the manifests, run as the cluster would run them."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.manifests import container
from tidegate.runtime.metrics import MetricsServer

DATA = "/var/lib/tidegate/data"
SECRET = "/run/secrets/tidegate"


def placing(folder: Path) -> list[str]:
    spec = container("base", "tidegate-gateway", "data-key")
    assert spec["command"] == ["python", "-IS", "-c"]
    (script,) = spec["args"]
    return [
        sys.executable,
        "-IS",
        "-c",
        script.replace(SECRET, f"{folder}/secret").replace(DATA, f"{folder}/data"),
    ]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "data.key").write_bytes(b"k" * 32)
    return tmp_path


def test_the_data_key_is_placed_once_and_privately(folder: Path) -> None:
    for _ in range(2):
        assert run(placing(folder)).returncode == 0
        placed = folder / "data" / "data.key"
        assert placed.read_bytes() == b"k" * 32
        assert stat.S_IMODE(placed.stat().st_mode) == 0o600
        assert stat.S_IMODE(placed.parent.stat().st_mode) == 0o700


def test_another_data_key_than_the_one_in_use_stops_the_pod(folder: Path) -> None:
    run(placing(folder))
    (folder / "secret" / "data.key").write_bytes(b"x" * 32)
    done = run(placing(folder))
    assert done.returncode == 1
    assert "sessions would split" in done.stderr
    assert (folder / "data" / "data.key").read_bytes() == b"k" * 32


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("tidegate-gateway", "log"),
        ("tidegate-estimator", "log"),
        ("tidegate-projector", "log"),
        ("tidegate-estimator", "estimator"),
        ("tidegate-projector", "projector"),
    ],
)
async def test_a_liveness_probe_passes_while_the_loop_answers_and_fails_when_it_is_gone(
    tmp_path: Path, workload: str, name: str
) -> None:
    spec = container("base", workload, name)["livenessProbe"]["exec"]["command"]
    assert spec[:3] == ["python", "-IS", "-c"]
    command = [sys.executable, "-IS", "-c", spec[3].replace(f"{DATA}/run", str(tmp_path))]
    server = asyncio.ensure_future(MetricsServer(tmp_path, name, lambda: {"n": 1.0}).run())
    while not (tmp_path / f"{name}.metrics").exists():
        await asyncio.sleep(0)
    assert (await asyncio.to_thread(run, command)).returncode == 0
    server.cancel()
    await asyncio.gather(server, return_exceptions=True)
    assert (await asyncio.to_thread(run, command)).returncode != 0
