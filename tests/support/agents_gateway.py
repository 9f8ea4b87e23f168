"""The gateway with all its roles between a client and the simulator, and its ledger afterwards."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.agents_commands import Target
from support.agents_isolation import Server
from support.agents_runs import MODEL, PRICES, SIMULATOR_URL, UPSTREAM_KEY, python_env
from support.audit import Book, read_book
from support.rig import KEY
from tidegate.events.money import dollars
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings

GATEWAY_PORT, ADMIN_PORT = 8080, 9002
GATEWAY_URL = f"http://127.0.0.1:{GATEWAY_PORT}"
UPSTREAMS = ("openai", "openai-responses", "anthropic")
ROUTE = "task"
THROUGH = Target(GATEWAY_URL, KEY, ROUTE)


def gateway(folder: Path, routes: Mapping[str, str]) -> Server:
    """`serve` with a target for each route, in the dialect that the route's value names.

    The folder's name must be short: sockets lie in it.
    """
    targets = [
        {
            "id": f"target-{name}",
            "dialect": dialect,
            "base_url": SIMULATOR_URL,
            "model": MODEL,
            "secret": "env:SIM_KEY",
            "allow_private": True,
            "forward_headers": ["x-sim-script"],
            "prices": [{kind: str(dollars(price)) for kind, price in PRICES.items()}],
        }
        for name, dialect in routes.items()
    ]
    config = folder / "tidegate.toml"
    config.write_text(
        dumps(
            {
                "data_dir": "data",
                "gateway": {"port": GATEWAY_PORT, "drain_delay_s": 0.0},
                "admin": {"port": ADMIN_PORT},
                "tenants": [{"id": "acme"}],
                "keys": [{"id": "k1", "tenant": "acme", "digest": key_digest(KEY)}],
                "targets": targets,
                "routes": [
                    {"name": name, "strategy": "declared", "candidates": [{"target": f"target-{name}"}]}
                    for name in routes
                ],
            }
        )
    )
    words = [sys.executable, "-m", "tidegate.runtime", "serve", "--config", str(config)]
    return Server("gateway", words, {**python_env(folder), "SIM_KEY": UPSTREAM_KEY}, f"{GATEWAY_URL}/readyz")


def ledger(folder: Path) -> Book:
    """Every event that the relay put into the log before the gateway ended."""

    async def read() -> Book:
        machine = Machine(load_settings(folder / "tidegate.toml"), base=folder, env={"SIM_KEY": UPSTREAM_KEY})
        log = machine.open_log()
        try:
            return await read_book(log)
        finally:
            await log.close()

    return asyncio.run(read())


def check_ledger(folder: Path, invoice: Mapping[str, Any]) -> None:
    """What every attempt cost by our ledger is what the provider bills for it; nothing was estimated."""
    settled = {attempt: event for attempt, (event,) in ledger(folder).settled.items()}
    billed = {line["attempt"]: line["cost_nanousd"] for line in invoice["lines"]}
    assert {attempt: event.cost_nanousd for attempt, event in settled.items()} == billed
    assert {event.basis for event in settled.values()} == {"reported"}
    assert sum(billed.values()) == invoice["total_nanousd"] > 0
