"""Disjoint token classes -> the usage object of each dialect; an unknown class is 0 only where the dialect insists."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway import tiers


def _without_unknown(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _written(tokens: Tokens) -> int | None:
    if tokens.cache_write_5m is None and tokens.cache_write_1h is None:
        return None
    return (tokens.cache_write_5m or 0) + (tokens.cache_write_1h or 0)


def _read(tokens: Tokens) -> dict[str, Any]:
    """What OpenAI tells of the input apart."""
    heard = (tokens.input_audio or 0) + (tokens.cache_read_audio or 0)
    from_cache = tokens.cache_read_audio
    return _without_unknown(
        {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": _written(tokens),
            "audio_tokens": heard or None,
            "image_tokens": tokens.input_image,
            "cached_tokens_details": None if from_cache is None else {"audio_tokens": from_cache},
        }
    )


def _produced(tokens: Tokens) -> dict[str, Any]:
    """What OpenAI tells of the output apart."""
    return _without_unknown(
        {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": tokens.output_audio,
            "image_tokens": tokens.output_image,
        }
    )


def _searched(tokens: Tokens) -> dict[str, Any]:
    """Searches that the provider ran; OpenAI's own objects have no place for them, clients ignore what they do not
    know."""
    if tokens.web_searches is None:
        return {}
    return {"server_tool_use": {"web_search_requests": tokens.web_searches}}


def to_chat(tokens: Tokens) -> dict[str, Any]:
    """Prompt counts include cached tokens, completion counts include reasoning."""
    prompt, output = tokens.known_input(), tokens.output or 0
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if details := _read(tokens):
        usage["prompt_tokens_details"] = details
    if details := _produced(tokens):
        usage["completion_tokens_details"] = details
    return usage | _searched(tokens)


def to_responses(tokens: Tokens) -> dict[str, Any]:
    """As `to_chat` under other names; its details are obligatory."""
    prompt, output = tokens.known_input(), tokens.output or 0
    usage: dict[str, Any] = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0} | _read(tokens),
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0} | _produced(tokens),
        "total_tokens": prompt + output,
    }
    return usage | _searched(tokens)


def to_messages(tokens: Tokens, tier: str | None = None) -> dict[str, Any]:
    """Input classes are disjoint; `output_tokens` includes reasoning. `tier` is what the provider told of it."""
    usage: dict[str, Any] = {
        "input_tokens": tokens.input_uncached or 0,
        "output_tokens": tokens.output or 0,
        **_without_unknown(
            {
                "cache_creation_input_tokens": _written(tokens),
                "cache_read_input_tokens": tokens.cache_read,
            }
        ),
    }
    if tokens.cache_write_1h is not None:
        usage["cache_creation"] = {
            "ephemeral_5m_input_tokens": tokens.cache_write_5m or 0,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        }
    if tokens.reasoning is not None:
        usage["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    return usage | tiers.for_messages(tier or tokens.service_tier) | _searched(tokens)
