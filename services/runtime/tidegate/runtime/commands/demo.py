"""`demo`: the whole thing at work on this machine, in under a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidegate.runtime.commands.shared import FINDING, JsonOption, err, fail, out, print_json

if TYPE_CHECKING:
    from tidegate.runtime.demo.launch import Launch
    from tidegate.runtime.demo.run import Result
    from tidegate.runtime.demo.workload import Workload

SPEED = 240.0
SESSIONS = 40
SEED = 7
MAX_GAP_S = 600.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(help="Drive traffic through all roles over simulated providers, and judge the result.")(demo)


def demo(
    *,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Recorded traffic: coding-agent sessions (JSON Lines) or the Azure LLM trace (CSV), also"
            " packed with gzip. Without it a generated workload is driven."
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            min=1, help="The first N sessions (default 40), or rows of a trace without (default 2000)."
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0.001, help="Divides the trace's pauses and every duration of the providers.")
    ] = SPEED,
    log: Annotated[Literal["sqlite", "kafka"], typer.Option(help="The event log.")] = "sqlite",
    bootstrap: Annotated[
        str | None, typer.Option(help="A running Kafka, host:port; without it one node is started.")
    ] = None,
    max_input_tokens: Annotated[
        int | None, typer.Option(min=1, help="Cut longer prompts and say how many; by default none is cut.")
    ] = None,
    max_gap: Annotated[
        float, typer.Option(min=0.001, help="Cut longer pauses (seconds of the trace) and say how many.")
    ] = MAX_GAP_S,
    seed: Annotated[int, typer.Option(help="Of the generated workload and of the providers.")] = SEED,
    folder: Annotated[
        Path | None, typer.Option(help="A new folder for everything; by default tidegate-data/demo/<time>.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Exit code 1 when ledger, bills, log, read model or replay disagree, 2 when it cannot run."""
    from tidegate.events.clock import SystemClock
    from tidegate.events.errors import TidegateError

    try:
        from tidegate.runtime.demo.launch import Launch, new_folder
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        fail("the demo drives the gateway with the OpenAI SDK: pip install 'tidegate[demo]'")
    if bootstrap is not None and log != "kafka":
        fail("--bootstrap names a Kafka: add --log kafka")
    try:
        workload = _workload(trace, sessions, seed, max_gap, max_input_tokens)
        where = new_folder(folder, SystemClock())
        result = _launch(Launch(workload, speed, seed, where, log == "kafka", bootstrap), quiet=json)
    except TidegateError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted; everything that was started has been stopped")
    _print(result, json=json)
    if result.figures.findings:
        raise typer.Exit(FINDING)


def _workload(
    trace: Path | None, sessions: int | None, seed: int, max_gap_s: float, max_input_tokens: int | None
) -> "Workload":
    from tidegate.runtime.demo.traces import read_trace
    from tidegate.runtime.demo.workload import clip, generate

    workload = (
        generate(sessions or SESSIONS, seed) if trace is None else read_trace(trace, sessions, max_gap_s)
    )
    return workload if max_input_tokens is None else clip(workload, max_input_tokens)


def _launch(what: "Launch", *, quiet: bool) -> "Result":
    from tidegate.runtime.demo.launch import launch
    from tidegate.runtime.demo.progress import Shown, Silent

    with Silent() if quiet else Shown(err, len(what.workload.requests)) as progress:
        return launch(what, progress)


def _print(result: "Result", *, json: bool) -> None:
    if json:
        import msgspec

        print_json(msgspec.to_builtins(result.figures))
        return
    from tidegate.runtime.demo.report import show

    show(out, result)
