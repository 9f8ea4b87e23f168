"""What a started process has loaded: a gateway worker stays small, the simulator stays a stranger."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from support.fleet import Fleet
from support.rig import KEY

HEAVY = {"aiokafka", "duckdb", "faust", "mode", "pandas", "pyarrow", "scipy"}
_IMPORTED = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s*(\S+)$", re.MULTILINE)


def imported(said: Path) -> set[str]:
    """Names of all modules a process has imported so far, by its own account (PYTHONPROFILEIMPORTTIME)."""
    return set(_IMPORTED.findall(said.read_text()))


@pytest.mark.slow
async def test_a_gateway_that_serves_has_loaded_nothing_heavy_and_the_simulator_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    async with Fleet(tmp_path) as fleet:
        await fleet.start("gateway")
        async with httpx.AsyncClient(base_url=fleet.url, trust_env=False, timeout=30) as client:
            for stream in (False, True):
                body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
                answer = await client.post(
                    "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}"}
                )
                assert answer.status_code == 200
        gateway, simulator = imported(tmp_path / "gateway.out"), imported(tmp_path / "simulator.out")
    assert "tidegate.gateway.worker" in gateway
    assert "tidegate.gateway.chain" in gateway
    assert {name.split(".")[0] for name in gateway} & HEAVY == set()
    assert {
        name for name in gateway if name.startswith(("tidegate.projections", "tidegate.analytics"))
    } == set()
    assert "tidegate.simulator.engine" in simulator
    ours = {name for name in simulator if name.startswith("tidegate.")}
    assert {name for name in ours if not name.startswith("tidegate.simulator")} == set()


@pytest.mark.slow
def test_a_command_that_only_asks_has_loaded_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    """Whoever types a command waits for what it imports: its HTTP client, the log writer and bars come with their use."""
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tidegate.runtime", "config", "schema"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(_IMPORTED.findall(said.stderr))
    assert "tidegate.runtime.commands.targets" in loaded
    late = {"fastapi", "httpx", "numpy", "prometheus_client", "rich.progress", "structlog", "uvicorn"}
    assert loaded & {*HEAVY, *late} == set()
