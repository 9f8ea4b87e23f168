"""Writes the built-in price book from the pinned `genai-prices` package: `python tests/support/price_book_data.py`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import json
import sys
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = (
    Path(__file__).resolve().parents[2] / "services/runtime/tidegate/runtime/pricebook/genai_prices.json.gz"
)
RELEASED = {"0.2.3": "2026-11-10"}
"""Day of each release that was taken over, as the package index tells it; no price of the package has one itself."""
KEPT = ("id", "match", "prices", "price_variants")


def plain(value: Any) -> Any:
    """A value of the package as JSON: numbers as decimal text, `or_` as `or`, nothing that is None."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    fields = (
        {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if dataclasses.is_dataclass(value)
        else vars(value)
        if hasattr(value, "__dict__")
        else None
    )
    if fields is None:
        return value
    return {name.rstrip("_"): plain(one) for name, one in fields.items() if one is not None}


def book() -> dict[str, Any]:
    """The book as it stands in the file."""
    from genai_prices.data import providers

    release = version("genai-prices")
    return {
        "package": "genai-prices",
        "version": release,
        "released": RELEASED[release],
        "providers": [
            {
                "id": provider.id,
                "models": [
                    {key: plain(value) for key in KEPT if (value := getattr(model, key))}
                    for model in provider.models
                ],
            }
            for provider in providers
        ],
    }


def encoded() -> bytes:
    """Bytes of the file: the same for the same package, wherever they are made."""
    text = json.dumps(book(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), 9, mtime=0)


if __name__ == "__main__":
    FILE.write_bytes(encoded())
    sys.stdout.write(f"{FILE.name}: {FILE.stat().st_size} bytes\n")
