"""`reconcile`: the ledger made equal to the providers' bills; `reprice`: what had no price is given one."""

import asyncio
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidegate.runtime.commands.bars import bars
from tidegate.runtime.commands.shared import (
    FINDING,
    ConfigOption,
    JsonOption,
    fail,
    lay_out,
    machine_of,
    print_json,
    say,
    show,
    tell,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tidegate.analytics.reconcile import Reconciliation
    from tidegate.analytics.reprice import Repricing
    from tidegate.events.archive_log import ArchivedLog
    from tidegate.runtime.commands.bars import Phases
    from tidegate.runtime.machine import Machine

T = TypeVar("T")
SETTLING_S = 10.0
"""How long settlements of attempts that are billed already may take into the log."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(help="Compare the ledger with the simulated providers' bills and record corrections.")(
        reconcile
    )
    app.command(
        help="Give attempts that were settled without a price the one their target has been given since."
    )(reprice)


WaitOption = Annotated[
    float,
    typer.Option("--wait-s", min=0, help="How long the relay may take for what stands in the journals."),
]


def _over_whole_log(
    machine: "Machine", wait_s: float, work: "Callable[[ArchivedLog, Phases], Awaitable[T]]", *, quiet: bool
) -> T:
    """What `work` makes of the log once the journals' events are in it. What cannot be done ends the command."""
    from tidegate.events.errors import TidegateError
    from tidegate.runtime.readmodels import whole_log
    from tidegate.runtime.relayed import until_relayed

    async def relayed(phases: "Phases") -> T:
        await until_relayed(machine.data_dir, wait_s, tell)
        async with whole_log(machine) as log:
            return await work(log, phases)

    try:
        with bars(quiet=quiet) as phases:
            return asyncio.run(relayed(phases))
    except TidegateError as error:
        fail(str(error))


def reconcile(config: ConfigOption = None, json: JsonOption = False, wait_s: WaitOption = 60.0) -> None:
    """Exit code 1 when the ledger does not equal the bills even then, 2 when a provider shows no bill, or when
    the log does not get the journals' events in time.

    Traffic may go on: attempts that a provider still serves when its bill is drawn are left for the next run.
    `tidegate serve` (or the log role) must run: corrections go through a journal as all events do.
    """
    from tidegate.analytics import render
    from tidegate.analytics.reconcile import reconcile as compare
    from tidegate.runtime.billing import Bills, JournalRecorder
    from tidegate.runtime.published import published_configs

    machine, _ = machine_of(config)

    async def work(log: "ArchivedLog", phases: "Phases") -> "Reconciliation":
        earlier = (target for config in await published_configs(log) for target in config.routing.targets)
        bills = Bills(machine.settings.targets, machine.clock, earlier)
        recorder = JournalRecorder(machine)
        return await compare(log, bills, recorder, phases, SETTLING_S, machine.settings.routing())

    found = _over_whole_log(machine, wait_s, work, quiet=json)
    if json:
        print_json(render.reconciliation_json(found))
    else:
        show(render.reconciliation_table(found))
        for part in (render.unbalanced_table(found), render.unreported_table(found)):
            if part.row_count:
                say("")
                lay_out(part)
    if not found.is_balanced:
        raise typer.Exit(FINDING)


def reprice(config: ConfigOption = None, json: JsonOption = False, wait_s: WaitOption = 60.0) -> None:
    """Exit code 1 when attempts stay without a cost, 2 when the log does not get the journals' events in time.

    What was charged at a price stays charged so. `tidegate serve` (or the log role) must run, as for `reconcile`.
    """
    from tidegate.analytics import render
    from tidegate.analytics.reprice import reprice as fill
    from tidegate.runtime.billing import JournalRecorder

    machine, _ = machine_of(config)

    async def work(log: "ArchivedLog", phases: "Phases") -> "Repricing":
        return await fill(log, JournalRecorder(machine), machine.settings.routing(), phases)

    found = _over_whole_log(machine, wait_s, work, quiet=json)
    if json:
        print_json(render.repricing_json(found))
    else:
        show(render.repricing_table(found))
    if found.after.unpriced:
        raise typer.Exit(FINDING)
