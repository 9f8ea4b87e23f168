"""`prices list|board|show|import|check`: the price book, beliefs, prices from elsewhere, and how they differ."""

import asyncio
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tidegate.runtime.commands.shared import (
    FINDING,
    ConfigOption,
    JsonOption,
    fail,
    lay_out,
    machine_of,
    print_json,
    say,
    tell,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from tidegate.events.config import DatedPrice
    from tidegate.events.snapshots import RateSnapshot
    from tidegate.runtime.machine import Machine
    from tidegate.runtime.pricebook.book import PriceBook
    from tidegate.runtime.pricebook.compare import Comparison, Difference
    from tidegate.runtime.pricebook.entries import ModelPrices

prices_app = typer.Typer(
    no_args_is_help=True, help="List prices: the book, tables from elsewhere, differences."
)

_SHOWN = 40
"""Differences a table shows; `--json` has all."""

BookOption = Annotated[
    Path | None, typer.Option("--prices", help="A price file whose models go before those of the book.")
]
LiteLlmOption = Annotated[
    Path | None, typer.Option("--litellm", help="LiteLLM's table of prices, JSON, also gzipped.")
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv", help="A table with a price a row: model, from, and classes in dollars per million."
    ),
]
GenaiOption = Annotated[
    Path | None, typer.Option("--genai", help="Data of genai-prices, JSON, instead of the built-in book.")
]
ModelsOption = Annotated[
    list[str] | None, typer.Option("--model", help="Only models whose name contains this; may be repeated.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where to write; without it, standard output.")
]
DatedOption = Annotated[
    str | None, typer.Option("--dated", help="The day the table was looked up; today by default.")
]
OnOption = Annotated[
    str | None, typer.Option("--on", help="The day whose prices are meant; today's by default.")
]


@prices_app.command(name="list")
def list_prices(
    wanted: Annotated[str, typer.Argument(metavar="PART", help="Part of the names to list.")] = "",
    prices: BookOption = None,
    on: OnOption = None,
    json: JsonOption = False,
) -> None:
    """Models of the price book with what a million tokens cost today, in dollars."""
    from tidegate.runtime.pricebook.entries import CLASSES, in_force
    from tidegate.runtime.pricebook.price_file import dollars

    at_ns = _moment_ns(on)
    found = [
        (each.id, price)
        for each in _book(prices).entries()
        if wanted.lower() in each.id.lower() and (price := in_force(each.prices, at_ns)) is not None
    ]
    if json:
        print_json([{"model": name, **_plain(price)} for name, price in found])
        return
    table = _table("model", *CLASSES)
    for name, price in found:
        numbers = [getattr(price, each) for each in CLASSES]
        table.add_row(name, *("" if n is None else dollars(n) for n in numbers))
    lay_out(table)


@prices_app.command()
def board(config: ConfigOption = None, json: JsonOption = False) -> None:
    """What a million tokens of each target costs: listed, as billed, and the shadow price of its quota; dollars."""
    import msgspec

    from tidegate.events.errors import TidegateError
    from tidegate.runtime.price_board import board as rows_of
    from tidegate.runtime.pricebook.price_file import dollars

    machine, _ = machine_of(config)
    try:
        rows = rows_of(machine.settings.routing(), asyncio.run(_believed(machine)), machine.clock.wall_ns())
    except TidegateError as error:
        fail(str(error))
    if json:
        print_json([msgspec.to_builtins(row) for row in rows])
        return
    table = _table("target", "part", "listed", "believed", "sd", "basis", "factor", "age s")
    for row in rows:
        money = (row.listed_nanousd, row.believed_nanousd, row.sd_nanousd)
        listed, believed, sd = ("" if n is None else dollars(n) for n in money)
        factor = "" if row.factor is None else f"{row.factor:.3f}"
        age = "" if row.age_s is None else f"{row.age_s:.0f}"
        table.add_row(row.target, row.part, listed, believed, sd, row.basis, factor, age)
    lay_out(table)


async def _believed(machine: "Machine") -> "dict[str, RateSnapshot]":
    """The newest snapshot of every subject in the log. Raises LogUnavailable."""
    from tidegate.events import codec
    from tidegate.events.snapshots import RateSnapshot
    from tidegate.events.topics import SNAPSHOTS
    from tidegate.runtime.price_board import newest

    log = machine.open_log()
    try:
        records, _ = await log.latest(SNAPSHOTS.name)
    finally:
        await log.close()
    found = [codec.decode_data(codec.decode_envelope(each.value)) for each in records.values() if each.value]
    return newest(each for each in found if isinstance(each, RateSnapshot))


@prices_app.command()
def show(
    model: Annotated[
        str, typer.Argument(help="`provider/model`, also by another name the provider gives it.")
    ],
    prices: BookOption = None,
    json: JsonOption = False,
) -> None:
    """Every price of a model with its dates, lengths and service tiers, as a config would write them."""
    from tidegate.events.errors import TidegateError
    from tidegate.runtime.pricebook.price_file import target_lines

    try:
        found = _book(prices).find(model)
    except TidegateError as error:
        fail(str(error))
    if json:
        print_json({"model": found.id, "prices": [_plain(price) for price in found.prices]})
        return
    say(f"# {found.id}")
    say("\n".join(target_lines(found.prices)))


@prices_app.command(name="import")
def import_prices(
    litellm: LiteLlmOption = None,
    csv: CsvOption = None,
    model: ModelsOption = None,
    output: OutputOption = None,
    dated: DatedOption = None,
    json: JsonOption = False,
) -> None:
    """Write a price file (the setting `price_file`) from LiteLLM's table or from a CSV; its models go before the
    book's."""
    from tidegate.runtime.pricebook.price_file import written

    table = _foreign(litellm, csv, dated)
    models = [each for each in table.models if _is_wanted(each.id, model)]
    not_taken = {name: table.not_taken[name] for each in models if (name := each.id) in table.not_taken}
    if not models:
        fail("no such model is in the table; nothing was written", FINDING)
    file = litellm or csv
    text = written(
        models,
        f"Model prices from {file.name if file else ''}, dollars per million.\nThe setting price_file names this file.",
    )
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            fail(f"{output} cannot be written: {error.strerror}")
    if json:
        listed = [each.id for each in models]
        print_json(
            {
                "models": listed,
                "left_out": table.left_out,
                "not_taken": not_taken,
                "output": None if output is None else str(output),
            }
        )
    elif output is None:
        say(text)
    _tell_what_is_missing(table.left_out, not_taken)
    tell(f"{len(models)} models; {len(table.left_out)} entries left out")


def _tell_what_is_missing(left_out: "Mapping[str, str]", not_taken: "Mapping[str, Sequence[str]]") -> None:
    lines = [f"{name}: has prices that are not taken: {', '.join(said)}" for name, said in not_taken.items()]
    lines += [f"{entry}: left out: {why}" for entry, why in left_out.items()]
    for line in lines[:_SHOWN]:
        tell(line)
    if len(lines) > _SHOWN:
        tell(f"… and {len(lines) - _SHOWN} more; --json has all")


@prices_app.command()
def check(
    litellm: LiteLlmOption = None,
    csv: CsvOption = None,
    genai: GenaiOption = None,
    prices: BookOption = None,
    model: ModelsOption = None,
    on: OnOption = None,
    json: JsonOption = False,
) -> None:
    """Compare the book with LiteLLM's table or a CSV, by model and class. Exit code 1 when a price differs."""
    from tidegate.runtime.pricebook.compare import compare

    if genai is not None and prices is not None:
        fail("--genai and --prices name two books; give one")
    book = _book(prices) if genai is None else _genai(genai)
    table = _foreign(litellm, csv, None)
    found = compare(book.get, [each for each in table.models if _is_wanted(each.id, model)], _moment_ns(on))
    if json:
        print_json(_comparison_json(found, table.left_out))
    else:
        _show_comparison(found, book.origin)
    if found.differences:
        raise typer.Exit(FINDING)


def _show_comparison(found: "Comparison", origin: str) -> None:
    from tidegate.runtime.pricebook.price_file import dollars

    table = _table("model", "price of", "tier", "above", "book", "table")
    for each in found.differences[:_SHOWN]:
        sides = ("" if n is None else dollars(n) for n in (each.left_nanousd, each.right_nanousd))
        above = "" if each.above_input_tokens is None else str(each.above_input_tokens)
        table.add_row(each.model, each.name, each.service_tier or "", above, *sides)
    if found.differences:
        lay_out(table)
    more = len(found.differences) - _SHOWN
    if more > 0:
        say(f"… and {more} more; --json has all")
    say(
        f"{origin}: {found.models} models in both; {found.equal} numbers equal, {len(found.differences)} differ, "
        f"{len(found.one_sided)} in one only; {len(found.only_right)} models only in the table"
    )


def _comparison_json(found: "Comparison", left_out: dict[str, str]) -> dict[str, object]:
    def plain(each: "Difference") -> dict[str, object]:
        return {
            "model": each.model,
            "class": each.name,
            "service_tier": each.service_tier,
            "above_input_tokens": each.above_input_tokens,
            "book_nanousd": each.left_nanousd,
            "table_nanousd": each.right_nanousd,
        }

    return {
        "models": found.models,
        "equal": found.equal,
        "differences": [plain(each) for each in found.differences],
        "one_sided": [plain(each) for each in found.one_sided],
        "only_in_table": found.only_right,
        "left_out": left_out,
    }


def _book(prices: Path | None) -> "PriceBook":
    from tidegate.runtime.pricebook.book import built_in
    from tidegate.runtime.pricebook.entries import Unreadable
    from tidegate.runtime.pricebook.price_file import read

    try:
        return built_in(() if prices is None else read(prices))
    except Unreadable as error:
        fail(str(error))


def _genai(file: Path) -> "PriceBook":
    from tidegate.runtime.pricebook.book import read_genai
    from tidegate.runtime.pricebook.entries import Unreadable

    try:
        return read_genai(_content(file), file.name)
    except Unreadable as error:
        fail(str(error))


class _Foreign(NamedTuple):
    """A table of prices from elsewhere: its models, what was left out of it, and what of a model was."""

    models: "list[ModelPrices]"
    left_out: dict[str, str]
    not_taken: "Mapping[str, Sequence[str]]"


def _foreign(litellm: Path | None, csv: Path | None, dated: str | None) -> _Foreign:
    """The one table that is named."""
    import datetime as dt

    from tidegate.runtime.pricebook import csv_table
    from tidegate.runtime.pricebook import litellm as litellm_table
    from tidegate.runtime.pricebook.entries import Unreadable

    if (litellm is None) == (csv is None):
        fail("give one table: --litellm FILE or --csv FILE")
    day = dt.datetime.fromtimestamp(_moment_ns(dated) // 1_000_000_000, dt.UTC).date()
    try:
        if csv is not None:
            rows = csv_table.read(_content(csv).decode("utf-8-sig"), csv.name, day)
            return _Foreign(rows.models, rows.left_out, {})
        assert litellm is not None  # noqa: S101 - for the type checkers
        return _Foreign(*litellm_table.read(_content(litellm), litellm.name, day))
    except (Unreadable, UnicodeDecodeError) as error:
        fail(str(error))


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError) as error:
        fail(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")


def _is_wanted(name: str, parts: list[str] | None) -> bool:
    return not parts or any(part.lower() in name.lower() for part in parts)


def _moment_ns(day: str | None) -> int:
    """Now, or the end of that day, UTC."""
    import datetime as dt

    from tidegate.events.clock import SystemClock

    if day is None:
        return SystemClock().wall_ns()
    try:
        begin = dt.datetime.combine(dt.date.fromisoformat(day), dt.time(), dt.UTC)
    except ValueError:
        fail(f"`{day}` is no day; write it as 2026-11-30")
    return int((begin + dt.timedelta(days=1)).timestamp()) * 1_000_000_000 - 1


def _plain(price: "DatedPrice") -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(price)
    return plain


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
