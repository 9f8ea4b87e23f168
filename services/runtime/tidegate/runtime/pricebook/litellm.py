"""LiteLLM's table of prices (`model_prices_and_context_window.json`) → model prices. Pure."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook.entries import NUMBERS, PER_TOKEN, ModelPrices, Unreadable, nanousd

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
    """Models by our ids, and why the others were left out."""

    models: list[ModelPrices]
    left_out: dict[str, str]


def read(text: bytes, source: str) -> LiteLlmTable:
    """The models that are billed by the token. Raises Unreadable when it is no such table."""
    try:
        table = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise Unreadable(f"{source}: not valid JSON: {error}") from error
    if not isinstance(table, dict):
        raise Unreadable(f"{source}: not a table of models")
    models: dict[str, ModelPrices] = {}
    left_out: dict[str, str] = {}
    for key, fields in table.items():
        try:
            found = _model(key, fields, source)
        except Unreadable as error:
            left_out[key] = str(error)
            continue
        if found.id in models:
            left_out[key] = f"another entry is {found.id} already"
        else:
            models[found.id] = found
    return LiteLlmTable(list(models.values()), left_out)


def _model(key: str, fields: Any, source: str) -> ModelPrices:
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
    price = DatedPrice(variants=variants, source=f"{source} {key}"[:256], **_ordered(base))
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
    query = fields.get("search_context_cost_per_query")
    if isinstance(query, Mapping) and "search_context_size_medium" in query:
        search = nanousd(query["search_context_size_medium"], PER_TOKEN)
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
    return f"{_PROVIDERS.get(provider, provider)}/{model}"
