"""Writes docs/reference/{settings,events,errors,cli,dialects}.md from the code: `python tests/support/reference_docs.py`."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import typer
from msgspec import inspect as types
from typer.core import TyperArgument

from tidegate.events import decision, registry, snapshots
from tidegate.events.envelope import Envelope
from tidegate.events.money import ListPrice, PartPrices, PriceVariant, Tokens
from tidegate.events.types import Cause
from tidegate.gateway import refusals
from tidegate.gateway.errors import STATUS
from tidegate.gateway.refusals import Refusal
from tidegate.runtime.cli import app

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "reference"
sys.path.insert(0, str(ROOT / "tests"))

from support.reference_dialects import dialects_md  # noqa: E402
from support.reference_words import ERRORS, SETTINGS, TABLES  # noqa: E402

PARTS: tuple[type[msgspec.Struct], ...] = (
    Tokens,
    ListPrice,
    PartPrices,
    PriceVariant,
    decision.Ask,
    decision.WindowUse,
    decision.CandidateVerdict,
    decision.LocalView,
    decision.PriceParts,
    snapshots.Belief,
    snapshots.TargetBelief,
    snapshots.WindowBelief,
    snapshots.PoolBelief,
)
"""Structs inside events that have a section of their own."""


def one_line(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def field_notes(struct: type) -> dict[str, str]:
    """The texts that stand below fields in the source."""
    (body,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(body, ast.ClassDef)
    notes: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            notes[field.target.id] = one_line(text.value.value)
    return notes


def kind_of(kind: types.Type) -> str:
    """A type in words, for people who write TOML or read JSON."""
    match kind:
        case types.Metadata():
            form = (kind.extra or {}).get("form")
            return kind_of(kind.type) if form is None else str(form)
        case types.UnionType():
            return " or ".join(kind_of(one) for one in kind.types if not isinstance(one, types.NoneType))
        case types.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
        case types.VarTupleType():
            inner = kind_of(kind.item_type)
            return "tables" if inner == "table" else f"list of {inner}"
        case types.RawType():
            return "object"
        case types.DictType():
            return f"table of {kind_of(kind.value_type)}"
        case types.StructType():
            return f"{kind.cls.__name__}" if kind.cls in PARTS else "table"
        case types.IntType() | types.FloatType():
            name = "integer" if isinstance(kind, types.IntType) else "number"
            return name + _bounds(kind)
        case types.StrType():
            return "text"
        case types.BoolType():
            return "true or false"
        case _:
            return type(kind).__name__.removesuffix("Type").lower()


def _bounds(kind: types.IntType | types.FloatType) -> str:
    limits = (("≥", kind.ge), (">", kind.gt), ("≤", kind.le), ("<", kind.lt))
    # Which of two equal constraints of the same type is meant, `typing` does not tell apart: 0 may come as 0.0.
    said = [
        f"{sign} {int(bound) if bound == int(bound) else bound}"
        for sign, bound in limits
        if bound is not None
    ]
    return f" {' and '.join(said)}" if said else ""


def _fields(struct: type[msgspec.Struct]) -> tuple[types.Field, ...]:
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return info.fields


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return ""
    if value is None or value == ():
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else "empty"


def settings_md() -> str:
    """Every table and key of the TOML file."""
    lines = [
        "# Settings",
        "",
        "One TOML file, found by `--config`, then `TIDEGATE_CONFIG`, then `tidegate.toml` in the working folder, then",
        "`~/.config/tidegate/tidegate.toml`. Unknown keys are mistakes. `tidegate config check` tells all mistakes at once, by",
        "name and line; `tidegate config schema` prints the JSON Schema.",
        "",
        '*dollars*: a text such as `"2.50"`, or an integer of nano-dollars, 0 or from 1,000,000 on. Prices are per million tokens. *instant*: a TOML date',
        "or date-time, or integer nanoseconds since the epoch. *seconds*: 0.001 to ten years. Times ending in `_ms` are",
        "milliseconds. Secrets are references: `env:NAME`, or `file:/PATH` of a file that only its owner can read. Ids and route",
        "names have letters, digits and `._:/@+-`, at most 128; a slot also names a folder and has no `:/@+`. No number is endless.",
        "",
        "Every role looks at its part of the file before it starts and ends with code 2, naming setting and line, when something",
        "cannot be used: a secret or CA file that is not there, a target that the log knows under this id with another pool,",
        "provider, model or secret, topics that Kafka does not have. A log that does not answer is no reason not to start.",
        "",
        "What decides (tenants, keys, pools, targets, routes) is published to the log under its digest, when the admin process",
        "starts or is told to (`POST /admin/config`), and every gateway takes it up without a restart. The other tables are read",
        "when a process starts.",
    ]
    for title, struct in TABLES.items():
        lines += ["", f"## {title}", "", one_line(inspect.getdoc(struct)), ""]
        lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        for field in _fields(struct):
            name = field.encode_name
            lines.append(
                f"| `{name}` | {kind_of(field.type)} | {_default(field)} | {SETTINGS[title][name]} |"
            )
    return "\n".join(lines) + "\n"


def events_md() -> str:
    """Every event type with its topic and fields, then the parts they share."""
    lines = [
        "# Events",
        "",
        "Every record is one JSON object, the envelope; `data` is the event. Unknown is `null` or left out, never 0. Money is",
        "integer nano-dollars, prices are nano-dollars per million tokens, names ending in `_ns` are nanoseconds (instants since",
        "the epoch), token classes are disjoint. Prompts and completions are in no event.",
        "",
        "Changes are additive. A breaking one is a new version with an upcaster; a frozen sample of every version in",
        "`tests/contract/golden` decodes for ever. A consumer that meets a type or version it does not know stops that partition.",
        "",
        "Every integer has bounds, wider than anything real, so that sums stay exact in 64 bits (`tidegate/events/bounds.py`). An event",
        "beyond them is left out by every consumer, as a record that is no envelope is: counted, and told as a `DeadLetter`.",
        "",
        "## Envelope",
        "",
        *_event_fields(Envelope),
    ]
    for (name, version), struct in sorted(registry.STRUCTS.items()):
        topic = registry.TOPIC_OF[name]
        place = f"Topic: `{topic}`." if topic else "In every topic."
        lines += [
            "",
            f"## {name} v{version}",
            "",
            f"{place} {one_line(inspect.getdoc(struct))}",
            "",
            *_event_fields(struct),
        ]
    lines += ["", "# Parts of events"]
    for struct in PARTS:
        lines += [
            "",
            f"## {struct.__name__}",
            "",
            one_line(inspect.getdoc(struct)),
            "",
            *_event_fields(struct),
        ]
    causes = ", ".join(f"`{cause}`" for cause in get_args(Cause))
    lines += ["", "## Causes of a failed attempt", "", f"{causes}."]
    return "\n".join(lines) + "\n"


def _event_fields(struct: type[msgspec.Struct]) -> list[str]:
    notes = field_notes(struct)
    rows = ["| field | type | note |", "| --- | --- | --- |"]
    for field in _fields(struct):
        rows.append(f"| `{field.encode_name}` | {kind_of(field.type)} | {notes.get(field.name, '')} |")
    return rows


def errors_md() -> str:
    """Every code a client can see."""
    lines = [
        "# Errors",
        "",
        "`/v1/messages*` answers Anthropic's error envelope, everything else OpenAI's; `code` is one of these. Codes that begin",
        "with `upstream_` name the last failure of a request whose every attempt failed. In a stream that has begun there is one",
        "error event and no terminal event.",
        "",
        "| code | status | meaning |",
        "| --- | --- | --- |",
        *(f"| `{code}` | {status} | {ERRORS[code]} |" for code, status in STATUS.items()),
        "",
        "The listener itself refuses what is no acceptable HTTP, before the gateway sees it, and closes the connection:",
        "",
        "| code | status | meaning |",
        "| --- | --- | --- |",
        *(f"| `{found.code}` | {found.status} | {found.message} |" for found in listener_refusals()),
    ]
    return "\n".join(lines) + "\n"


def listener_refusals() -> list[Refusal]:
    found = [value for value in vars(refusals).values() if isinstance(value, Refusal)]
    return sorted(found, key=lambda refusal: (refusal.status, refusal.code))


def cli_md() -> str:
    """Every command with its arguments and options."""
    lines = [
        "# Commands",
        "",
        "Exit codes: 0 good, 1 a finding, 2 usage or cannot run. `--json` prints JSON. `--config` is found as",
        "[settings](settings.md) says.",
    ]
    for path, command in commands():
        arguments = "".join(
            f" {_placeholder(one)}" for one in _shown(command) if isinstance(one, TyperArgument)
        )
        lines += [
            "",
            f"## {' '.join(path)}",
            "",
            f"`{' '.join(path)}{arguments} [OPTIONS]`",
            "",
            one_line(command.help),
        ]
        rows = [_parameter(one) for one in _shown(command)]
        lines += ["", "| parameter | meaning |", "| --- | --- |", *rows] if rows else []
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be run, by its words."""
    yield from _below(typer.main.get_command(app), ("tidegate",))


def _below(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name in sorted(children):
        yield from _below(children[name], (*path, name))


def _shown(command: Any) -> list[Any]:
    return [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]


def _placeholder(argument: TyperArgument) -> str:
    name = (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _parameter(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if isinstance(parameter, TyperArgument):
        names = f"`{(parameter.name or '').upper()}`"
    text = one_line(getattr(parameter, "help", None)).replace("<", "&lt;")
    kind = parameter.type_descriptor.annotation
    if get_origin(kind) is Literal:
        text += f" One of {', '.join(f'`{value}`' for value in get_args(kind))}."
    default = parameter.default
    if default is not None and not callable(default) and default is not False and not parameter.required:
        text += f" Default: `{getattr(default, 'value', default)}`."
    return f"| {names} | {text} |"


PAGES: dict[str, Any] = {
    "settings.md": settings_md,
    "events.md": events_md,
    "errors.md": errors_md,
    "cli.md": cli_md,
    "dialects.md": dialects_md,
}


def main() -> int:
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
