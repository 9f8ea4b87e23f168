"""How a role's command starts: everything it needs is looked at first, and every refusal is told in a line."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import ValidationError, convert

from tidegate.events.config import Slot
from tidegate.events.errors import TidegateError
from tidegate.runtime.commands.shared import absolute, config_path, fail, reason_of
from tidegate.runtime.machine import Machine
from tidegate.runtime.ready import (
    ALL_TABLES,
    TABLES_OF,
    log_faults,
    missing_here,
    published_mistakes,
    socket_mistakes,
)
from tidegate.runtime.settings import ConfigFile, ConfigInvalid, environment, examined
from tidegate.runtime.telemetry import configure, facts_of, logger
from tidegate.runtime.validation import NotRead

_SERVES_THE_FILE = frozenset({"serve", "gateway", "admin"})
"""Roles that would use or publish a file that binds a target id anew."""


def ready_machine(given: Path | None, role: str, slot: str | None = None) -> tuple[Machine, Path]:
    """The machine for a role (or `serve`), its folders made; exits with 2 naming everything that is not right."""
    path = absolute(config_path(given))
    configure("supervisor" if role == "serve" else role, slot)
    try:
        file, machine = _sound(examined(path), role, slot)
        asyncio.run(_look(machine, file, role))
    except TidegateError as error:
        fail(str(error))
    try:
        machine.make_folders()
    except OSError as error:
        fail(f"the data folder cannot be used: {reason_of(error)}")
    return machine, path


def _sound(file: ConfigFile, role: str, slot: str | None) -> tuple[ConfigFile, Machine]:
    """Raises ConfigInvalid with everything that is wrong with the file, and that this machine lacks for it."""
    mistakes = [*file.mistakes]
    mistakes += missing_here(file.settings, environment(), TABLES_OF.get(role, ALL_TABLES))
    try:
        machine = Machine(file.settings, base=file.path.parent)
        mistakes += socket_mistakes(machine, _slots(file, role, slot))
    except NotRead as error:
        raise file.invalid(mistakes) from error
    if mistakes:
        raise file.invalid(mistakes)
    return file, machine


def _slots(file: ConfigFile, role: str, slot: str | None) -> tuple[str, ...]:
    gateway = file.settings.gateway
    if slot is not None:
        try:
            convert(slot, Slot)
        except ValidationError as error:
            raise ConfigInvalid(["--slot: letters, digits, `.`, `_` and `-`, at most 64"]) from error
        return (slot,)
    return (f"{gateway.slot}-{gateway.workers - 1}",) if role in {"serve", "gateway"} else ()


async def _look(machine: Machine, file: ConfigFile, role: str) -> None:
    """Ask the log, where it answers. A gateway starts whatever it says of topics: clients do not wait for it."""
    faults = await log_faults(machine)
    if faults is not None:
        if role != "gateway":
            raise ConfigInvalid([faults])
        logger().error("topics are missing", why=faults)
        return
    if role not in _SERVES_THE_FILE:
        return
    try:
        mistakes = await published_mistakes(machine)
    except TidegateError as error:
        logger().warning(
            "the config was not compared with the published one", code=error.code, why=str(error)
        )
        return
    if mistakes:
        raise file.invalid(mistakes)


def told(run: Callable[[], None]) -> None:
    """Run; an error of ours or of a file exits with 2 and its message, whatever task it came from."""
    try:
        run()
    except* (TidegateError, OSError) as group:
        for error in _leaves(group):
            if isinstance(error, OSError):  # who has to mend it wants to know where it came from
                logger().critical("role ended", **facts_of(error))
        errors = list(_leaves(group))
    else:
        return
    fail("\n".join(dict.fromkeys(map(reason_of, errors))))


def _leaves(group: BaseExceptionGroup[TidegateError | OSError]) -> Iterator[TidegateError | OSError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
