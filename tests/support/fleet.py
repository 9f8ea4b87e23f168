"""Every role of one machine as a child process of its own, over simulated providers in another."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from support import journals
from support.rig import KEY, PRICES, UPSTREAM_KEY
from tidegate.events.journal.journal import read_position
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.gateway.credentials import key_digest
from tidegate.runtime import metrics
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings
from tidegate.runtime.sockets import bound

ROLES = ("log", "admin", "estimator", "projector", "gateway")
OPENAI, ANTHROPIC, FLAT = ("alpha", "beta"), ("gamma", "delta"), "plan"
ROUTES = {"chat": ("alpha", "beta"), "plan": ("plan", "alpha"), "messages": ("gamma", "delta")}
DEADLINE_S = 60.0
POLL_S = 0.02

# At each tenth request of a provider exactly one of these strikes: rows of them would close its targets.
FAULTS = [
    {"kind": "billed_no_bytes", "every_n": 50},
    {"kind": "rst", "every_n": 40},
    {"kind": "cut", "every_n": 30},
    {"kind": "hidden_usage", "every_n": 20},
    {"kind": "503", "every_n": 10},
]
HIDING = frozenset({"billed_no_bytes", "rst", "cut", "hidden_usage"})
"""Faults after which the gateway cannot know what the provider bills."""


class Process:
    """One child process; what it says goes to a file. `start` may be called again after its end."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        env: Mapping[str, str],
        folder: Path,
        *fds: int,
        own_group: bool = False,
    ) -> None:
        self.name = name
        self._command = command
        self._env = dict(env)
        self._said = folder / f"{name}.out"
        self._fds = fds
        self._own_group = own_group
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs already"
        with self._said.open("ab") as out:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._env,
                pass_fds=self._fds,
                start_new_session=self._own_group,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        assert self._process.wait() == -signal.SIGKILL, self.failure("had ended by itself")

    async def ended(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code, once it has one."""
        assert self._process is not None
        await until(lambda: not self.is_running, f"{self.name} to end", deadline_s)
        return int(self._process.wait())

    def end(self) -> None:
        """Whatever state it is in, it is gone afterwards."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def failure(self, what: str) -> str:
        lines = self._said.read_text(errors="replace").splitlines() if self._said.exists() else []
        return "\n".join([f"{self.name} {what}; it said:", *lines[-25:]])


async def until(
    true: Callable[[], bool | Awaitable[bool]], what: str | Callable[[], str], deadline_s: float = DEADLINE_S
) -> None:
    """Return once `true()`; else fail, naming what did not come."""
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                found = true()
                if found is True or (not isinstance(found, bool) and await found):
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        said = what if isinstance(what, str) else what()
        raise AssertionError(f"waited {deadline_s:g} s for {said}") from error


class Fleet:
    """A simulator and the roles of one machine, each its own process. The tenant socket is ours: while no
    gateway runs, connections wait in its backlog, as they do under `tidegate serve`."""

    def __init__(
        self,
        folder: Path,
        *,
        log: Mapping[str, Any] | None = None,
        gateway: Mapping[str, Any] | None = None,
        providers: Mapping[str, Any] | None = None,
        durability: str = "strict",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._log = dict(log or {})
        self._gateway = dict(gateway or {})
        self._providers = dict(providers or {})
        self._durability = durability
        self._env = {**os.environ, "SIM_KEY": UPSTREAM_KEY}
        self._sockets = {name: bound("127.0.0.1", 0) for name in ("gateway", "admin")}
        self._read_fd, self._write_fd = os.pipe()
        self.processes: dict[str, Process] = {}
        self.hidden_journals: dict[str, Path] = {}
        """Journals of slots that only the roles can open, and where the test finds their other files."""
        self.ports: dict[str, int] = {}
        self.machine: Machine

    async def __aenter__(self) -> Self:
        try:
            await self._start_simulator()
            self.config = self.folder / "tidegate.toml"
            self.config.write_text(dumps(self._document()))
            self.machine = Machine(load_settings(self.config), base=self.folder, env=self._env)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.processes.values():
            process.end()
        for listening in self._sockets.values():
            listening.close()
        os.close(self._read_fd)
        os.close(self._write_fd)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port('gateway')}"

    def _port(self, name: str) -> int:
        return int(self._sockets[name].getsockname()[1])

    # --- processes

    def add(
        self,
        name: str,
        *arguments: str | Path,
        wrapper: Sequence[str | Path] = (),
        fd: int = -1,
        own_group: bool = False,
    ) -> Process:
        """A process of ours, not started yet. `wrapper`: a command that runs another one."""
        command = [*wrapper, sys.executable, "-m", *arguments]
        fds = (self._read_fd, fd) if fd >= 0 else (self._read_fd,)
        found = Process(name, command, self._env, self.folder, *fds, own_group=own_group)
        self.processes[name] = found
        return found

    def role(self, name: str, *arguments: str, wrapper: Sequence[str | Path] = ()) -> Process:
        """The process of a role, not started yet."""
        common: list[str | Path] = ["--config", self.config, "--parent-fd", str(self._read_fd)]
        listening = self._sockets.get(name)
        fd = -1 if listening is None else listening.fileno()
        if fd >= 0:
            common += ["--fd", str(fd)]
        if name == "gateway":
            common += ["--slot", "gw-0"]
        return self.add(name, "tidegate.runtime", name, *common, *arguments, wrapper=wrapper, fd=fd)

    async def command(self, name: str) -> None:
        """Run `tidegate <name>`; fails unless it ends well."""
        process = self.add(name, "tidegate.runtime", name, "--config", self.config)
        process.start()
        assert await process.ended() == 0, process.failure("did not end well")

    async def start(self, *roles: str) -> None:
        """Start roles together and wait until each is ready."""
        for name in roles:
            process = self.processes.get(name) or self.role(name)
            process.start()
        for name in roles:
            await self.wait_ready(name)

    def is_running(self, role: str) -> bool:
        """Whether a role was started and has not ended."""
        return role in self.processes and self.processes[role].is_running

    def kill(self, role: str) -> None:
        """SIGKILL by pid, and wait until it is gone."""
        self.processes[role].kill()

    async def wait_ready(self, role: str) -> None:
        """Until a role does its work."""
        process = self.processes[role]

        async def ready() -> bool:
            assert process.is_running, process.failure("ended")
            if role == "gateway":
                return await self.status("gateway", "/readyz") == 200
            if role == "admin":
                return await self.status("admin", "/healthz") == 200
            return role in await metrics.collect(self.machine.run_dir)

        await until(ready, lambda: process.failure("to be ready"))

    async def status(self, listener: str, path: str) -> int | None:
        """HTTP status of a GET; None when nobody answers."""
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
                return (await client.get(f"http://127.0.0.1:{self._port(listener)}{path}")).status_code
        except httpx.HTTPError:
            return None

    async def numbers(self, instance: str) -> dict[str, float]:
        """What a process says of itself; empty when it does not answer."""
        return (await metrics.collect(self.machine.run_dir)).get(instance, {})

    # --- journals

    def unsent(self) -> dict[str, int]:
        """Per slot, the newest seq in its journal that the relay has not moved on from."""
        return journals.unsent(self.machine.data_dir)

    async def wait_relayed(self) -> None:
        """Until the log holds everything that stands in journals."""
        await until(lambda: not self.unsent(), lambda: f"the relay; unsent: {self.unsent()}")
        for slot in self.hidden_journals:
            await self._wait_hidden_relayed(slot)

    async def _wait_hidden_relayed(self, slot: str) -> None:
        committed = (await self.numbers(slot))["journal_committed_seq"]
        await until(lambda: read_position(self.hidden_journals[slot]) > committed, f"the relay in {slot}")

    # --- the simulator

    async def sim(self, provider: str, path: str) -> Any:
        """A provider's own answer under `/_sim/`."""
        url = f"http://127.0.0.1:{self.ports[provider]}/_sim/{path}"
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            answer = await client.get(url)
            answer.raise_for_status()
            return answer.json()

    async def wait_idle_upstream(self) -> None:
        """Until no provider has a request in flight."""

        async def idle() -> bool:
            return all([(await self.sim(name, "state"))["in_flight"] == 0 for name in self.ports])

        await until(idle, "providers without a request in flight")

    async def _start_simulator(self) -> None:
        providers = [
            {
                "id": name,
                "api_key": UPSTREAM_KEY,
                "latency": {"ttft_ms": 20, "tokens_per_s": 150, "jitter": 0.5},
                "cache": {"ttl_s": 300, "min_block_tokens": 64, "block_tokens": 32},
                "models": [{"name": "m", **PRICES}],
                "faults": FAULTS,
                **({"billing": "flat", "fee_nanousd": 10**9} if name == FLAT else {}),
                **self._providers,
            }
            for name in (*OPENAI, *ANTHROPIC, FLAT)
        ]
        config, ready = self.folder / "providers.toml", self.folder / "providers.json"
        config.write_text(dumps({"providers": providers}))
        process = self.add("simulator", "tidegate.simulator", "--config", config, "--ready-file", ready)
        process.start()
        await until(ready.exists, lambda: process.failure("to be ready"))
        self.ports = json.loads(ready.read_text())["ports"]

    def _document(self) -> dict[str, Any]:
        price = {name: f"{nano / 1e9:g}" for name, nano in PRICES.items()}
        return {
            "data_dir": "data",
            "durability": self._durability,
            "gateway": {"port": 0, **self._gateway},
            "admin": {"port": 0},
            "log": self._log,
            "tenants": [{"id": "acme"}],
            "keys": [{"id": "k1", "tenant": "acme", "digest": key_digest(KEY)}],
            "pools": [
                {
                    "id": "subscription",
                    "billing": "flat",
                    "windows": [{"id": "5h", "unit": "requests", "limit": 100_000, "duration_s": 18_000.0}],
                }
            ],
            "targets": [
                {
                    "id": name,
                    "dialect": "anthropic" if name in ANTHROPIC else "openai",
                    "base_url": f"http://127.0.0.1:{self.ports[name]}",
                    "model": "m",
                    "secret": "env:SIM_KEY",
                    "allow_private": True,
                    "forward_headers": ["x-sim-fault", "x-sim-output-tokens"],
                    **({"pool": "subscription"} if name == FLAT else {}),
                    "prices": [price],
                }
                for name in self.ports
            ],
            "routes": [
                {"name": route, "strategy": "declared", "candidates": [{"target": t} for t in targets]}
                for route, targets in ROUTES.items()
            ],
        }


def kafka_table(settings: KafkaSettings) -> dict[str, Any]:
    """The `[log]` table of a config whose log is in Kafka; its topics must be there."""
    return {
        "kind": "kafka",
        "bootstrap": settings.bootstrap,
        "topic_prefix": settings.prefix,
        "replication": settings.replication,
    }
