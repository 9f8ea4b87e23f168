"""The gateway with all its roles between an agent and the simulator, and its ledger afterwards."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

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

GATEWAY_PORT, ADMIN_PORT = 9000, 9002
GATEWAY_URL = f"http://127.0.0.1:{GATEWAY_PORT}"
UPSTREAMS = ("openai", "openai-responses", "anthropic")
ROUTE = "task"
THROUGH = Target(GATEWAY_URL, KEY, ROUTE)


def gateway(upstream: str, folder: Path) -> Server:
    """`serve` with one target in the dialect `upstream`. The folder's name must be short: sockets lie in it."""
    target = {
        "id": "sim",
        "dialect": upstream,
        "base_url": SIMULATOR_URL,
        "model": MODEL,
        "secret": "env:SIM_KEY",
        "allow_private": True,
        "prices": [{name: str(dollars(price)) for name, price in PRICES.items()}],
    }
    config = folder / "tidegate.toml"
    config.write_text(
        dumps(
            {
                "data_dir": "data",
                "gateway": {"port": GATEWAY_PORT, "drain_delay_s": 0.0},
                "admin": {"port": ADMIN_PORT},
                "tenants": [{"id": "acme"}],
                "keys": [{"id": "k1", "tenant": "acme", "digest": key_digest(KEY)}],
                "targets": [target],
                "routes": [{"name": ROUTE, "strategy": "declared", "candidates": [{"target": "sim"}]}],
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
