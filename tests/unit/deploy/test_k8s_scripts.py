"""The small programs inside the manifests, run as the cluster would run them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from support.manifests import container
from tidegate.runtime.metrics import MetricsServer

DATA = "/var/lib/tidegate/data"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


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
