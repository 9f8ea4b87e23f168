"""`tidegate serve` as a user runs it, over a simulator in a process of its own; commands as processes, too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from support import journals
from support.fleet import Process, until
from support.rig import KEY, PRICES, UPSTREAM_KEY, provider
from tidegate.analytics.client import SocketSource
from tidegate.analytics.sql import ask
from tidegate.gateway.credentials import key_digest
from tidegate.runtime import metrics
from tidegate.runtime.admin_token import admin_token
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings

FORWARDED = ["x-sim-fault", "x-sim-output-tokens", "x-sim-reasoning-tokens", "x-sim-tool"]
INSTANCES = {"gw-0", "log", "estimator", "projector"}


class Ran(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self, code: int = 0) -> Any:
        """Its one JSON document; fails unless it ended with `code`."""
        assert self.code == code, self
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


class Served:
    """All roles under one supervisor. `provider_ports` are the simulator's, by provider."""

    def __init__(self, folder: Path, env: Mapping[str, str], provider_ports: Mapping[str, int]) -> None:
        self.folder = folder
        self.env = dict(env)
        self.provider_ports = dict(provider_ports)
        self.config = folder / "tidegate.toml"
        self.machine = Machine(load_settings(self.config), base=folder, env=self.env)
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "tidegate.runtime",
            "serve",
            "--config",
            self.config,
        ]
        self.process = Process("serve", command, self.env, folder)

    def _state(self) -> dict[str, int]:
        found: dict[str, int] = json.loads((self.machine.run_dir / "serve.json").read_bytes())
        return found

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._state()['tenant_port']}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self._state()['admin_port']}"

    async def start(self) -> None:
        """Start, and wait until every role answers."""
        self.process.start()

        async def ready() -> bool:
            assert self.process.is_running, self.process.failure("ended")
            if not (self.machine.run_dir / "serve.json").exists():
                return False
            found = await metrics.collect(self.machine.run_dir)
            answers = [await _status(f"{self.url}/readyz"), await _status(f"{self.admin_url}/healthz")]
            return answers == [200, 200] and found.keys() >= INSTANCES

        await until(ready, lambda: self.process.failure("to be ready"))

    async def stop(self) -> int:
        """TERM, as an operator would; its exit code."""
        self.process.signal(signal.SIGTERM)
        return await self.process.ended()

    async def run(self, *arguments: str, config: bool = True, env: Mapping[str, str] | None = None) -> Ran:
        """One `tidegate` command to its end."""
        command = [*arguments, *(["--config", str(self.config)] if config else [])]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tidegate.runtime",
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.env, **(env or {})},
        )
        out, err = await process.communicate()
        return Ran(process.returncode or 0, out.decode(), err.decode())

    async def admin(self, method: str, path: str, token: str | None = None) -> httpx.Response:
        """The admin listener's answer; with the right token unless another is given."""
        headers = {"authorization": f"Bearer {admin_token(self.machine) if token is None else token}"}
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            return await client.request(method, self.admin_url + path, headers=headers)

    async def sim(self, name: str, path: str) -> Any:
        """A provider's own answer under `/_sim/`."""
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            answer = await client.get(f"http://127.0.0.1:{self.provider_ports[name]}/_sim/{path}")
            answer.raise_for_status()
            return answer.json()

    async def rows(self, query: str) -> list[list[Any]]:
        """What the read model holds now, asked as the command `sql` asks, without a process for it."""
        return (await ask(SocketSource(self.machine.query_socket), query)).rows

    def unsent(self) -> dict[str, int]:
        """Per slot, the newest seq in its journal that the relay has not moved on from."""
        return journals.unsent(self.machine.data_dir)

    async def settled(self) -> None:
        """Until nothing is in flight at providers and the log holds everything that stands in journals."""

        async def idle() -> bool:
            states = [await self.sim(name, "state") for name in self.provider_ports]
            return not any(state["in_flight"] for state in states) and not self.unsent()

        await until(idle, lambda: f"the relay; unsent: {self.unsent()}")


async def _status(url: str) -> int | None:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
            return (await client.get(url)).status_code
    except httpx.HTTPError:
        return None


def document(ports: Mapping[str, int]) -> dict[str, Any]:
    """A config with an openai and an anthropic target per provider, and a route over each kind."""
    price = {name: f"{nano / 1e9:g}" for name, nano in PRICES.items()}
    targets = [
        {
            "id": f"{name}-{dialect}",
            "dialect": dialect,
            "base_url": f"http://127.0.0.1:{port}",
            "model": "m",
            "secret": "env:SIM_KEY",
            "allow_private": True,
            "forward_headers": FORWARDED,
            "prices": [price],
        }
        for name, port in ports.items()
        for dialect in ("openai", "anthropic")
    ]
    return {
        "data_dir": "data",
        "gateway": {"port": 0, "drain_delay_s": 0.0},
        "admin": {"port": 0},
        "tenants": [{"id": "acme"}],
        "keys": [{"id": "k1", "tenant": "acme", "digest": key_digest(KEY)}],
        "targets": targets,
        "routes": [
            {
                "name": route,
                "strategy": "declared",
                "candidates": [{"target": f"{name}-{dialect}"} for name in ports],
            }
            for route, dialect in (("chat", "openai"), ("messages", "anthropic"))
        ],
    }


@contextlib.asynccontextmanager
async def simulator(
    folder: Path, providers: Iterable[Mapping[str, Any]], env: Mapping[str, str]
) -> AsyncGenerator[dict[str, int]]:
    """Simulated providers in a process of their own; gives their ports."""
    config, ready = folder / "providers.toml", folder / "providers.json"
    config.write_text(dumps({"providers": list(providers)}))
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "tidegate.simulator",
        "--config",
        config,
        "--ready-file",
        ready,
    ]
    process = Process("simulator", command, env, folder)
    process.start()
    try:
        await until(ready.exists, lambda: process.failure("to be ready"))
        ports: dict[str, int] = json.loads(ready.read_text())["ports"]
        yield ports
    finally:
        process.end()


@contextlib.asynccontextmanager
async def serving(
    providers: Iterable[Mapping[str, Any]] = (),
    env: Mapping[str, str] | None = None,
    tables: Callable[[Mapping[str, int]], Mapping[str, Any]] = lambda _: {},
    prepare: Callable[[Path], object] = lambda _: None,
) -> AsyncGenerator[Served]:
    """Everything started and ready. `tables`: from the providers' ports to what replaces tables of the config;
    `env` adds to the environment; `prepare` is given the folder before anything starts there."""
    full = {**os.environ, "SIM_KEY": UPSTREAM_KEY, **(env or {})}
    # Sockets have short names: a folder of pytest's would not fit.
    with tempfile.TemporaryDirectory(prefix="tg") as name:
        folder = Path(name)
        prepare(folder)
        chosen = list(providers) or [provider("one"), provider("two")]
        async with simulator(folder, chosen, full) as ports:
            (folder / "tidegate.toml").write_text(dumps({**document(ports), **tables(ports)}))
            served = Served(folder, full, ports)
            try:
                await served.start()
                yield served
            finally:
                await _end(served)


async def _end(served: Served) -> None:
    """In order first: a supervisor that is killed leaves its children a moment longer than itself."""
    if served.process.is_running:
        with contextlib.suppress(AssertionError):
            await served.stop()
    served.process.end()
