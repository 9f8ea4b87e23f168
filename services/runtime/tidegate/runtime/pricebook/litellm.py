"""LiteLLM's table of prices (`model_prices_and_context_window.json`) → model prices. Pure."""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook.entries import (
    NUMBERS,
    PER_TOKEN,
    ModelPrices,
    Unreadable,
    checked_id,
    nanousd,
    provenance,
)

_NAMES = {
    "input_cost_per_token": "input_uncached",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write_5m",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "input_audio",
    "input_cost_per_image_token": "input_image",
    "cache_read_input_audio_token_cost": "cache_read_audio",
    "output_cost_per_audio_token": "output_audio",
    "output_cost_per_image_token": "output_image",
    "input_cost_per_request": "request",
}
_TIERS = {"batches": "batch", "flex": "flex", "priority": "priority", "fast": "fast"}
_FIELD = re.compile(
    rf"({'|'.join(sorted(_NAMES, key=len, reverse=True))})(?:_above_(\d+)k_tokens)?(?:_({'|'.join(_TIERS)}))?"
)
_SEARCH, _USUAL_SEARCH = "search_context_cost_per_query", "search_context_size_medium"
_ALWAYS_SEARCHES = re.compile(r"(?:^|/)gpt-[^/]*-search-")
"""Chat models that search before every answer, and whose answers do not tell of it: a fee for each request."""
_MODES = frozenset({"chat", "completion", "responses", "embedding"})
_PROVIDERS = {
    "azure_ai": "azure", "azure_text": "azure", "bedrock": "aws", "bedrock_converse": "aws",
    "cohere_chat": "cohere", "fireworks_ai": "fireworks", "gemini": "google", "github_copilot": "github-copilot",
    "moonshot": "moonshotai", "text-completion-openai": "openai", "together_ai": "together",
    "voyage": "voyageai", "xai": "x-ai",
}  # fmt: skip
"""Its names of providers that the price book calls otherwise."""

_Place = tuple[str | None, int | None]


class LiteLlmTable(NamedTuple):
    """Models by our ids, why the others were left out, and by model the prices that a price here can not say."""

    models: list[ModelPrices]
    left_out: dict[str, str]
    not_taken: dict[str, tuple[str, ...]]


def read(text: bytes, source: str, day: dt.date | None = None) -> LiteLlmTable:
    """The models that are billed by the token. `day`: when the table was looked up. Raises Unreadable when it is no
    such table, or names anything twice."""
    try:
        table = json.loads(text, parse_float=Decimal, object_pairs_hook=_told_once)
    except Unreadable as error:
        raise Unreadable(f"{source}: {error}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:  # such as an exponent beyond all decimals
        raise Unreadable(f"{source}: not valid JSON: {error}") from error
    if not isinstance(table, dict):
        raise Unreadable(f"{source}: not a table of models")
    models: dict[str, ModelPrices] = {}
    left_out: dict[str, str] = {}
    not_taken: dict[str, tuple[str, ...]] = {}
    for key, fields in table.items():
        try:
            found = _model(key, fields, provenance(f"{source} {key}", day))
            names = tuple(_not_taken(fields))
        except Unreadable as error:
            left_out[key] = str(error)
            continue
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            left_out[key] = f"cannot be read: {type(error).__name__}"
            continue
        if found.id in models:
            left_out[key] = f"another entry is {found.id} already"
            continue
        models[found.id] = found
        if names:
            not_taken[found.id] = names
    return LiteLlmTable(list(models.values()), left_out, not_taken)


def _told_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(pairs)
    if len(told) < len(pairs):
        names = [name for name, _ in pairs]
        raise Unreadable(f"`{next(name for name in names if names.count(name) > 1)}` stands there twice")
    return told


def _not_taken(fields: Mapping[str, Any]) -> Iterator[str]:
    """Prices of an entry that were not read."""
    for name, value in fields.items():
        if name == _SEARCH:
            medium = value.get(_USUAL_SEARCH) if isinstance(value, Mapping) else None
            sizes = value.items() if isinstance(value, Mapping) else ()
            yield from (f"{name}.{size}" for size, price in sizes if price and price != medium)
        elif name == "tiered_pricing":
            spans = {inner for span in value or () for inner in span}
            yield from (f"{name}.{inner}" for inner in sorted(spans - {"range", *_NAMES}))
        elif ("cost" in name or "pric" in name) and value and _FIELD.fullmatch(name) is None:
            yield name


def _model(key: str, fields: Any, said: str) -> ModelPrices:
    if not isinstance(fields, Mapping) or fields.get("mode") not in _MODES:
        raise Unreadable("not billed by the token")
    numbers = _numbers(fields, always_searches=_ALWAYS_SEARCHES.search(key) is not None)
    base = numbers.pop((None, None), {})
    if fields.get("mode") == "embedding":
        base.setdefault("output", 0)
    missing = [name for name in ("input_uncached", "output") if name not in base]
    if missing:
        raise Unreadable(f"no price for {' and '.join(missing)}")
    variants = tuple(
        VariantPrice(service_tier=tier, above_input_tokens=mark, **_ordered(listed))
        for (tier, mark), listed in sorted(numbers.items(), key=lambda item: _rank(item[0]))
    )
    price = DatedPrice(variants=variants, source=said, **_ordered(base))
    return ModelPrices(id=_id(key, str(fields.get("litellm_provider") or "unknown")), prices=(price,))


def _numbers(fields: Mapping[str, Any], *, always_searches: bool) -> dict[_Place, dict[str, int]]:
    found: dict[_Place, dict[str, int]] = {}
    for name, value in fields.items():
        known = _FIELD.fullmatch(name)
        if known is not None and value is not None:
            ours, mark, tier = known.groups()
            place = (_TIERS[tier] if tier else None, int(mark) * 1_000 if mark else None)
            found.setdefault(place, {})[_NAMES[ours]] = nanousd(value, PER_TOKEN)
    for span in fields.get("tiered_pricing") or ():
        begin = int(span["range"][0]) if "range" in span else 0
        for name, value in span.items():
            if name in _NAMES:
                found.setdefault((None, begin or None), {})[_NAMES[name]] = nanousd(value, PER_TOKEN)
    query = fields.get(_SEARCH)
    if isinstance(query, Mapping) and _USUAL_SEARCH in query:
        search = nanousd(query[_USUAL_SEARCH], PER_TOKEN)
        found.setdefault((None, None), {})["request" if always_searches else "web_search"] = search
    return found


def _rank(place: _Place) -> tuple[str, int]:
    return place[0] or "", place[1] or 0


def _ordered(numbers: Mapping[str, int]) -> dict[str, Any]:
    return {name: numbers[name] for name in NUMBERS if name in numbers}


def _id(key: str, provider: str) -> str:
    head, slash, rest = key.partition("/")
    model = (
        rest
        if slash and (head == provider or head in _PROVIDERS or head == _PROVIDERS.get(provider))
        else key
    )
    return checked_id(_PROVIDERS.get(provider, provider), model)
