"""Usage bodies of real providers, read as an outside party reads them: every vendor whose dialect we speak."""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any

import pytest

from support.shared_data import shared_data
from tidegate.events.money import Tokens
from tidegate.gateway.usage import from_answer
from tidegate.gateway.usage_rules import DECLARED, Wire, rules_for

GOLDEN = "data/prices/genai_prices_usage_golden.json.gz"
OTHER_DIALECTS = {
    ("google", "default"): "generateContent",
    ("aws", "default"): "Converse",
    ("cohere", "default"): "its own chat",
    ("cohere", "tokens"): "its own chat",
    ("cohere", "embeddings"): "its own embeddings",
}
"""What the golden file holds besides: dialects that no target speaks."""
OWN_NAMES = {("anthropic", "default"): "anthropic", ("minimax", "default"): "anthropic"}
FLAVORS: dict[str, Wire] = {
    "chat": "openai", "default": "openai", "embeddings": "embeddings", "responses": "responses",
    "anthropic": "anthropic",
}  # fmt: skip
VENDORS = {"x-ai/default": "x-ai-sdk"}
"""x-ai reports two shapes of chat usage; the one of its SDK has a name of its own."""


@functools.cache
def cases() -> dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, int]]]]:
    """By vendor and flavor: answer, and the counts expected of it."""
    found: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, int]]]] = {}
    for record in json.loads(gzip.decompress(shared_data(GOLDEN).read_bytes())):
        for reading in record["extracted"]:
            for extractor in reading["extractors"]:
                vendor = extractor["provider_id"], extractor["api_flavor"]
                found.setdefault(vendor, []).append((record["body"], reading["usage"]))
    return found


def counts(tokens: Tokens, wire: Wire, vendor: str) -> dict[str, int]:
    """Our classes as the golden file names them, zeros left out as it leaves them out."""
    written = (tokens.cache_write_5m or 0) + (tokens.cache_write_1h or 0)
    split = (wire, vendor) == ("anthropic", "anthropic")
    named = {
        "input_tokens": tokens.known_input(),
        "cache_read_tokens": tokens.cache_read,
        "cache_write_tokens": written,
        "cache_write_5m_tokens": tokens.cache_write_5m if split else None,
        "cache_write_1h_tokens": tokens.cache_write_1h if split else None,
        "output_tokens": tokens.output,
        "output_reasoning_tokens": tokens.reasoning,
        "input_audio_tokens": (tokens.input_audio or 0) + (tokens.cache_read_audio or 0),
        "output_audio_tokens": tokens.output_audio,
        "web_searches": tokens.web_searches,
    }
    return {name: count for name, count in named.items() if count}


def test_every_count_of_every_vendor_whose_dialect_we_speak_is_read_exactly() -> None:
    wrong: list[str] = []
    read = 0
    for (vendor, flavor), pairs in cases().items():
        if (vendor, flavor) in OTHER_DIALECTS:
            continue
        wire: Wire = OWN_NAMES.get((vendor, flavor), FLAVORS[flavor])  # type: ignore[assignment]
        name = VENDORS.get(f"{vendor}/{flavor}", vendor)
        for body, expected in pairs:
            got = counts(from_answer(wire, body, rules_for(wire, name)), wire, vendor)
            read += 1
            if got != {key: count for key, count in expected.items() if count}:
                wrong.append(f"{vendor}/{flavor}: {body} is {got}, not {expected}")
    assert not wrong, f"{len(wrong)} of {read}: " + "\n".join(wrong[:10])
    assert read > 15_000


def test_the_golden_file_holds_no_vendor_that_is_neither_declared_nor_of_another_dialect() -> None:
    undeclared = [
        (vendor, flavor)
        for vendor, flavor in cases()
        if (vendor, flavor) not in OTHER_DIALECTS
        and flavor != "embeddings"
        and (vendor, OWN_NAMES.get((vendor, flavor), FLAVORS[flavor])) not in DECLARED
    ]
    assert undeclared == []


@pytest.mark.parametrize(
    ("provider", "base_url", "output"),
    [("x-ai", "", 13), ("", "https://api.x.ai/v1", 13), ("openai", "https://api.x.ai/v1", 3), ("", "", 3)],
)
def test_reasoning_billed_beside_the_completion_is_output_where_the_vendor_is_known(
    provider: str, base_url: str, output: int
) -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "completion_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": 18,
    }
    tokens = from_answer("openai", {"usage": usage}, rules_for("openai", provider, base_url))
    assert (tokens.output, tokens.reasoning) == (output, 10)
