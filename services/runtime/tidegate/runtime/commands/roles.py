"""`serve`, and one command per role."""

from pathlib import Path
from typing import Annotated

import typer

from tidegate.runtime.commands.shared import ConfigOption, ParentOption, fail, machine_of, say
from tidegate.runtime.telemetry import configure

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


def serve(config: ConfigOption = None) -> None:
    """All roles, supervised."""
    from tidegate.runtime.process import Stopping, run_role
    from tidegate.runtime.supervisor import Supervisor

    machine, path = machine_of(config)
    configure("supervisor")
    machine.make_folders()
    supervisor = Supervisor(machine, path)
    try:
        supervisor.bind()
    except OSError as error:
        fail(str(error))
    gateway_host = machine.settings.gateway.host
    say(f"tidegate serves on http://{gateway_host}:{supervisor.tenant_port}/v1")

    async def run(stopping: Stopping) -> None:
        await supervisor.run(stopping)

    run_role(run)


def gateway(
    config: ConfigOption = None, slot: SlotOption = None, fd: FdOption = None, parent_fd: ParentOption = None
) -> None:
    """One gateway worker."""
    from tidegate.runtime.process import run_role
    from tidegate.runtime.roles.gateway import GatewayRole

    machine, _ = machine_of(config)
    name = slot or f"{machine.settings.gateway.slot}-0"
    configure("gateway", name)
    machine.make_folders()
    run_role(GatewayRole(machine, name, fd).run, parent_fd)


def log_role(
    config: ConfigOption = None,
    parent_fd: ParentOption = None,
    drain: Annotated[Path | None, typer.Option(help="Drain this data folder's journals, then end.")] = None,
) -> None:
    """Relay and archiver."""
    from tidegate.runtime.process import run_role
    from tidegate.runtime.roles.log import LogRole

    machine, _ = machine_of(config)
    configure("log")
    machine.make_folders()
    role = LogRole(machine)
    run_role(role.run if drain is None else role.drain(drain.resolve()), parent_fd)


def estimator(
    config: ConfigOption = None,
    parent_fd: ParentOption = None,
    runner: Annotated[str | None, typer.Option(help="log or faust; default from the config.")] = None,
) -> None:
    """The stream processor."""
    from tidegate.runtime.roles.estimator import run_estimator

    machine, _ = machine_of(config)
    configure("estimator")
    machine.make_folders()
    run_estimator(machine, runner or machine.settings.estimator.runner, parent_fd)


def projector(config: ConfigOption = None, parent_fd: ParentOption = None) -> None:
    """The one DuckDB writer."""
    from tidegate.runtime.process import BEHIND_GATEWAYS, run_role
    from tidegate.runtime.roles.projector import ProjectorRole

    machine, _ = machine_of(config)
    configure("projector")
    machine.make_folders()
    run_role(ProjectorRole(machine).run, parent_fd, behind=BEHIND_GATEWAYS)


def admin(config: ConfigOption = None, fd: FdOption = None, parent_fd: ParentOption = None) -> None:
    """The admin listener."""
    from tidegate.runtime.process import BEHIND_GATEWAYS, run_role
    from tidegate.runtime.roles.admin import AdminRole

    machine, path = machine_of(config)
    configure("admin")
    machine.make_folders()
    run_role(AdminRole(machine, path, fd).run, parent_fd, behind=BEHIND_GATEWAYS)
