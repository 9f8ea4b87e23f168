"""Targets that name a model of the price book get its prices, with what the operator writes before them. Pure."""

from collections.abc import Callable

import msgspec

from tidegate.events.config import DatedPrice, Settings, Target, VariantPrice
from tidegate.runtime.pricebook.book import PriceBook, UnknownModel
from tidegate.runtime.pricebook.entries import NUMBERS, in_force, numbers_of, provenance, variant_key
from tidegate.runtime.pricebook.price_lists import list_mistakes
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import BAD, Mistake, NotRead

OPERATOR = "operator"
_SOURCE_CHARS = 256


def resolved(settings: Settings, book: Callable[[], PriceBook] | None, mistakes: list[Mistake]) -> Settings:
    """The settings with explicit prices everywhere; unknown models are appended to `mistakes`.

    `book` is asked for once, and only where a target names a model; None for one that could not be read: then and
    for an unknown model the prices are not known either, and are BAD.
    """
    if settings.targets is BAD or all(target.price_book is None for target in settings.targets):
        return settings
    found = None if book is None else book()
    targets = tuple(
        target if target.price_book is None else _priced(("targets", place), target, found, mistakes)
        for place, target in enumerate(settings.targets)
    )
    return msgspec.structs.replace(settings, targets=targets)


def _priced(path: Path, target: Target, book: PriceBook | None, mistakes: list[Mistake]) -> Target:
    mistakes += list_mistakes((*path, "prices"), target.id, target.prices)
    prices: tuple[DatedPrice, ...] = BAD
    try:
        if book is not None and target.price_book:
            prices = overlaid(book.find(target.price_book).prices, target.prices)
    except UnknownModel as error:
        mistakes.append(Mistake((*path, "price_book"), str(error)))
    except NotRead:
        pass
    return target if target is BAD else msgspec.structs.replace(target, prices=prices)


def with_source(settings: Settings) -> Settings:
    """The settings with a source for what their writer left without one: the writer. The day is known of prices that
    say from when on they hold."""
    targets = tuple(
        msgspec.structs.replace(target, prices=tuple(map(_with_source, target.prices)))
        for target in settings.targets
    )
    return msgspec.structs.replace(settings, targets=targets)


def _with_source(price: DatedPrice) -> DatedPrice:
    if price.source is not None:
        return price
    said = OPERATOR if price.from_ns else provenance(OPERATOR, None)
    return msgspec.structs.replace(price, source=said)


def overlaid(listed: tuple[DatedPrice, ...], own: tuple[DatedPrice, ...]) -> tuple[DatedPrice, ...]:
    """Prices by date: from each own date on, what is written there goes before what is listed.

    A number that the operator writes holds for every length and tier, unless their own variants say more.
    """
    if not own:
        return listed
    days = sorted({price.from_ns for price in (*listed, *own)})
    return tuple(_both(day, in_force(listed, day), in_force(own, day)) for day in days)


def _both(day: int, listed: DatedPrice | None, own: DatedPrice | None) -> DatedPrice:
    if listed is None or own is None:
        only = listed or own or DatedPrice()
        return msgspec.structs.replace(only, from_ns=day)
    written = numbers_of(own)
    variants = {variant_key(v): _without(v, written) for v in listed.variants}
    for variant in own.variants:
        key = variant_key(variant)
        if key == (None, None):  # told as a mistake
            continue
        below = variants.get(key)
        variants[key] = variant if below is None else _over(variant, below)
    said = ", ".join(filter(None, (own.source or OPERATOR, f"else {listed.source}")))
    return DatedPrice(
        from_ns=day,
        variants=tuple(v for v in variants.values() if numbers_of(v)),
        source=said[:_SOURCE_CHARS],
        **{**numbers_of(listed), **written},
    )


def _without(variant: VariantPrice, written: dict[str, int]) -> VariantPrice:
    return msgspec.structs.replace(variant, **dict.fromkeys(set(written) & set(NUMBERS)))


def _over(variant: VariantPrice, below: VariantPrice) -> VariantPrice:
    return msgspec.structs.replace(below, **numbers_of(variant))
