"""A flat plan that tells only percents, used by others too, behind the real system in virtual time."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from support.memory_network import MemoryLoop
from support.rig import KEY, PRICES, UPSTREAM_KEY
from support.simulation import (
    NAMED_PORTS,
    PUBLISH_S,
    START_S,
    SimulatedMachine,
    SimulatorClock,
    running,
    unhurried,
)
from tidegate.events import codec
from tidegate.events.log.memory import MemoryStore
from tidegate.events.snapshots import RateSnapshot, WindowBelief
from tidegate.events.topics import SNAPSHOTS
from tidegate.gateway.credentials import key_digest
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.upstream import Upstream
from tidegate.runtime.control import Control
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.roles.estimator import EstimatorRole
from tidegate.runtime.roles.gateway import GatewayRole
from tidegate.runtime.roles.log import LogRole
from tidegate.runtime.settings import parse_settings
from tidegate.simulator.loading import load
from tidegate.simulator.server import start

WINDOW_S = 1_800.0


class World(NamedTuple):
    """What is true of the plan, and what the operator's config guesses."""

    capacity: int
    guess: int
    outside_per_hour: float
    dialect: str = "anthropic"
    kind: str = "fixed"

    @property
    def scope(self) -> str:
        """The limit in the headers that is the window."""
        return "unified-30m" if self.dialect == "anthropic" else "codex-primary"


class Seen(NamedTuple):
    """What was published of the window, and how each request ended."""

    at_s: float
    belief: WindowBelief


class Run(NamedTuple):
    """Published beliefs in their order, and (time, HTTP status) of every request."""

    seen: list[Seen]
    asked: list[tuple[float, int]]
    store: MemoryStore

    def before(self, at_s: float) -> WindowBelief:
        """The last belief published before a time."""
        return [seen.belief for seen in self.seen if seen.at_s <= at_s][-1]


def _providers(world: World) -> dict[str, Any]:
    window = {
        "duration_s": WINDOW_S, "unit": "tokens", "limit": world.capacity, "name": "30m", "kind": world.kind,
        "told": "percent", "outside_per_hour": world.outside_per_hour,
    }  # fmt: skip
    model = {"name": "m", **PRICES}
    plan = {"id": "plan", "billing": "flat", "windows": [window], "models": [model], "api_key": UPSTREAM_KEY}
    return {"seed": 1, "providers": [plan]}


def _document(world: World) -> dict[str, Any]:
    window = {
        "id": "30m", "unit": "tokens", "limit": world.guess, "duration_s": WINDOW_S, "kind": world.kind,
        "scope": world.scope, "percent_only": True,
    }  # fmt: skip
    target = {
        "id": "plan", "dialect": world.dialect, "base_url": f"http://127.0.0.1:{NAMED_PORTS['plan']}",
        "model": "m", "secret": "env:SIM_KEY", "allow_private": True, "pool": "plan",
        "forward_headers": ["x-sim-output-tokens"],
        "prices": [{token_class: f"{nano / 1e9:g}" for token_class, nano in PRICES.items()}],
    }  # fmt: skip
    return {
        "data_dir": "data",
        "gateway": {"port": 0, "drain_delay_s": 0.0},
        "log": {"archive_after_s": 1e8, "reserve_bytes": 65_536},
        "estimator": {"publish_every_s": PUBLISH_S},
        "tenants": [{"id": "acme"}],
        "keys": [{"id": "k1", "tenant": "acme", "digest": key_digest(KEY)}],
        "pools": [{"id": "plan", "billing": "flat", "windows": [window]}],
        "targets": [target],
        "routes": [{"name": "chat", "candidates": [{"target": "plan"}]}],
    }


async def _ask(client: httpx.AsyncClient, dialect: str, rng: random.Random) -> int:
    body = {
        "model": "chat",
        "max_tokens": 900,
        "messages": [{"role": "user", "content": "words " * rng.randrange(50, 900)}],
    }
    path = "/v1/messages" if dialect == "anthropic" else "/v1/chat/completions"
    headers = {"authorization": f"Bearer {KEY}", "x-sim-output-tokens": str(rng.randrange(8, 400))}
    answer = await client.post(path, content=msgspec.json.encode(body), headers=headers)
    return answer.status_code


async def _run(world: World, per_s: Sequence[float], seed: int, folder: Path) -> Run:
    rng, loop = random.Random(seed), asyncio.get_running_loop()
    assert isinstance(loop, MemoryLoop)
    settings = parse_settings(dumps(_document(world)))
    asked: list[tuple[float, int]] = []
    with unhurried(random.Random(seed + 1)):
        machine = SimulatedMachine(settings, folder, random.Random(seed + 2))
        simulator = await start(load(_providers(world)), SimulatorClock())
        loop.names = {NAMED_PORTS[name]: port for name, port in simulator.ports.items()}
        control = Control(machine.open_log(("control",)), machine.clock, machine.ids)
        await control.publish_if_new(settings.routing(), "simulation")
        async with running(EstimatorRole(machine).run, LogRole(machine).run):
            role = GatewayRole(machine, "gw-0", None)
            async with running(role.run):
                while role.port == 0:
                    await asyncio.sleep(0.01)
                transport = Upstream(OriginPolicy(allow_private=True))
                url = f"http://127.0.0.1:{role.port}"
                async with httpx.AsyncClient(transport=transport, base_url=url, timeout=300.0) as client:
                    while loop.time() < WINDOW_S * len(per_s):
                        await asyncio.sleep(rng.expovariate(per_s[int(loop.time() // WINDOW_S)]))
                        status = await _ask(client, world.dialect, rng)
                        asked.append((loop.time(), status))
                await asyncio.sleep(3 * PUBLISH_S)
        await simulator.stop()
        return Run(_published(machine.store), asked, machine.store)


def _published(store: MemoryStore) -> list[Seen]:
    seen: list[Seen] = []
    for where, partition in store.partitions.items():
        for record in partition.history if where.topic == SNAPSHOTS.name else ():
            data = codec.decode_data(codec.decode_envelope(record.value or b""))
            if isinstance(data, RateSnapshot) and data.pool is not None and data.pool.windows:
                seen.append(Seen(data.at_ns / 1e9 - START_S, data.pool.windows[0]))
    return sorted(seen, key=lambda one: one.at_s)


def run(world: World, per_s: Sequence[float], seed: int = 1) -> Run:
    """Requests at so many a second in each period of the window; seconds of real time for an hour."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=MemoryLoop) as runner:
        return runner.run(_run(world, per_s, seed, Path(folder)))
