"""A demo from start to end: providers, all roles, traffic, reconciliation, replay, numbers, an orderly end."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import httpx
import msgspec

from tidegate.analytics.client import SocketSource
from tidegate.analytics.reconcile import reconcile
from tidegate.analytics.replay_verify import verify
from tidegate.events.archive import Archiver
from tidegate.events.decision import DecisionMade
from tidegate.events.log.port import EventLog
from tidegate.gateway.credentials import key_text
from tidegate.planner.replay import verify as replay_decision
from tidegate.runtime.billing import Bills, JournalRecorder
from tidegate.runtime.demo.children import Child
from tidegate.runtime.demo.config import SECRET_VARIABLE, LogChoice, gateway_config
from tidegate.runtime.demo.driver import Driver, Tally
from tidegate.runtime.demo.figures import Evidence, Figures, by_target, figures
from tidegate.runtime.demo.forecasts import by_window
from tidegate.runtime.demo.log_view import LogView
from tidegate.runtime.demo.providers import Plan, plan_for, simulator_config
from tidegate.runtime.demo.queries import Tables, read_tables
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.demo.workload import TENANTS, Workload
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import environment, load_settings
from tidegate.runtime.waiting import NotInTime

START_DEADLINE_S = 60.0
READY_POLL_S = 0.05
SETTLE_DEADLINE_S = 60.0
BELIEF_DEADLINE_S = 5.0
CONFIG_FILE = "tidegate.toml"


class Options(NamedTuple):
    """What to run and where; `folder` is the run's own, and empty."""

    workload: Workload
    speed: float
    seed: int
    folder: Path
    log: LogChoice = LogChoice()


class Progress(Protocol):
    """Who is told how it goes."""

    def say(self, what: str, /) -> None:
        """What is being done now."""
        ...

    def done(self, tally: Tally, /) -> None:
        """One more request has ended."""
        ...


class Result(NamedTuple):
    """What the report is made of."""

    figures: Figures
    tables: Tables
    invoices: Mapping[str, int]
    by_target: Mapping[str, int]
    """Ledger of each target, nano-dollars."""
    example: DecisionMade | None
    """The newest decision whose request needed more than its first choice."""
    config: Path
    speed: float


async def run(options: Options, progress: Progress) -> Result:
    """Run the demo; every child process has ended when this returns or raises.

    Raises TidegateError: a child failed, something did not come in time, a provider or the log is away.
    """
    folder = options.folder
    plan = plan_for(options.workload)
    keys = {tenant: key_text(secrets.token_bytes(32)) for tenant in TENANTS}
    progress.say("starting three simulated providers")
    async with _providers(options, plan) as (ports, env):
        config = folder / CONFIG_FILE
        config.write_text(gateway_config(ports, keys, plan, options.speed, options.log), encoding="utf-8")
        progress.say("starting gateway, log, estimator, projector and admin")
        async with _gateway(config, env) as (serve, base_url):
            machine = Machine(load_settings(config), base=folder, env=env)
            progress.say(f"driving {len(options.workload.requests)} requests")
            tally = await Driver(f"{base_url}/v1", keys, options.speed, progress.done).run(options.workload)
            serve.check()
            log = machine.open_log()
            try:
                court = _Court(machine, log, Bills(machine.settings.targets, machine.clock), progress)
                result = _result(options, config, *await _judge(court, tally))
            finally:
                await log.close()
        if options.log.bootstrap is not None:
            progress.say("archiving the log")
            await _archive(machine)
        return result


async def _archive(machine: Machine) -> None:
    """All of the log into files beside the read model: a Kafka of the demo's own ends with it.

    Raises LogUnavailable.
    """
    log = machine.open_log()
    archiver = await asyncio.to_thread(Archiver, log, machine.archive_dir)
    try:
        await archiver.run(machine.clock.wall_ns())
    finally:
        archiver.close()
        await log.close()


def _result(options: Options, config: Path, found: Evidence, tables: Tables) -> Result:
    view = found.view
    return Result(
        figures(options.workload, found, by_window(tables.forecasts, options.speed)),
        tables,
        found.invoices,
        by_target(view.ledger.entries.values()),
        view.last_failover,
        config,
        options.speed,
    )


@contextlib.asynccontextmanager
async def _providers(options: Options, plan: Plan) -> AsyncGenerator[tuple[dict[str, int], dict[str, str]]]:
    """The simulator; gives ports by provider, and the environment in which the gateway finds its key."""
    folder = options.folder
    upstream_key = f"sk-demo-{secrets.token_hex(16)}"
    env = {**environment(), SECRET_VARIABLE: upstream_key}
    config, ready = folder / "providers.toml", folder / "providers.json"
    document = simulator_config(plan, options.speed, options.seed, upstream_key)
    config.touch(mode=0o600)
    config.write_text(dumps(document), encoding="utf-8")
    arguments = ("simulate", "--config", str(config), "--ready-file", str(ready))
    async with Child("providers", "tidegate.runtime", arguments, env, folder / "providers.log") as child:
        ports = msgspec.json.decode(await child.wait_file(ready, START_DEADLINE_S))["ports"]
        yield ports, env


@contextlib.asynccontextmanager
async def _gateway(config: Path, env: Mapping[str, str]) -> AsyncGenerator[tuple[Child, str]]:
    """`tidegate serve`, ready for requests; gives it and its address."""
    folder = config.parent
    said = folder / "serve.log"
    async with Child("serve", "tidegate.runtime", ("serve", "--config", str(config)), env, said) as child:
        state = await child.wait_file(folder / "data" / "run" / "serve.json", START_DEADLINE_S)
        base_url = f"http://127.0.0.1:{msgspec.json.decode(state)['tenant_port']}"
        async with child.within(START_DEADLINE_S, "the gateway was not ready"):
            while not await _is_ready(base_url):
                child.check()
                await asyncio.sleep(READY_POLL_S)
        yield child, base_url


async def _is_ready(base_url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            return (await client.get(f"{base_url}/readyz")).status_code == 200
        except httpx.HTTPError:
            return False


class _Court(NamedTuple):
    """Where the evidence is taken from."""

    machine: Machine
    log: EventLog
    bills: Bills
    progress: Progress


async def _judge(court: _Court, tally: Tally) -> tuple[Evidence, Tables]:
    """Reconcile, then take the evidence. Raises Unavailable: something did not come in time."""
    machine, log, bills, progress = court
    view = LogView(log)
    try:
        progress.say("waiting until the log holds every event")
        with contextlib.suppress(NotInTime):
            # What is missing then is among the findings.
            await _all_recorded(view, tally)
        progress.say("reconciling the ledger with the providers' bills")
        recorder = JournalRecorder(machine)
        routing = machine.settings.routing()
        await reconcile(log, bills, recorder, routing=routing)
        again = await reconcile(log, bills, recorder, routing=routing)
        await view.read()
        with contextlib.suppress(NotInTime):
            # Only the forecasts shown depend on it.
            await view.until(LogView.all_believed, lambda _: "", BELIEF_DEADLINE_S)
        progress.say("asking the read model")
        source = SocketSource(machine.query_socket)
        tables = await read_tables(source, await view.ends(), SETTLE_DEADLINE_S)
        progress.say("replaying every decision")
        replay = await verify(log, replay_decision)
        asked = await _ask_again(bills, view)
        return Evidence(tally, view, again, replay, bills.totals, asked, tables.ledger_nanousd), tables
    finally:
        await view.close()


async def _all_recorded(view: LogView, tally: Tally) -> None:
    """Until the log has the end of every request and the settlement of every attempt. Raises NotInTime."""
    await view.until(
        lambda seen: seen.ended_requests >= tally.requests and not seen.ledger.open,
        lambda seen: (
            f"the log has the end of {seen.ended_requests} of {tally.requests} requests, and"
            f" {len(seen.ledger.open)} attempts without a settlement"
        ),
        SETTLE_DEADLINE_S,
    )


async def _ask_again(bills: Bills, view: LogView) -> dict[str, tuple[int | None, int | None]]:
    """Attempts whose usage did not come with the answer, each asked for by its own id."""
    return {
        entry.attempt: (await bills.cost_nanousd(entry.target, entry.attempt), entry.ledger_nanousd)
        for entry in view.ledger.entries.values()
        if entry.basis != "reported"
    }
