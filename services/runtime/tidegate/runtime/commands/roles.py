"""`serve`, and one command per role."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from tidegate.events.journal.journal import JOURNALS
from tidegate.runtime.commands.bars import bars
from tidegate.runtime.commands.shared import ConfigOption, ParentOption, absolute, fail, print_json, say
from tidegate.runtime.commands.starting import ready_machine, told
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import BEHIND_GATEWAYS, CUT_AFTER_S, Stopping, beside, run_role
from tidegate.runtime.settings import resolve_secret
from tidegate.runtime.sockets import bound

FdOption = Annotated[int | None, typer.Option("--fd", hidden=True, help="An already listening socket.")]
SlotOption = Annotated[str | None, typer.Option("--slot", help="Journal slot of this worker.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(help="Run every role on this machine.")(serve)
    app.command(help="Run one gateway worker.")(gateway)
    app.command(name="log", help="Run the relay and the archiver, or drain orphaned journals.")(log_role)
    app.command(help="Run the estimator.")(estimator)
    app.command(help="Run the projector and its query socket.")(projector)
    app.command(help="Run the admin listener.")(admin)


def serve(config: ConfigOption = None, parent_fd: ParentOption = None) -> None:
    """All roles, supervised. Nothing is started while the config, its secrets or the log's topics are not right."""
    from tidegate.runtime.supervisor import Supervisor

    machine, path = ready_machine(config, "serve")
    supervisor = Supervisor(machine, path)

    async def run(stopping: Stopping) -> None:
        await supervisor.run(stopping)

    def bind_and_run() -> None:
        supervisor.bind()
        say(f"tidegate listens on http://{machine.settings.gateway.host}:{supervisor.tenant_port}/v1")
        run_role(run, parent_fd)

    told(bind_and_run)


def gateway(
    config: ConfigOption = None, slot: SlotOption = None, fd: FdOption = None, parent_fd: ParentOption = None
) -> None:
    """One gateway worker."""
    from tidegate.runtime.roles.gateway import GatewayRole

    machine, _ = ready_machine(config, "gateway", slot)
    name = slot or f"{machine.settings.gateway.slot}-0"
    told(lambda: run_role(GatewayRole(machine, name, fd).run, parent_fd))


def log_role(
    config: ConfigOption = None,
    parent_fd: ParentOption = None,
    drain: Annotated[Path | None, typer.Option(help="Drain this data folder's journals, then end.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Of --drain: print JSON instead of text.")] = False,
) -> None:
    """Relay and archiver. With --drain: exit code 2 when FOLDER is no data folder, or is not drained to the end."""
    from tidegate.runtime.roles.log import LogRole

    if json and drain is None:
        fail("--json goes with --drain")
    folder = None if drain is None else _with_journals(absolute(drain))
    machine, _ = ready_machine(config, "log")
    role = LogRole(machine)
    if folder is not None:
        sent: dict[str, int] = {}
        with bars(quiet=json) as phases:
            told(lambda: run_role(role.drain(folder, phases("draining"), sent), parent_fd))
        _show_drained(folder, sent, json=json)
        return
    told(lambda: run_role(beside(role.run, *_companions(machine)), parent_fd))


def _with_journals(folder: Path) -> Path:
    """The folder; exits with 2 unless it is a data folder. Who drains deletes the folder afterwards."""
    if not (folder / JOURNALS).is_dir():
        _tell_no_data_folder(folder)
    return folder


def _tell_no_data_folder(folder: Path) -> NoReturn:
    if not folder.is_dir():
        fail(f"{folder} {'is no folder' if folder.exists() else 'does not exist'}: nothing was drained")
    near = folder.parent if folder.name == JOURNALS else None
    near = near or next((each for each in sorted(folder.iterdir()) if (each / JOURNALS).is_dir()), None)
    meant = "" if near is None else f"; did you mean {near}?"
    fail(f"{folder} is no data folder, it has no {JOURNALS}: nothing was drained{meant}")


def _show_drained(folder: Path, sent: Mapping[str, int], *, json: bool) -> None:
    if json:
        print_json({"folder": str(folder), "journals": sent, "sent": sum(sent.values())})
        return
    for name, count in sent.items():
        say(f"{name}: {count} events sent")
    say(f"{folder} is drained: {len(sent)} journals, {sum(sent.values())} events sent")


def _companions(machine: Machine) -> list[Callable[[], Awaitable[None]]]:
    """What runs in the log role's process besides: every machine has one."""
    from tidegate.runtime.retention import RetentionWatch
    from tidegate.runtime.roles.exporter import Exporter

    settings = machine.settings
    companions: list[Callable[[], Awaitable[None]]] = []
    if settings.metrics.port is not None:
        token = settings.metrics.token
        secret = None if token is None else resolve_secret(token, machine.env, "metrics.token")
        listening = bound(settings.metrics.host, settings.metrics.port)
        companions.append(Exporter(machine.run_dir, listening, secret).run)
    if settings.log.archive and settings.log.kind == "kafka":
        companions.append(RetentionWatch(machine).run)
    return companions


def estimator(
    config: ConfigOption = None,
    parent_fd: ParentOption = None,
    runner: Annotated[
        Literal["log", "faust"] | None, typer.Option(help="Default from the config.", case_sensitive=True)
    ] = None,
) -> None:
    """The stream processor."""
    from tidegate.runtime.roles.estimator import run_estimator

    machine, _ = ready_machine(config, "estimator")
    told(lambda: run_estimator(machine, runner or machine.settings.estimator.runner, parent_fd))


def projector(config: ConfigOption = None, parent_fd: ParentOption = None) -> None:
    """The one DuckDB writer."""
    from tidegate.runtime.roles.projector import ProjectorRole

    machine, _ = ready_machine(config, "projector")
    run = ProjectorRole(machine).run
    told(lambda: run_role(run, parent_fd, behind=BEHIND_GATEWAYS, cut_after_s=CUT_AFTER_S))


def admin(config: ConfigOption = None, fd: FdOption = None, parent_fd: ParentOption = None) -> None:
    """The admin listener."""
    from tidegate.runtime.roles.admin import AdminRole

    machine, path = ready_machine(config, "admin")
    told(lambda: run_role(AdminRole(machine, path, fd).run, parent_fd, behind=BEHIND_GATEWAYS))
