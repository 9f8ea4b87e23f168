"""What commands share: finding the config, exit codes, output for people or machines."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tidegate.events.config import Settings
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import ConfigInvalid, environment, find_config, load_settings

FINDING = 1
CANNOT_RUN = 2
_UNBOUNDED = 1 << 16

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The TOML file; see the search order in the docs.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ParentOption = Annotated[int | None, typer.Option("--parent-fd", hidden=True)]

out = Console()
err = Console(stderr=True)


def say(text: str) -> None:
    """Plain text on standard output, never wrapped: keys and digests stay in one piece."""
    out.print(text, soft_wrap=True, highlight=False, markup=False)


def tell(text: str) -> None:
    """How it goes, on standard error: output stays what was asked for."""
    err.print(text, soft_wrap=True, highlight=False, markup=False)


def show(table: Table) -> None:
    """A table as such where it fits the console, else one `column: value` a line: no value is ever cut."""
    natural = Measurement.get(out, out.options.update(max_width=_UNBOUNDED), table).maximum
    if natural <= out.width:
        out.print(table)
        return
    if table.title:
        say(f"{table.title}\n")
    names = [str(column.header) for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for name, value in zip(names, row, strict=True):
            say(f"{name}: {value}" if name else f"{value}")
        say("")
    if table.caption:
        say(str(table.caption))


def lay_out(table: Table) -> None:
    """A table with one line a row, however wide: what a terminal does with long lines is its own affair."""
    natural = Measurement.get(out, out.options.update(max_width=_UNBOUNDED), table).maximum
    Console(width=max(natural, out.width)).print(table, soft_wrap=True)


def fail(message: str, code: int = CANNOT_RUN) -> NoReturn:
    """Say why on standard error and exit."""
    err.print(message, style="red", soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(code)


def reason_of(error: Exception) -> str:
    """What an error says to whoever typed the command: of a file or folder its name, too."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)


def config_path(given: Path | None) -> Path:
    """The config file of this call; exits with 2 when there is none."""
    try:
        return find_config(given, environment(), Path.cwd(), Path.home())
    except ConfigInvalid as error:
        fail(str(error))


def absolute(path: Path) -> Path:
    """The path without links. One that leads nowhere, or in a circle, is told by whoever reads it."""
    return Path(os.path.realpath(path))


def settings_at(path: Path) -> Settings:
    """Settings of a file; exits with 2 listing every mistake."""
    try:
        return load_settings(path)
    except ConfigInvalid as error:
        fail(str(error))


def machine_of(given: Path | None) -> tuple[Machine, Path]:
    """Machine and config path of this call. A relative data_dir counts from the config's folder."""
    path = absolute(config_path(given))
    return Machine(settings_at(path), base=path.parent), path


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
