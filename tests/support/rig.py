"""A gateway in this process over simulated providers: real sockets, real journal, the official SDKs as clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.config import Routing, Settings
from tidegate.events.envelope import Envelope
from tidegate.events.journal import frames
from tidegate.events.journal.store import JournalTail
from tidegate.events.money import dollars
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.control import Control
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping
from tidegate.runtime.roles.gateway import GatewayRole
from tidegate.runtime.settings import parse_settings
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

KEY = "tg_test-key-for-tests-only-000000000000"
UPSTREAM_KEY = "sk-simulated"
PATIENCE_S = 30.0
"""For what comes at once on a machine that is not busy."""
PRICES = {
    "input_uncached": 3_000_000_000,
    "cache_read": 300_000_000,
    "cache_write_5m": 3_750_000_000,
    "cache_write_1h": 6_000_000_000,
    "output": 15_000_000_000,
}


def provider(name: str, **changes: Any) -> dict[str, Any]:
    """A simulated provider with one model `m`, answering at once."""
    return {
        "id": name,
        "api_key": UPSTREAM_KEY,
        "latency": {"ttft_ms": 0, "tokens_per_s": 0},
        "cache": {"ttl_s": 300, "min_block_tokens": 64, "block_tokens": 32},
        "models": [{"name": "m", **PRICES}],
        **changes,
    }


def events_in(slot: Path, *kinds: str) -> list[tuple[Envelope, Any]]:
    """Events of a journal, typed, in order; only the named types when any is named."""
    tail = JournalTail(slot)
    try:
        found = []
        for row in tail.rows(0, 1 << 60, -1):
            for frame in frames.unpack(row.frames):
                envelope = codec.decode_envelope(frame.value)
                if not kinds or envelope.type in kinds:
                    found.append((envelope, codec.decode_data(envelope)))
        return found
    finally:
        tail.close()


class Rig:
    """What a test holds: the simulator, the gateway's address, the journal's events."""

    def __init__(self, simulator: RunningSimulator, role: GatewayRole, machine: Machine) -> None:
        self.simulator = simulator
        self.role = role
        self.machine = machine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.role.port}"

    def events(self, *kinds: str) -> list[tuple[Envelope, Any]]:
        """Events in the journal, typed, in order; only the named types when any is named."""
        return events_in(self.machine.data_dir / "journals" / "gw-0", *kinds)

    def data(self, kind: str) -> list[Any]:
        return [data for _, data in self.events(kind)]

    async def wait_event(self, kind: str, count: int = 1) -> list[Any]:
        """Until the journal holds `count` events of a type."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.data(kind)) < count:
                await asyncio.sleep(0.01)
        return found

    def in_flight(self) -> int:
        return self.role.worker.tally.in_flight

    def serving_digest(self) -> str:
        return self.role.worker.serving.digest

    def config_problem(self) -> str | None:
        """Why the newest config is not in force here."""
        return self.role.follower.status().problem

    def break_journal(self) -> None:
        """From now on the journal takes nothing, as after a failed sync."""
        self.role.worker.journal._sync_failed(OSError("broken by the test"))

    async def publish(self, routing: Routing) -> None:
        """Put a config in force, as the admin role does."""
        log = self.machine.open_log(["control"])
        try:
            await Control(log, self.machine.clock, self.machine.ids).publish_if_new(routing, "test")
        finally:
            await log.close()

    def ledger(self) -> int:
        return sum(data.cost_nanousd for data in self.data("UsageSettled"))

    def invoice(self) -> int:
        return sum(bill["total_nanousd"] for bill in self.simulator.invoices().values())


def settings_toml(
    ports: dict[str, int],
    targets: str = "",
    extra: str = "",
    durability: str = "strict",
    prices: Mapping[str, int] = PRICES,
    gateway: str = "",
    route_options: str = "",
    deadlines: str = "",
) -> str:
    """A config with one openai target per provider and one anthropic one, and two routes over them."""
    lines = [
        f'data_dir = "data"\ndurability = "{durability}"',
        extra,
        f"[gateway]\nport = 0\n{gateway}",
        '[[tenants]]\nid = "acme"',
    ]
    lines.append(f'[[keys]]\nid = "k1"\ntenant = "acme"\ndigest = "{key_digest(KEY)}"')
    for name, port in ports.items():
        for dialect in ("openai", "anthropic"):
            lines.append(
                f'[[targets]]\nid = "{name}-{dialect}"\ndialect = "{dialect}"\nbase_url = "http://127.0.0.1:{port}"\n'
                f'model = "m"\nsecret = "env:SIM_KEY"\nallow_private = true\n'
                'forward_headers = ["x-sim-fault", "x-sim-output-tokens", "x-sim-tool"]\n'
                f"[targets.deadlines]\n{deadlines}\n[[targets.prices]]\n"
                + "\n".join(f'{token_class} = "{dollars(price)}"' for token_class, price in prices.items())
            )
    lines.append(targets)
    for dialect, route in (("openai", "chat"), ("anthropic", "messages")):
        lines.append(f'[[routes]]\nname = "{route}"\nstrategy = "declared"\n{route_options}')
        lines += [f'[[routes.candidates]]\ntarget = "{name}-{dialect}"' for name in ports]
    return "\n".join(lines)


@contextlib.asynccontextmanager
async def running_rig(
    folder: Path,
    providers: list[dict[str, Any]] | None = None,
    *,
    settings: Settings | None = None,
    targets: str = "",
    durability: str = "strict",
    extra: str = "",
    prices: Mapping[str, int] = PRICES,
    gateway: str = "",
    route_options: str = "",
    deadlines: str = "",
    clock: Clock | None = None,
) -> AsyncIterator[Rig]:
    """Simulator and gateway, both in this loop; `clock` is the gateway's."""
    simulator = await start(load({"providers": providers or [provider("one"), provider("two")]}))
    try:
        parsed = settings or parse_settings(
            settings_toml(
                simulator.ports,
                targets,
                durability=durability,
                extra=extra,
                prices=prices,
                gateway=gateway,
                route_options=route_options,
                deadlines=deadlines,
            )
        )
        machine = Machine(parsed, clock=clock, env={"SIM_KEY": UPSTREAM_KEY}, base=folder)
        machine.make_folders()
        role = GatewayRole(machine, "gw-0", None)
        stopping = Stopping()
        task = asyncio.ensure_future(role.run(stopping))
        try:
            async with asyncio.timeout(PATIENCE_S):
                while role.port == 0 or not (machine.run_dir / "gw-0.switch").exists():
                    if task.done():
                        task.result()
                    await asyncio.sleep(0.005)
            yield Rig(simulator, role, machine)
        finally:
            stopping.event.set()
            await task
    finally:
        await simulator.stop()
