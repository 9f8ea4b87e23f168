"""Prices from a CSV file, one dated price a row, in dollars per million → model prices. Pure."""

import csv
import datetime as dt
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.events.config import DatedPrice
from tidegate.runtime.pricebook.entries import (
    NUMBERS,
    PER_MILLION,
    PER_THOUSAND,
    ModelPrices,
    Unreadable,
    nanousd,
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
_KNOWN = frozenset({"provider", "model", "from", "source", *NUMBERS, *_PER_THOUSAND})


class CsvTable(NamedTuple):
    """Models, and by row why others were left out."""

    models: list[ModelPrices]
    left_out: dict[str, str]


def read(text: str, source: str) -> CsvTable:
    """Models with their prices in the order of their dates.

    Columns: `model` (`provider/model`, or with a column `provider`), `from` (a date), the names of classes, and
    `source`; others are ignored. An empty cell is no price. Raises Unreadable when columns are missing.
    """
    rows = csv.DictReader(io.StringIO(text))
    columns = {name: _SAME.get(name, name) for name in rows.fieldnames or ()}
    for needed in ("model", "input_uncached", "output"):
        if needed not in columns.values():
            raise Unreadable(
                f"{source}: no column `{needed}`; known: {', '.join(sorted(_KNOWN | set(_SAME)))}"
            )
    dated: dict[str, dict[int, DatedPrice]] = {}
    left_out: dict[str, str] = {}
    for row in rows:
        cells = {columns[name]: value.strip() for name, value in row.items() if name in columns and value}
        try:
            name, price = _row(cells, source)
        except ValueError as error:
            left_out[f"{source}:{rows.line_num}"] = str(error)
            continue
        if price.input_uncached is None or price.output is None:
            left_out[f"{source}:{rows.line_num}"] = "no price for input_uncached and output"
        else:
            dated.setdefault(name, {})[price.from_ns] = price
    models = [
        ModelPrices(id=name, prices=tuple(prices[day] for day in sorted(prices)))
        for name, prices in dated.items()
    ]
    return CsvTable(models, left_out)


def _row(cells: Mapping[str, str], source: str) -> tuple[str, DatedPrice]:
    model, provider = cells.get("model", ""), cells.get("provider", "")
    if not model:
        raise Unreadable("a row without `model`")
    numbers: dict[str, Any] = {name: nanousd(cells[name], PER_MILLION) for name in NUMBERS if cells.get(name)}
    for name, ours in _PER_THOUSAND.items():
        if cells.get(name):
            numbers[ours] = nanousd(cells[name], PER_THOUSAND)
    said = cells.get("source") or source
    return f"{provider}/{model}" if provider else model, DatedPrice(
        from_ns=_instant(cells.get("from", "")), source=said[:256], **numbers
    )


def _instant(text: str) -> int:
    """A date, a month or a moment; without one, as old as can be."""
    if not text:
        return 0
    moment = dt.datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-11") else text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()) * 1_000_000_000
