"""The whole system in one loop and in virtual time: the real roles over simulated providers, by seed.

Real: listener, worker, planner, upstream client, journal files, relay, estimator, reconciliation, simulator.
Not real: time, the network (in memory), the log (in memory; it keeps the contract of the others), and the
journal's sync thread, whose work is done by timers of the loop: threads would bring real time back.

`python -m support.simulation SEED HOURS` prints the digest of everything the log then holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple
from unittest import mock

import httpx
import msgspec

from support.memory_network import MemoryLoop
from support.rig import KEY, PRICES, UPSTREAM_KEY
from tidegate.analytics.bills import Bill, BillLine
from tidegate.analytics.reconcile import Reconciliation, reconcile
from tidegate.estimator import log_runner
from tidegate.events import codec, relay
from tidegate.events.clock import SystemClock
from tidegate.events.config import Settings
from tidegate.events.envelope import Envelope
from tidegate.events.ids import IdSource
from tidegate.events.journal import journal
from tidegate.events.journal import sync as journal_sync
from tidegate.events.log.memory import MemoryEventLog, MemoryStore
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.money import Tokens
from tidegate.events.topics import BY_NAME
from tidegate.events.types import TargetId
from tidegate.gateway.credentials import key_digest
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.upstream import Upstream
from tidegate.planner import follower
from tidegate.runtime import billing, routing_follower
from tidegate.runtime.control import Control
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Role, Stopping
from tidegate.runtime.roles import gateway as gateway_role
from tidegate.runtime.roles.estimator import EstimatorRole
from tidegate.runtime.roles.gateway import GatewayRole
from tidegate.runtime.roles.log import LogRole
from tidegate.runtime.settings import parse_settings
from tidegate.simulator.inprocess import InProcessTransport
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

START_S = 1_800_000_000
HOUR_S = 3_600.0
WINDOW_S = 1_800.0
WINDOW_REQUESTS = 90
PUBLISH_S = 12.0
OUTAGE_S = 240.0
SYNC_S = 0.001
IDLE_SYNC_S = 0.25

NAMED_PORTS = {"plan": 1001, "alpha": 1002, "beta": 1003}
"""Ports as the config names them; the real ones differ from run to run."""
OUTAGE = "alpha"
"""Down for a while once the plan's quota is gone and it would be the cheapest."""
SWITCHED_OFF = "beta-openai"
"""An operator's kill-switch, thrown half-way through the run."""
FAULTS = ("cut", "rst", "hidden_usage", "billed_no_bytes", "error_200")

Fate = Literal["finished", "failed", "refused", "left"]


# --- time without waiting


class LoopClock:
    """Wall and monotonic time of the running loop, for events."""

    def wall_ns(self) -> int:
        return START_S * 1_000_000_000 + self.mono_ns()

    def mono_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * 1e9)


class SimulatorClock:
    """The same time, for the simulator."""

    def now_s(self) -> float:
        return START_S + asyncio.get_running_loop().time()

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(max(duration_s, 0.0))


class LoopSync(journal_sync.SyncThread):
    """The journal's syncs as timers of the loop. Nothing reaches a disk: virtual time knows no power cut."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._sync()
        self._tick()

    def request(self) -> None:
        if not self._urgent:
            self._urgent = True
            self._loop.call_later(SYNC_S, self._serve)

    def close(self) -> None:
        self._timer.cancel()
        self._sync()
        self._thread = threading.Thread(target=int)  # it has nothing left to do
        self._thread.start()
        super().close()

    def _serve(self) -> None:
        if not self._stop:
            self._urgent = False
            self._sync()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(IDLE_SYNC_S, self._tick)
        if self._progress.committed_seq > self._synced:
            self._sync()


@contextlib.contextmanager
def unhurried(rng: random.Random) -> Iterator[None]:
    """Polls that are cheap in real time would be most of a simulated hour; and every random bit is the seed's."""
    with contextlib.ExitStack() as stack:
        for place, values in (
            (relay, {"IDLE_S": 0.25, "IDLE_MAX_S": 0.5, "GATHER_S": 0.05}),
            (log_runner, {"POLL_S": PUBLISH_S}),
            (follower, {"POLL_S": 60.0}),
            (routing_follower, {"POLL_S": 60.0}),
            (journal, {"MAINTAIN_S": 10.0, "SyncThread": LoopSync}),
            (journal_sync, {"sync_file": lambda _: None}),
            (gateway_role, {"secrets": SimpleNamespace(randbits=rng.getrandbits)}),
        ):
            for name, value in values.items():
                stack.enter_context(mock.patch.object(place, name, value))
        yield


class SimulatedMachine(Machine):
    """A machine whose roles share a log in memory."""

    def __init__(self, settings: Settings, folder: Path, rng: random.Random) -> None:
        super().__init__(settings, clock=LoopClock(), env={"SIM_KEY": UPSTREAM_KEY}, base=folder)
        self.ids = IdSource(self.clock, rng.getrandbits)
        self.store = MemoryStore()
        self.make_folders()
        (self.data_dir / "data.key").write_bytes(bytes(32))
        (self.data_dir / "data.key").chmod(0o600)

    def open_log(self, roles: Iterable[str] = ()) -> EventLog:
        return MemoryEventLog(self.clock, self.store)


# --- the world


def providers(seed: int) -> dict[str, Any]:
    """A flat plan with a quota, a cheap provider and a dear one."""
    common = {
        "api_key": UPSTREAM_KEY,
        "latency": {"ttft_ms": 400, "tokens_per_s": 60, "jitter": 0.5},
        "tokens_per_event": 8,
        "cache": {"ttl_s": 300, "min_block_tokens": 64, "block_tokens": 32},
    }
    dear = {name: 2 * price for name, price in PRICES.items()}
    window = {"duration_s": WINDOW_S, "unit": "requests", "limit": WINDOW_REQUESTS, "name": "30m"}
    return {
        "seed": seed,
        "providers": [
            {
                "id": "plan",
                "billing": "flat",
                "fee_nanousd": 10**9,
                "windows": [window],
                "models": [{"name": "m", **PRICES}],
                "faults": [{"kind": "503", "every_n": 37}],
                **common,
            },
            {
                "id": "alpha",
                "models": [{"name": "m", **PRICES}],
                "faults": [{"kind": "rst", "every_n": 31}],
                **common,
            },
            {"id": "beta", "models": [{"name": "m", **dear}], **common},
        ],
    }


def document() -> dict[str, Any]:
    """The config: one pool with a window, the cheapest of three on both routes."""

    def target(name: str, dialect: str) -> dict[str, Any]:
        factor = 2 if name == "beta" else 1
        return {
            "id": f"{name}-{dialect}",
            "dialect": dialect,
            "base_url": f"http://127.0.0.1:{NAMED_PORTS[name]}",
            "model": "m",
            "secret": "env:SIM_KEY",
            "allow_private": True,
            "pool": "subscription" if name == "plan" else name,
            "forward_headers": ["x-sim-fault", "x-sim-output-tokens"],
            "prices": [{token_class: f"{factor * nano / 1e9:g}" for token_class, nano in PRICES.items()}],
        }

    window = {"id": "30m", "unit": "requests", "limit": WINDOW_REQUESTS, "duration_s": WINDOW_S}
    return {
        "data_dir": "data",
        "gateway": {"port": 0, "drain_delay_s": 0.0},
        "log": {"archive_after_s": 1e8, "reserve_bytes": 65_536},
        "estimator": {"publish_every_s": PUBLISH_S},
        "tenants": [{"id": "acme"}],
        "keys": [{"id": "k1", "tenant": "acme", "digest": key_digest(KEY)}],
        "pools": [
            {"id": "subscription", "billing": "flat", "windows": [window]},
            {"id": "alpha"},
            {"id": "beta"},
        ],
        "targets": [target(name, dialect) for dialect in ("openai", "anthropic") for name in NAMED_PORTS],
        "routes": [
            {"name": route, "candidates": [{"target": f"{name}-{dialect}"} for name in NAMED_PORTS]}
            for route, dialect in (("chat", "openai"), ("messages", "anthropic"))
        ],
    }


# --- the clients


class Asked(NamedTuple):
    """A request as its client saw it."""

    number: int
    at_s: float
    request: str | None
    status: int | None
    fate: Fate
    attempts: int
    fault: str | None


class Traffic:
    """Clients that ask as the seed says: busy and calm times, streams, faults asked for, clients that leave."""

    def __init__(self, rng: random.Random, url: str, hours: float, no_faults_s: tuple[float, float]) -> None:
        self._rng = rng
        self._no_faults_s = no_faults_s
        self._until_s = hours * HOUR_S
        policy = OriginPolicy(allow_private=True)
        self._client = httpx.AsyncClient(transport=Upstream(policy), base_url=url, timeout=300.0)
        self.asked: list[Asked] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        number = 0
        async with self._client, asyncio.TaskGroup() as tasks:
            while loop.time() < self._until_s:
                await asyncio.sleep(self._rng.expovariate(requests_per_s(loop.time())))
                number += 1
                # Drawn here, in order: what runs beside it must not decide what the seed says.
                tasks.create_task(self._ask(number, random.Random(self._rng.getrandbits(64))))

    async def _ask(self, number: int, rng: random.Random) -> None:
        began_s = asyncio.get_running_loop().time()
        path, body, headers = request(number, rng)
        if self._no_faults_s[0] < began_s < self._no_faults_s[1]:
            headers.pop("x-sim-fault", None)
        stays_s = rng.uniform(0.05, 3.0) if rng.random() < 0.05 else None
        known: dict[str, Any] = {"request": None, "status": None, "attempts": 0}
        fate: Fate = "left"
        try:
            async with asyncio.timeout(stays_s):
                fate = await self._answer(path, body, headers, known)
        except TimeoutError:
            pass
        except httpx.TransportError:
            fate = "failed"
        self.asked.append(Asked(number, began_s, fate=fate, fault=headers.get("x-sim-fault"), **known))

    async def _answer(self, path: str, body: bytes, headers: dict[str, str], known: dict[str, Any]) -> Fate:
        async with self._client.stream("POST", path, content=body, headers=headers) as answer:
            known["request"] = answer.headers.get("x-tidegate-request-id")
            known["status"] = answer.status_code
            known["attempts"] = int(answer.headers.get("x-tidegate-attempts", 0))
            text = (await answer.aread()).decode()
        if answer.status_code != 200:
            return "refused" if answer.status_code < 500 else "failed"
        if answer.headers["content-type"].startswith("text/event-stream"):
            return "finished" if "data: [DONE]" in text or "event: message_stop" in text else "failed"
        return "finished"


def requests_per_s(at_s: float) -> float:
    """In busy times a period's quota would be gone before its end, in calm ones hardly used."""
    return 0.14 if is_busy(at_s) else 0.025


def is_busy(at_s: float) -> bool:
    """The later two thirds of every other period of the window."""
    return at_s % WINDOW_S > WINDOW_S / 3 and int(at_s // WINDOW_S) % 2 == 0


def request(number: int, rng: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """Path, body and headers of a request; a few are wrong."""
    route, path = rng.choice([("chat", "/v1/chat/completions"), ("messages", "/v1/messages")])
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    headers["x-tidegate-session"] = f"session-{rng.randrange(20)}"
    headers["x-sim-output-tokens"] = str(rng.randrange(8, 160))
    if rng.random() < 0.04:
        headers["x-sim-fault"] = rng.choice(FAULTS)
    content = " ".join(["words"] * rng.randrange(20, 800))
    body: dict[str, Any] = {
        "model": "nowhere" if rng.random() < 0.01 else route,
        "max_tokens": 200,
        "messages": [{"role": "user", "content": f"{number % 20} {content}"}],
        "stream": rng.random() < 0.7,
    }
    if rng.random() < 0.01:
        headers["authorization"] = "Bearer tg_wrong"
    encoded = msgspec.json.encode(body)
    return path, encoded[:-1] if rng.random() < 0.01 else encoded, headers


# --- bills


class _Line(msgspec.Struct):
    attempt: str | None
    tokens: Tokens
    cost_nanousd: int


class _Invoice(msgspec.Struct):
    lines: list[_Line]


class Bills:
    """What the providers ask for, by their own interface, without sockets."""

    def __init__(self, simulator: RunningSimulator) -> None:
        self._transport = InProcessTransport(simulator.engines, SimulatorClock())

    async def fetch(self) -> Sequence[Bill]:
        found = []
        async with httpx.AsyncClient(transport=self._transport) as client:
            for name in NAMED_PORTS:
                answer = await client.get(f"http://{name}/_sim/invoice")
                invoice = msgspec.json.decode(answer.content, type=_Invoice)
                found.append(
                    Bill(
                        provider=name,
                        targets=frozenset({TargetId(f"{name}-openai"), TargetId(f"{name}-anthropic")}),
                        lines=tuple(
                            BillLine(
                                attempt=line.attempt,
                                provider=name,
                                tokens=line.tokens,
                                cost_nanousd=line.cost_nanousd,
                            )
                            for line in invoice.lines
                        ),
                        complete_until_ns=LoopClock().wall_ns(),
                    )
                )
        return found


# --- a run


class Event(NamedTuple):
    """An event as the log holds it."""

    where: TopicPartition
    record: Record
    envelope: Envelope
    data: Any


@dataclass
class History:
    """What a run left behind."""

    settings: Settings
    store: MemoryStore
    asked: list[Asked]
    bills: Sequence[Bill]
    reconciliation: Reconciliation
    lines: dict[str, list[Any]]
    """The providers' own logs."""
    outage_s: tuple[float, float]
    switched_s: float
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        for where in sorted(self.store.partitions):
            for record in self.store.partitions[where].history:
                if record.value is not None:
                    envelope = codec.decode_envelope(record.value)
                    self.events.append(Event(where, record, envelope, codec.decode_data(envelope)))

    def of(self, kind: type[Any]) -> list[Any]:
        """All events of a type, oldest first."""
        return [event.data for event in self.events_of(kind)]

    def events_of(self, kind: type[Any]) -> list[Event]:
        return sorted(
            (event for event in self.events if isinstance(event.data, kind)),
            key=lambda event: (event.envelope.ts, event.where, event.record.offset),
        )

    def at_s(self, event: Event) -> float:
        """Seconds since the run began."""
        return event.envelope.ts / 1e9 - START_S

    def digest(self) -> str:
        """Of every record of every partition, with its place and its time."""
        whole = hashlib.sha256()
        for where in sorted(self.store.partitions):
            partition = self.store.partitions[where]
            for record in (
                partition.history if BY_NAME[where.topic].keeps_history else partition.latest.values()
            ):
                fields = (where, record.offset, record.append_ns, record.key, record.value)
                whole.update(repr(fields).encode())
        return whole.hexdigest()

    def counts(self) -> dict[str, int]:
        """How many events of each type."""
        return dict(Counter(type(event.data).__name__ for event in self.events))

    def log(self) -> EventLog:
        """A handle on the log, for what reads it in a loop of its own."""
        return MemoryEventLog(SystemClock(), self.store)


async def _simulate(seed: int, hours: float, folder: Path) -> History:
    rng = random.Random(seed)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MemoryLoop)
    settings = parse_settings(dumps(document()))
    with unhurried(random.Random(rng.getrandbits(64))):
        machine = SimulatedMachine(settings, folder, random.Random(rng.getrandbits(64)))
        simulator = await start(load(providers(seed)), SimulatorClock())
        loop.names = {NAMED_PORTS[name]: port for name, port in simulator.ports.items()}
        bills = Bills(simulator)
        begin_s = rng.uniform(1_400.0, 1_500.0)
        outage_s, switched_s = (begin_s, begin_s + OUTAGE_S), hours * HOUR_S / 2
        control = Control(machine.open_log(("control",)), machine.clock, machine.ids)
        await control.publish_if_new(settings.routing(), "simulation")
        async with running(EstimatorRole(machine).run, LogRole(machine).run):
            role = GatewayRole(machine, "gw-0", None)
            async with running(role.run), asyncio.TaskGroup() as tasks:
                while role.port == 0:
                    await asyncio.sleep(0.01)
                # An outage is to be the only thing that closes targets at its time.
                traffic = Traffic(
                    random.Random(rng.getrandbits(64)),
                    f"http://127.0.0.1:{role.port}",
                    hours,
                    (outage_s[0] - 300.0, outage_s[1]),
                )
                tasks.create_task(_outage(simulator, outage_s))
                tasks.create_task(_switch(control, switched_s))
                tasks.create_task(traffic.run())
            found = await reconcile(
                machine.open_log(),
                bills,
                billing.JournalRecorder(machine),
                routing=machine.settings.routing(),
            )
            await asyncio.sleep(3 * PUBLISH_S)  # the estimator takes the corrections
        drawn = await bills.fetch()
        await simulator.stop()
        lines = {name: list(engine.log.lines) for name, engine in simulator.engines.items()}
        return History(
            settings=settings,
            store=machine.store,
            asked=traffic.asked,
            bills=drawn,
            reconciliation=found,
            lines=lines,
            outage_s=outage_s,
            switched_s=switched_s,
        )


async def _outage(simulator: RunningSimulator, span_s: tuple[float, float]) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(span_s[0] - loop.time())
    await simulator.set_mode(OUTAGE, "refuse")
    await asyncio.sleep(span_s[1] - loop.time())
    await simulator.set_mode(OUTAGE, "normal")


async def _switch(control: Control, at_s: float) -> None:
    await asyncio.sleep(at_s - asyncio.get_running_loop().time())
    await control.switch(TargetId(SWITCHED_OFF), disabled=True, actor="simulation", reason="a drill")


@contextlib.asynccontextmanager
async def running(*roles: Role) -> AsyncIterator[None]:
    """Roles until the block ends; the last one is stopped first. One that ends early ends the run."""
    async with contextlib.AsyncExitStack() as stack:
        for role in roles:
            stopping = Stopping()
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(_until_stopped(role, stopping))
            stack.callback(stopping.event.set)
        yield


async def _until_stopped(role: Role, stopping: Stopping) -> None:
    await role(stopping)


def simulate(seed: int, hours: float) -> History:
    """Run it. Needs no broker, no port that others could reach, and seconds for an hour."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=MemoryLoop) as runner:
        return runner.run(_simulate(seed, hours, Path(folder)))


if __name__ == "__main__":
    print(simulate(int(sys.argv[1]), float(sys.argv[2])).digest())
