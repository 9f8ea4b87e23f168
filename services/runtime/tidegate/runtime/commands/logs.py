"""`topics apply|check`, `dev kafka`, `simulate`, `status`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.runtime.commands.shared import (
    FINDING,
    ConfigOption,
    JsonOption,
    ParentOption,
    absolute,
    fail,
    machine_of,
    print_json,
    say,
)

if TYPE_CHECKING:
    from tidegate.runtime.machine import Machine

topics_app = typer.Typer(no_args_is_help=True, help="Create and verify the Kafka topics.")
dev_app = typer.Typer(no_args_is_help=True, help="Tools for developers.")


@topics_app.command()
def apply(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Create what is missing; never alters what is there. Exit code 1 when a topic differs."""
    _topics(config, create=True, json=json)


@topics_app.command()
def check(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Report every difference in partitions, retention, compaction, replication and the brokers' settings
    that would harm them, and records that wait too long for this machine's archive; creates nothing. Exit code 1
    when there is one."""
    _topics(config, create=False, json=json)


def _topics(config: Path | None, *, create: bool, json: bool) -> None:
    from tidegate.events.errors import TidegateError
    from tidegate.events.log.kafka_admin import apply_topics, check_topics

    machine, _ = machine_of(config)
    late: list[str] = []
    try:
        settings = machine.kafka_settings()
        drifts = asyncio.run((apply_topics if create else check_topics)(settings))
        if not (create or drifts):
            late = _late(machine)
    except TidegateError as error:
        fail(str(error))
    if json:
        print_json({"drift": [str(drift) for drift in drifts], "late": late})
    else:
        for line in (*map(str, drifts), *late):
            say(line)
        if not drifts:
            say("topics are as declared")
    if drifts or late:
        raise typer.Exit(FINDING)


def _late(machine: "Machine") -> list[str]:
    """Records that wait too long for this machine's archive; none where there is no archive. Raises Unavailable."""
    from tidegate.events.archive_manifest import Manifest
    from tidegate.events.errors import LogUnavailable
    from tidegate.runtime.retention import unarchived

    if not (machine.settings.log.archive and machine.archive_dir.is_dir()):
        return []

    async def look() -> list[str]:
        log = machine.open_log()
        try:
            found = await unarchived(log, Manifest(machine.archive_dir), machine.clock.wall_ns())
        except TimeoutError as error:
            raise LogUnavailable("Kafka does not show in time what waits for the archive") from error
        finally:
            await log.close()
        return [str(each) for each in found if each.is_late]

    return asyncio.run(look())


@dev_app.command()
def kafka(
    nodes: Annotated[int, typer.Option(min=1, max=3, help="One node or three.")] = 1,
    data: Annotated[Path, typer.Option(help="Where the nodes keep their data.")] = Path(
        "tidegate-data/kafka"
    ),
    port: Annotated[int, typer.Option(help="Port of the first broker.")] = 9092,
) -> None:
    """Run Apache Kafka from Maven artifacts on this machine's Java, in the foreground."""
    from tidegate.runtime.kafka_dev.errors import DevKafkaError
    from tidegate.runtime.kafka_dev.foreground import run_dev_kafka
    from tidegate.runtime.kafka_dev.installation import from_environment

    if nodes == 2:
        fail("a cluster has one node or three: two cannot lose one")
    try:
        run_dev_kafka(nodes, absolute(data), port, places=from_environment(), say=say)
    except DevKafkaError as error:
        fail(str(error))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(topics_app, name="topics")
    app.add_typer(dev_app, name="dev")
    app.command(help="Run simulated providers with their own log and invoice.")(simulate)
    app.command(help="What the running processes say of themselves.")(status)


def simulate(
    config: Annotated[Path, typer.Option("--config", "-c", help="The simulator's own TOML file.")],
    ready_file: Annotated[Path | None, typer.Option(help="Written once every port is open.")] = None,
    parent_fd: ParentOption = None,
) -> None:
    """The provider simulator alone."""
    from tidegate.runtime.process import until_parent_gone
    from tidegate.simulator.loading import ConfigError
    from tidegate.simulator.main import main_async

    try:
        asyncio.run(until_parent_gone(main_async(config, ready_file), parent_fd))
    except (ConfigError, OSError) as error:
        fail(str(error))


def _exact(value: float) -> str:
    """Every digit of a count; of a fraction six places."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def status(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Numbers of every process that answers on its local socket."""
    from tidegate.runtime import metrics

    machine, _ = machine_of(config)
    found = asyncio.run(metrics.collect(machine.run_dir))
    if json:
        print_json(found)
    for instance, numbers in [] if json else found.items():
        say(instance)
        plain, histograms = metrics.histograms_of(numbers)
        for name, value in plain.items():
            say(f"  {name:<32} {_exact(value)}")
        for name, its in histograms.items():
            if its.count:
                mean = f"mean {its.sum / its.count:.3g}"
                say(
                    f"  {name:<32} {mean}, half ≤ {its.at_most(0.5)}, 99 % ≤ {its.at_most(0.99)}, of {its.count}"
                )
    if not found:
        fail("no process answers: is `tidegate serve` running with this config?", FINDING)
