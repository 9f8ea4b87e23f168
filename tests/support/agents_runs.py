"""One agent doing its task: directly against the simulator, or against whatever else is started with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.agents_commands import Agent, Target
from support.agents_isolation import Outcome, Server, run_isolated
from tidegate.runtime.demo.toml import dumps

SIMULATOR_PORT = 9001
SIMULATOR_URL = f"http://127.0.0.1:{SIMULATOR_PORT}"
INVOICE = f"{SIMULATOR_URL}/_sim/invoice"
MODEL, UPSTREAM_KEY = "sim-model", "sk-upstream"
AGENT_WITHIN_S = 300.0
PRICES = {
    "input_uncached": 3_000_000_000,
    "cache_read": 300_000_000,
    "cache_write_5m": 3_750_000_000,
    "cache_write_1h": 6_000_000_000,
    "output": 15_000_000_000,
}
DIRECT = Target(SIMULATOR_URL, UPSTREAM_KEY, MODEL)


class Run(NamedTuple):
    """How the agent ended, and what the provider saw and billed."""

    outcome: Outcome
    records: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    invoice: dict[str, Any]


def simulator(folder: Path, models: Sequence[Mapping[str, Any]], **more: Any) -> Server:
    """The simulated provider, with `more` of its settings."""
    provider = {
        "id": "sim",
        "port": SIMULATOR_PORT,
        "api_key": UPSTREAM_KEY,
        "models": models,
        **more,
    }
    config = folder / "simulator.toml"
    config.write_text(dumps({"providers": [provider]}))
    words = [sys.executable, "-m", "tidegate.simulator", "--config", str(config)]
    return Server("simulator", words, python_env(folder), f"{SIMULATOR_URL}/_sim/healthz")


def scripted(agent: Agent, folder: Path) -> Server:
    """The simulated provider whose model follows the agent's script."""
    return simulator(
        folder,
        [{"name": MODEL, "script": "task", **PRICES}],
        scripts=[{"name": "task", "turns": agent.script}],
        keep_requests=100,
        cache={"min_block_tokens": 256, "block_tokens": 64},
    )


def python_env(folder: Path) -> Mapping[str, str]:
    """The environment of a server of ours: this one's search paths, a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(folder), "LANG": "C.UTF-8"}


def run(agent: Agent, folder: Path, *, target: Target = DIRECT, between: Sequence[Server] = ()) -> Run:
    """Let the agent do its task at `target`, with the servers `between` it and the simulator running, too.

    Raises NotInstallable, RuntimeError when a server does not start.
    """
    command = agent.prepared(target, folder)
    pages = [f"{SIMULATOR_URL}/_sim/{name}" for name in ("log", "requests", "invoice")]
    outcome = run_isolated(
        [scripted(agent, folder), *between], command, folder=folder, timeout_s=AGENT_WITHIN_S, pages=pages
    )
    log, requests, invoice = (outcome.pages[page] for page in pages)
    return Run(outcome, log["records"], requests["requests"], invoice)
