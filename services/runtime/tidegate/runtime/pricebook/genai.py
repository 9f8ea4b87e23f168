"""The data of the `genai-prices` package, as it stands in JSON, → model prices. Pure."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook.entries import (
    NUMBERS,
    PER_MILLION,
    PER_THOUSAND,
    ModelPrices,
    Unreadable,
    nanousd,
)

_NAMES: dict[str, tuple[str, int]] = {
    "input_mtok": ("input_uncached", PER_MILLION),
    "cache_read_mtok": ("cache_read", PER_MILLION),
    "cache_write_mtok": ("cache_write_5m", PER_MILLION),
    "cache_write_5m_mtok": ("cache_write_5m", PER_MILLION),
    "cache_write_1h_mtok": ("cache_write_1h", PER_MILLION),
    "output_mtok": ("output", PER_MILLION),
    "output_reasoning_mtok": ("reasoning", PER_MILLION),
    "input_audio_mtok": ("input_audio", PER_MILLION),
    "input_image_mtok": ("input_image", PER_MILLION),
    "cache_audio_read_mtok": ("cache_read_audio", PER_MILLION),
    "output_audio_mtok": ("output_audio", PER_MILLION),
    "output_image_mtok": ("output_image", PER_MILLION),
    "web_searches_kcount": ("web_search", PER_THOUSAND),
    "requests_kcount": ("request", PER_THOUSAND),
}
"""Prices of hours, pages and pictures by the piece are left out: no dialect of ours reports their counts."""
SEARCH_FEES = {
    "openai/gpt-4o-search-preview": 25 * PER_THOUSAND,
    "openai/gpt-5-search-api": 10 * PER_THOUSAND,
}
"""Chat models that search before every answer and do not tell of it: a fee for each request. The data leave it out."""
_FEE_SOURCE = "; search fee: OpenAI's prices of built-in tools, 2026-03-12"
_TIERS = {("processing", "batch"): "batch", ("speed", "fast"): "fast"}

Numbers = dict[str, int]


class _Table(NamedTuple):
    """Base numbers, and those above each mark of input tokens."""

    base: Numbers
    above: dict[int, Numbers]


def model_prices(provider: str, model: Mapping[str, Any], source: str) -> ModelPrices | None:
    """Prices of one model of the data; None when it has none per token. Raises Unreadable."""
    dated, hours = _dated(model.get("prices"))
    variants = [
        (tier, _day(variant.get("constraint")), variant["prices"])
        for variant in model.get("price_variants") or ()
        if (tier := _tier(variant["when"])) is not None
    ]
    first = next(iter(dated.values()))
    if "input_mtok" not in first and "output_mtok" not in first:
        return None
    days = sorted({*dated, *(day for _, day, _ in variants)})
    prices = []
    for day in days:
        table = _table(dated[max(since for since in dated if since <= day)], hours)
        in_force = [(tier, listed) for tier, since, listed in variants if since <= day]
        prices.append(_price(day, table, in_force, f"{source}{' (dearest hour)' if hours else ''}"))
    return _with_fee(ModelPrices(id=f"{provider}/{model['id']}", prices=tuple(prices)))


def _with_fee(model: ModelPrices) -> ModelPrices:
    fee = SEARCH_FEES.get(model.id)
    if fee is None:
        return model
    return msgspec.structs.replace(
        model,
        prices=tuple(
            msgspec.structs.replace(price, request=fee, source=(price.source or "") + _FEE_SOURCE)
            if price.request is None
            else price
            for price in model.prices
        ),
    )


def _dated(prices: Any) -> tuple[dict[int, Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Prices by the day they began, and those of some hours of the day."""
    if isinstance(prices, dict):
        return {0: prices}, []
    if not isinstance(prices, list) or not prices:
        raise Unreadable("a model without prices")
    dated: dict[int, Mapping[str, Any]] = {0: prices[0]["prices"]}
    hours: list[Mapping[str, Any]] = []
    for each in prices:
        constraint = each.get("constraint") or {}
        if "start_time" in constraint:
            hours.append(each["prices"])
        else:
            dated[_day(constraint)] = each["prices"]
    return dated, hours


def _day(constraint: Any) -> int:
    """First instant of a start date, UTC; 0 where there is none."""
    if not constraint or "start_date" not in constraint:
        return 0
    day = dt.date.fromisoformat(constraint["start_date"])
    return int(dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC).timestamp()) * 1_000_000_000


def _tier(when: Mapping[str, str]) -> str | None:
    """Our service tier of a variant; None for what is no tier, or the usual one."""
    if len(when) != 1:
        return None
    ((kind, name),) = when.items()
    if kind == "service_tier":
        return None if name == "default" else name
    return _TIERS.get((kind, name))


def _table(listed: Mapping[str, Any], hours: Sequence[Mapping[str, Any]]) -> _Table:
    """Numbers of one price; where hours differ, the dearest of each, so that nothing is charged too little."""
    table = _read(listed)
    for other in hours:
        base = _read(other).base
        table.base.update({name: max(n, table.base.get(name, n)) for name, n in base.items()})
    return table


def _read(listed: Mapping[str, Any]) -> _Table:
    table = _Table({}, {})
    for name, mark, value in _flat(listed):
        into = table.base if mark is None else table.above.setdefault(mark, {})
        if name in _NAMES:
            ours, unit = _NAMES[name]
            into[ours] = nanousd(value, unit)
    return table


def _flat(listed: Mapping[str, Any]) -> Iterator[tuple[str, int | None, Any]]:
    """(name, mark or None, price); `cache_write_5m_mtok` after `cache_write_mtok`, which it goes before."""
    for name, value in sorted(listed.items(), reverse=True):
        if isinstance(value, dict):
            yield name, None, value["base"]
            for tier in value["tiers"]:
                yield name, tier["start"], tier["price"]
        elif value is not None:
            yield name, None, value


def _price(
    day: int, table: _Table, tiers: Sequence[tuple[str, Mapping[str, Any]]], source: str
) -> DatedPrice:
    variants = [VariantPrice(above_input_tokens=mark, **_of(n)) for mark, n in sorted(table.above.items())]
    by_tier: dict[str, dict[str, Any]] = {}
    for tier, listed in tiers:
        merged = by_tier.setdefault(tier, {})
        merged.update({name: value for name, value in listed.items() if name not in merged})
    for tier, listed in by_tier.items():
        read = _read(listed)
        if read.base:
            variants.append(VariantPrice(service_tier=tier, **_of(read.base)))
        variants += [
            VariantPrice(service_tier=tier, above_input_tokens=mark, **_of(numbers))
            for mark, numbers in sorted(read.above.items())
        ]
    base = {"output": 0, **table.base}
    return DatedPrice(from_ns=day, variants=tuple(variants), source=source, **_of(base))


def _of(numbers: Numbers) -> dict[str, Any]:
    return {name: numbers[name] for name in NUMBERS if name in numbers}
