"""`sql`, `report`, `explain`, `replay verify`, `rebuild`."""

import asyncio
import datetime as dt
import json as json_module
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from tidegate.runtime.commands.bars import Phases, bars
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
    from tidegate.projections.rebuild import DeadLetters
    from tidegate.runtime.machine import Machine
    from tidegate.runtime.readmodels import Readable

replay_app = typer.Typer(no_args_is_help=True, help="Decide again what was decided.")
T = TypeVar("T")

SinceOption = Annotated[
    dt.datetime | None,
    typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="From this time on, UTC."),
]
WideOption = Annotated[
    bool, typer.Option("--wide", help="All columns, to the last digit, however long the lines.")
]
EXPLAIN_COLUMNS = 80
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", help="Of the report forecast: write one page with plots to this file instead."),
]
TenantOption = Annotated[str | None, typer.Option(help="One tenant only.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(help="Answer one SELECT over the read models.")(sql)
    app.command(help="A report: who spent what where, what failed, what is left of quotas, one request.")(
        report
    )
    app.command(
        help="Why a request went where it went, in five lines; without the log, from the read model."
    )(explain)
    app.command(help="Build the read models anew from the log and compare.")(rebuild)
    app.add_typer(replay_app, name="replay")


def _run(work: Coroutine[Any, Any, T]) -> T:
    from tidegate.events.errors import TidegateError

    try:
        return asyncio.run(work)
    except TidegateError as error:
        fail(str(error))


def _ns(when: dt.datetime | None) -> int | None:
    return None if when is None else int(when.replace(tzinfo=dt.UTC).timestamp()) * 10**9


def sql(
    query: Annotated[str, typer.Argument(help="Exactly one SELECT.")],
    config: ConfigOption = None,
    json: JsonOption = False,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="Most rows to show.")] = 200,
) -> None:
    """Free SQL, for operators."""
    from tidegate.analytics import render
    from tidegate.analytics.sql import Result, ask
    from tidegate.runtime.readmodels import sql_source

    machine, _ = machine_of(config)

    async def work() -> Result:
        async with sql_source(machine) as source:
            return await ask(source, query, max_rows=rows)

    result = _run(work())
    if json:
        print_json(render.result_json(result))
    else:
        show(render.as_table(result))


def report(
    name: Annotated[
        str,
        typer.Argument(
            help="sessions, spend, drift, failures, quota, forecast, settlements, request (with its id),"
            " requests or usage (of a tenant)."
        ),
    ],
    wanted: Annotated[str | None, typer.Argument(metavar="[ID]", help="Request or decision id.")] = None,
    config: ConfigOption = None,
    tenant: TenantOption = None,
    since: SinceOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Named questions, answered together: a line for each row, the columns that matter."""
    from tidegate.analytics import forecast_page, render, reports
    from tidegate.runtime.readmodels import sql_source

    if html is not None and name != "forecast":
        fail("only the report forecast is also a page: leave --html out")
    machine, _ = machine_of(config)
    rows = reports.SECTION_ROWS if html is None else forecast_page.MAX_ROWS

    async def work() -> reports.Report:
        async with sql_source(machine) as source:
            asked = reports.Asked(id=wanted, tenant=tenant, since_ns=_ns(since))
            return await reports.report(source, name, asked, max_rows=rows)

    found = _run(work())
    if html is not None:
        _write(html, forecast_page.forecast_page(found))
    if json:
        print_json(render.report_json(found))
        return
    if html is not None:
        return
    for place, table in enumerate(render.report_tables(found, wide=wide)):
        if place:
            say("")
        lay_out(table)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}")
    tell(f"{file} is written")


def explain(
    request: Annotated[str | None, typer.Argument(help="Request or decision id; the newest without.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Target, price parts, runner-up and gap, rejected targets, inputs: five lines of at most 80 columns."""
    from tidegate.analytics.decisions import Found, find_decision
    from tidegate.planner.explain import explain as in_lines
    from tidegate.planner.explain import explanation
    from tidegate.runtime.commands.brief import five_lines
    from tidegate.runtime.readmodels import read_model_or_none, readable_log

    machine, _ = machine_of(config)

    async def work() -> "tuple[Readable, Found | None]":
        async with readable_log(machine) as readable, read_model_or_none(machine) as source:
            _tell_away(readable, machine)
            return readable, await find_decision(readable.log, source, request)

    readable, found = _run(work())
    if found is None and readable.away is not None:
        fail(
            f"no decision {'' if request is None else f'of {request} '}is in what can be read without the log"
        )
    if found is None:
        fail(
            "no decision is recorded yet" if request is None else f"no decision of {request} is recorded",
            FINDING,
        )
    decision = found.decision
    if json:
        told_by = "read model" if found.is_recalled else "log" if readable.away is None else "archive"
        print_json({**explanation(decision), "told_by": told_by})
    else:
        say(in_lines(decision) if wide else five_lines(decision, EXPLAIN_COLUMNS))


def _tell_away(readable: "Readable", machine: "Machine") -> None:
    """On standard error: what cannot be asked, and how far what is asked instead has come."""
    if readable.away is None:
        return
    until = "nothing is archived"
    if readable.newest_ns is not None:
        until = f"the archive ends at {dt.datetime.fromtimestamp(readable.newest_ns // 10**9, dt.UTC).isoformat()}"
    tell(f"the log does not answer: {readable.away}")
    tell(f"{until}; later decisions are told by the read model ({machine.projections_path})")


@replay_app.command()
def verify(
    config: ConfigOption = None,
    since: SinceOption = None,
    route: Annotated[str | None, typer.Option(help="One route only.")] = None,
    tenant: TenantOption = None,
    json: JsonOption = False,
) -> None:
    """Replay recorded decisions bit by bit; exit code 1 when one differs, when inputs are missing, when a record
    cannot be read or reached, or when there was nothing to replay. Without the log its archive is replayed, and the
    decisions counted that only the read model knows."""
    from tidegate.analytics import render, replay_verify
    from tidegate.analytics.beyond import decisions_beyond
    from tidegate.planner.replay import verify as verify_one
    from tidegate.runtime.readmodels import read_model_or_none, readable_log

    machine, _ = machine_of(config)
    only = replay_verify.Only(since_ns=_ns(since), route=route, tenant=tenant)

    async def work(phases: Phases) -> replay_verify.ReplayReport:
        async with readable_log(machine) as readable, read_model_or_none(machine) as source:
            _tell_away(readable, machine)
            found = await replay_verify.verify(readable.log, verify_one, only, phases)
            if readable.away is None:
                return found
            return msgspec.structs.replace(
                found, beyond_reach=await decisions_beyond(readable.log, source, only)
            )

    with bars(quiet=json) as phases:
        found = _run(work(phases))
    if json:
        print_json(render.replay_json(found))
    else:
        show(render.replay_table(found))
    if not found.is_clean:
        raise typer.Exit(FINDING)


def rebuild(
    config: ConfigOption = None,
    force: Annotated[
        bool,
        typer.Option(
            help="Take the new file also when contents differ or it does not hold the whole log; the old one stays"
            " beside it."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """From position 0 into a new file; the projector takes it over when it holds the whole log and the same as the
    live one. Exit code 1 when it does not, also when it was taken by force."""
    from tidegate.analytics.client import SocketSource
    from tidegate.projections.limits import Limits
    from tidegate.projections.rebuild import adopt
    from tidegate.projections.rebuild import rebuild as build
    from tidegate.runtime.readmodels import projector_answers, whole_log

    machine, _ = machine_of(config)

    async def work(phases: Phases) -> tuple[Any, Any]:
        async with whole_log(machine) as log:
            built = await build(log, machine.projections_path, Limits(), phases("folding the log"))
        phases("comparing with the live read model")
        if await projector_answers(machine):
            return built, await SocketSource(machine.query_socket).swap(force=force)
        return built, _plain(await asyncio.to_thread(adopt, machine.projections_path, Limits(), force=force))

    with bars(quiet=json) as phases:
        built, swapped = _run(work(phases))
    answer = {"built": _plain(built), "swap": swapped}
    if json:
        print_json(answer)
    else:
        say(f"built {built.rows} rows from {built.events} events")
        _tell_dead(built.dead_letters)
        _tell_swap(swapped)
    if built.halted or built.gaps or not swapped["swapped"]:
        raise typer.Exit(FINDING)


def _tell_dead(dead: "DeadLetters") -> None:
    """Records that nobody can read are no reason against the new file: the live one lacks them, too."""
    if not dead.count:
        return
    records = "1 record" if dead.count == 1 else f"{dead.count} records"
    say(f"left out as unreadable: {records}; the projector tells of each it meets in the topic {dead.topic}")
    for each in dead.first:
        say(f"  {each.topic}/{each.partition}, offset {each.offset}: {each.reason}")
    if dead.count > len(dead.first):
        say(f"  and {dead.count - len(dead.first)} more")


def _tell_swap(swapped: dict[str, Any]) -> None:
    """What the new file lacks or has otherwise, then which of the two files is in force now."""
    unread, differing = swapped.get("unread", ()), swapped["differing"]
    for reason in unread:
        say(f"not in the new file: {reason}")
    if differing:
        say(f"contents differ: {', '.join(differing)}")
    if not swapped["swapped"]:
        doubt = "does not hold the whole log" if unread else "holds something else"
        say(f"the live file stays: the new one {doubt}; --force takes it and keeps the live one as .old")
        return
    say("the new file is in place" + (" by force, though it is not whole" if unread else ""))
    if swapped.get("kept"):
        say(f"the file before it is kept: {swapped['kept']}")


def _plain(value: Any) -> Any:
    return json_module.loads(msgspec.json.encode(value))
