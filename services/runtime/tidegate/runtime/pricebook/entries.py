"""A model's list prices as a price book holds them, and integers out of decimal dollars. Pure."""

import datetime as dt
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec

from tidegate.events.config import DatedPrice, VariantPrice

CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
PARTS = (
    "reasoning", "input_audio", "input_image", "cache_read_audio", "output_audio", "output_image",
    "web_search", "request",
)  # fmt: skip
NUMBERS = (*CLASSES, *PARTS)
"""Every number of a price, in the order in which they are written."""

PER_MILLION = 1_000_000_000
"""Nano-dollars per million tokens of one dollar per million."""
PER_THOUSAND = 1_000 * PER_MILLION
"""Nano-dollars per million uses of one dollar per thousand."""
PER_TOKEN = 1_000_000 * PER_MILLION
"""Nano-dollars per million tokens of one dollar per token."""


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model with its dated prices; the id is `provider/model`."""

    id: str
    prices: tuple[DatedPrice, ...]

    @property
    def provider(self) -> str:
        """What stands before the first slash."""
        return self.id.partition("/")[0]

    @property
    def model(self) -> str:
        """What stands behind the first slash."""
        return self.id.partition("/")[2]


MAX_PRICE_NANOUSD = 10**15
"""As much as a config takes: a million dollars per million tokens."""


class Unreadable(ValueError):
    """A table of prices that is none; the message says where and why."""


def nanousd(amount: Any, unit: int) -> int:
    """`amount` (decimal text, int or Decimal) × `unit` nano-dollars, half up: tables hold noise of binary fractions
    behind the digits that are listed. Raises Unreadable for what is no amount."""
    if isinstance(amount, bool | float) or not isinstance(amount, int | str | Decimal):
        raise Unreadable(f"`{amount}` is no price")
    try:
        value = Decimal(amount)
    except ArithmeticError as error:
        raise Unreadable(f"`{amount}` is no price") from error
    if not value.is_finite() or value < 0 or value.adjusted() > 9:
        raise Unreadable(f"`{amount}` is no price")
    found = int((value * unit).to_integral_value(ROUND_HALF_UP))
    if found > MAX_PRICE_NANOUSD:
        raise Unreadable(f"`{amount}` is no price: more than a million dollars per million")
    return found


_SOURCE_CHARS = 256
_KEPT = 24


def provenance(origin: str, day: dt.date | None) -> str:
    """Where numbers come from and when they were looked up, as the `source` of a price."""
    said = "date unknown" if day is None else f"looked up {day.isoformat()}"
    plain = "".join(sign if sign.isprintable() else "?" for sign in origin[: _SOURCE_CHARS - _KEPT])
    return f"{plain}, {said}"


def checked_id(provider: str, model: str) -> str:
    """`provider/model`, or the model alone. Raises Unreadable for what no config could name."""
    name = f"{provider}/{model}" if provider else model
    if not name.isprintable():
        raise Unreadable("a name with letters that cannot be printed")
    return name


def numbers_of(price: DatedPrice | VariantPrice) -> dict[str, int]:
    """The numbers that a price has, by name."""
    return {name: value for name in NUMBERS if (value := getattr(price, name)) is not None}


def variant_key(variant: VariantPrice) -> tuple[str | None, int | None]:
    """What a variant holds for: service tier, and input tokens above which."""
    return variant.service_tier, variant.above_input_tokens


def in_force(prices: tuple[DatedPrice, ...], at_ns: int) -> DatedPrice | None:
    """The last price whose date has come; None when there is none yet."""
    found = None
    for price in prices:
        if price.from_ns <= at_ns:
            found = price
    return found
