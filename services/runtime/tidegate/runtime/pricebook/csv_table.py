"""Prices from a CSV file, one a row, in dollars per million → model prices. Pure."""

import csv
import datetime as dt
import io
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook.entries import (
    NUMBERS,
    PER_MILLION,
    PER_THOUSAND,
    ModelPrices,
    Unreadable,
    checked_id,
    nanousd,
    provenance,
    variant_key,
)

_SAME = {
    "input_usd_per_mtok": "input_uncached",
    "cache_read_usd_per_mtok": "cache_read",
    "cache_write_usd_per_mtok": "cache_write_5m",
    "output_usd_per_mtok": "output",
    "committed_at": "from",
    "snapshot_date": "from",
}
"""Other names that such tables use for a column."""
_PER_THOUSAND = {"usd_per_1k_requests": "request"}
_PLACE = ("service_tier", "above_input_tokens")
_KNOWN = frozenset({"provider", "model", "from", "source", *_PLACE, *NUMBERS, *_PER_THOUSAND})
_BESIDE = frozenset({"comment", "kind", "max_input_tokens", "max_output_tokens", "note", "notes"})
"""Columns that say nothing of what is charged."""
_USUAL = (None, None)
_LAST_S = int(dt.datetime(2200, 1, 1, tzinfo=dt.UTC).timestamp())

_Place = tuple[str | None, int | None]


class CsvTable(NamedTuple):
    """Models, and by row why others were left out."""

    models: list[ModelPrices]
    left_out: dict[str, str]


class _Row(NamedTuple):
    where: str
    said: str | None
    """Its own word on where it is from."""
    numbers: dict[str, int]


class _Rows:
    """Rows by model, date, service tier and length."""

    def __init__(self, source: str, left_out: dict[str, str]) -> None:
        self._source, self._left_out = source, left_out
        self._found: dict[str, dict[int, dict[_Place, _Row]]] = {}

    def add(self, cells: Mapping[str, str], where: str) -> None:
        """Raises Unreadable where another row says the same; what is no price is noted as left out."""
        try:
            name, from_ns, place = _name(cells), _instant(cells.get("from", "")), _place(cells)
            numbers = _numbers(cells)
            if place == _USUAL and not {"input_uncached", "output"} <= numbers.keys():
                raise Unreadable("no price for input_uncached and output")
            if not numbers:
                raise Unreadable("no price")
        except ValueError as error:
            self._left_out[where] = str(error)
            return
        places = self._found.setdefault(name, {}).setdefault(from_ns, {})
        if place in places:
            raise Unreadable(
                f"{where}: `{name}` has a price for the same date, service tier and length in {places[place].where}"
            )
        places[place] = _Row(where, cells.get("source"), numbers)

    def models(self, day: dt.date | None) -> Iterator[ModelPrices]:
        """With their prices in the order of their dates."""
        for name, dates in self._found.items():
            prices = tuple(
                self._price(from_ns, places, day)
                for from_ns, places in sorted(dates.items())
                if self._has_usual(name, places)
            )
            if prices:
                yield ModelPrices(id=name, prices=prices)

    def _has_usual(self, name: str, places: Mapping[_Place, _Row]) -> bool:
        """Whether there is a price for the others to vary."""
        if _USUAL not in places:
            for row in places.values():
                self._left_out[row.where] = (
                    f"`{name}` has no row of the same date without service_tier and above_input_tokens"
                )
        return _USUAL in places

    def _price(self, from_ns: int, places: Mapping[_Place, _Row], day: dt.date | None) -> DatedPrice:
        variants = [
            VariantPrice(service_tier=tier, above_input_tokens=mark, **row.numbers)
            for (tier, mark), row in places.items()
            if (tier, mark) != _USUAL
        ]
        said = dict.fromkeys(row.said or self._source for row in places.values())
        return DatedPrice(
            from_ns=from_ns,
            source=provenance(", ".join(said), day),
            variants=tuple(sorted(variants, key=lambda each: (each.service_tier or "", each.above_input_tokens or 0))),
            **places[_USUAL].numbers,
        )  # fmt: skip


def read(text: str, source: str, day: dt.date | None = None) -> CsvTable:
    """Models with their prices in the order of their dates. `day`: when the table was looked up.

    Columns: `model` (`provider/model`, or with a column `provider`), `from` (a date), `service_tier` and
    `above_input_tokens` for what differs from the row of the same model and date without them, the names of classes,
    and `source`. An empty cell is no price. Raises Unreadable when columns are missing, unknown or doubled, for cells
    without a column, and for two rows that say the same.
    """
    rows = csv.DictReader(io.StringIO(text, newline=""))
    left_out: dict[str, str] = {}
    found = _Rows(source, left_out)
    try:
        columns = _columns(rows.fieldnames or (), source)
        for row in rows:
            where = f"{source}:{rows.line_num}"
            if row.get(None) is not None:  # pyright: ignore[reportArgumentType, reportCallIssue]
                raise Unreadable(f"{where}: more cells than columns")
            found.add({columns[name]: value.strip() for name, value in row.items() if value}, where)
    except csv.Error as error:
        raise Unreadable(f"{source}:{rows.line_num + 1}: {error}") from error
    return CsvTable(list(found.models(day)), left_out)


def _columns(names: Collection[str], source: str) -> dict[str, str]:
    """Our names by the file's."""
    columns: dict[str, str] = {name: _SAME.get(name.strip(), name.strip()) for name in names}
    told = list(columns.values())
    known = f"known: {', '.join(sorted(_KNOWN | set(_SAME) | _BESIDE))}"
    for needed in ("model", "input_uncached", "output"):
        if needed not in told:
            raise Unreadable(f"{source}: no column `{needed}`; {known}")
    for name in names:
        if columns[name] not in _KNOWN | _BESIDE:
            raise Unreadable(f"{source}:1: unknown column `{name}`; {known}")
        if [columns[each] for each in names].count(columns[name]) > 1:
            raise Unreadable(f"{source}:1: column `{name}` says what another says already")
    return columns


def _name(cells: Mapping[str, str]) -> str:
    model, provider = cells.get("model", ""), cells.get("provider", "")
    if not model:
        raise Unreadable("a row without `model`")
    return checked_id(provider, model)


def _numbers(cells: Mapping[str, str]) -> dict[str, int]:
    numbers = {name: nanousd(cells[name], PER_MILLION) for name in NUMBERS if cells.get(name)}
    for name, ours in _PER_THOUSAND.items():
        if cells.get(name):
            if ours in numbers:
                raise Unreadable(f"`{name}` and `{ours}` say the same")
            numbers[ours] = nanousd(cells[name], PER_THOUSAND)
    return numbers


def _place(cells: Mapping[str, str]) -> _Place:
    """What a row holds for. Raises ValueError."""
    told = {name: cells[name] for name in _PLACE if cells.get(name)}
    return variant_key(msgspec.convert(told, VariantPrice, strict=False))


def _instant(text: str) -> int:
    """A date, a month or a moment; without one, as old as can be."""
    if not text:
        return 0
    moment = dt.datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-11") else text)
    instant_s = int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp())
    if not 0 <= instant_s < _LAST_S:
        raise Unreadable(f"`{text}` is not between 1970 and 2200")
    return instant_s * 1_000_000_000
