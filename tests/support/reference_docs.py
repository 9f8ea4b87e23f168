"""Writes docs/reference/{settings,events,errors,cli}.md from the code: `python tests/support/reference_docs.py`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import typer

from tidegate.events import config, registry
from tidegate.gateway import refusals
from tidegate.gateway.errors import STATUS
from tidegate.gateway.refusals import Refusal
from tidegate.runtime.cli import app

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "reference"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _shown(value: Any) -> str:
    if value is msgspec.NODEFAULT:
        return "required"
    if isinstance(value, msgspec.Struct):
        return "see below"
    return f"`{value!r}`"


def _kind(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return str(text).replace("tidegate.events.", "").replace("typing.", "").replace("|", "or")


def _fields(struct: type[msgspec.Struct]) -> list[str]:
    rows = ["| key | type | default |", "| --- | --- | --- |"]
    plain = struct.__annotations__
    for field in msgspec.structs.fields(struct):
        default = field.default if field.default is not msgspec.NODEFAULT else msgspec.NODEFAULT
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        kind = _type_text(plain.get(field.name, ""))
        rows.append(f"| `{field.encode_name}` | {kind} | {_shown(default)} |")
    return rows


def _type_text(annotation: Any) -> str:
    source = str(annotation)
    for noise in (
        "typing.",
        "tidegate.events.config.",
        "tidegate.events.types.",
        "msgspec.",
        "<class '",
        "'>",
    ):
        source = source.replace(noise, "")
    return (
        "`" + source.split("[", 1)[0].replace("|", "or").strip() + "`"
        if "Annotated" not in source
        else "`" + _base(source) + "`"
    )


def _base(source: str) -> str:
    return source.split("Annotated[", 1)[1].split(",", 1)[0]


def settings_md() -> str:
    """Every table and key of the TOML file."""
    lines = [
        "# Settings",
        "",
        "One TOML file, found by `--config`, then `TIDEGATE_CONFIG`, then `tidegate.toml` in the working folder, then",
        "`~/.config/tidegate/tidegate.toml`. Unknown keys are mistakes; all mistakes are told at once, by name and line",
        "(`tidegate config check`). Amounts are integer nano-dollars or a text with decimal dollars; instants are integer",
        "nanoseconds or TOML dates. Secrets are references: `env:NAME` or `file:PATH` (mode 600).",
    ]
    tables = [
        ("top level", config.Settings), ("[gateway]", config.GatewaySettings), ("[log]", config.LogSettings),
        ("[admin]", config.AdminSettings), ("[estimator]", config.EstimatorSettings), ("[[tenants]]", config.Tenant),
        ("[[keys]]", config.Key), ("[[pools]]", config.Pool), ("[[pools.windows]]", config.Window),
        ("[[targets]]", config.Target), ("[targets.deadlines]", config.Deadlines), ("[[targets.prices]]", config.DatedPrice),
        ("[[routes]]", config.Route), ("[[routes.candidates]]", config.Candidate),
    ]  # fmt: skip
    for title, struct in tables:
        lines += ["", f"## {title}", "", _one_line(inspect.getdoc(struct)), "", *_fields(struct)]
    return "\n".join(lines) + "\n"


def events_md() -> str:
    """Every event type with its topic and fields."""
    lines = [
        "# Events",
        "",
        "Every record is a JSON envelope: `id`, `type`, `v`, `ts` (ns), `source`, `seq`, `tenant`, `request`, `session`, `cause`, `data`.",
        "Unknown is `null` (or left out), never 0; money is integer nano-dollars; tokens are disjoint classes. Changes are additive; a",
        "breaking one is a new version with an upcaster, and a frozen sample of every version decodes for ever.",
    ]
    for (name, version), struct in sorted(registry.STRUCTS.items()):
        topic = registry.TOPIC_OF[name] or "every topic"
        lines += [
            "",
            f"## {name} v{version}",
            "",
            f"Topic: `{topic}`. {_one_line(inspect.getdoc(struct))}",
            "",
        ]
        lines += [
            "Fields: " + ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(struct)) + "."
        ]
    return "\n".join(lines) + "\n"


def errors_md() -> str:
    """Every code a client can see."""
    lines = [
        "# Errors",
        "",
        "`/v1/messages*` answers Anthropic's error envelope, everything else OpenAI's; `code` is one of these. `request_incompatible`",
        "passes on an upstream's own 400, 404, 413 or 422. In a stream that has begun there is one error event and no terminal event.",
        "",
        "| code | status |",
        "| --- | --- |",
        *(f"| `{code}` | {status} |" for code, status in STATUS.items()),
        "",
        "The listener itself refuses what is no acceptable HTTP, before the gateway sees it, and closes the connection:",
        "",
        "| code | status | meaning |",
        "| --- | --- | --- |",
        *(f"| `{found.code}` | {found.status} | {found.message} |" for found in _refusals()),
    ]
    return "\n".join(lines) + "\n"


def _refusals() -> list[Refusal]:
    found = [value for value in vars(refusals).values() if isinstance(value, Refusal)]
    return sorted(found, key=lambda refusal: (refusal.status, refusal.code))


def cli_md() -> str:
    """Every command with its options."""
    lines = [
        "# Commands",
        "",
        "Exit codes: 0 good, 1 a finding, 2 usage or cannot run. `--json` prints JSON.",
    ]
    command = typer.main.get_command(app)
    for path, found in _walk(command, ("tidegate",)):
        lines += ["", f"## {' '.join(path)}", "", _one_line(found.help), ""]
        for parameter in found.params:
            if getattr(parameter, "hidden", False) or parameter.name == "help":
                continue
            names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
            text = getattr(parameter, "help", None) or ""
            lines.append(f"- {names}" + (f": {_one_line(text)}" if text else ""))
    return "\n".join(lines) + "\n"


def _walk(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(path, command)]
    return [entry for name in sorted(children) for entry in _walk(children[name], (*path, name))]


PAGES = {"settings.md": settings_md, "events.md": events_md, "errors.md": errors_md, "cli.md": cli_md}


def main() -> int:
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
