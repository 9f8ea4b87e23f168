"""Model prices as TOML: what `tidegate prices import` writes and the setting `price_file` reads."""

import datetime as dt
import json
import tomllib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook.entries import PER_MILLION, ModelPrices, Unreadable, numbers_of
from tidegate.runtime.pricebook.price_lists import list_mistakes
from tidegate.runtime.toml_lines import line_map, line_of
from tidegate.runtime.validation import BAD, Mistake, as_far_as_read, build

_NS_PER_S = 1_000_000_000


class PriceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[models]]` with `id` (`provider/model`) and `[[models.prices]]` as those of a target."""

    models: tuple[ModelPrices, ...] = ()


def read(path: Path) -> tuple[ModelPrices, ...]:
    """Models of a price file. Raises Unreadable, also when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Unreadable(f"{path} cannot be read: {reason}") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> tuple[ModelPrices, ...]:
    """Models of a price file. Raises Unreadable with every mistake by line."""
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{name}: not valid TOML: {error}") from error
    mistakes: list[Mistake] = []
    found: PriceFile = build(plain, PriceFile, (), mistakes)
    mistakes += _mistakes(found.models)
    if mistakes:
        lines = line_map(text)
        said = (f"{name}:{line_of(lines, each.path)}: {each.message}" for each in mistakes)
        raise Unreadable("\n".join(said))
    return found.models


@as_far_as_read
def _mistakes(models: Iterable[ModelPrices]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for place, each in enumerate(models):
        if each.id is not BAD:
            if each.id in seen:
                yield Mistake(("models", place), f"`{each.id}` has its prices already")
            seen.add(each.id)
        yield from list_mistakes(("models", place, "prices"), each.id, each.prices)


def written(models: Iterable[ModelPrices], heading: str) -> str:
    """The price file of these models; reads back as the same."""
    lines = [*(f"# {line}" for line in heading.splitlines()), ""]
    for each in models:
        lines += ["[[models]]", f"id = {_text(each.id)}"]
        for price in each.prices:
            lines += ["[[models.prices]]", *_price(price)]
            for variant in price.variants:
                lines += ["[[models.prices.variants]]", *_variant(variant)]
        lines.append("")
    return "\n".join(lines)


def target_lines(price_list: Iterable[DatedPrice]) -> list[str]:
    """`[[targets.prices]]` tables to paste below a target."""
    lines: list[str] = []
    for price in price_list:
        lines += ["[[targets.prices]]", *_price(price)]
        for variant in price.variants:
            lines += ["[[targets.prices.variants]]", *_variant(variant)]
    return lines


def dollars(nanousd: int) -> str:
    """Dollars per million, exact, without zeros behind."""
    text = format(Decimal(nanousd) / PER_MILLION, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def instant(ns: int) -> str:
    """A moment as TOML writes it; whole seconds as date-time, else nanoseconds."""
    if ns % _NS_PER_S:
        return str(ns)
    return dt.datetime.fromtimestamp(ns // _NS_PER_S, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _price(price: DatedPrice) -> list[str]:
    lines = [f"from = {instant(price.from_ns)}"] if price.from_ns else []
    if price.source is not None:
        lines.append(f"source = {_text(price.source)}")
    return lines + _numbers(price)


def _variant(variant: VariantPrice) -> list[str]:
    lines: list[str] = []
    if variant.service_tier is not None:
        lines.append(f"service_tier = {_text(variant.service_tier)}")
    if variant.above_input_tokens is not None:
        lines.append(f"above_input_tokens = {variant.above_input_tokens}")
    return lines + _numbers(variant)


def _numbers(price: Any) -> list[str]:
    return [f'{name} = "{dollars(value)}"' for name, value in numbers_of(price).items()]


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
