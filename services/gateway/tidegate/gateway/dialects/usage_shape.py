"""Disjoint token classes -> the usage object of each dialect; an unknown class is 0 only where the dialect insists."""

from typing import Any

from tidegate.events.money import Tokens


def _without_unknown(fields: dict[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if value is not None}


def _written(tokens: Tokens) -> int | None:
    if tokens.cache_write_5m is None and tokens.cache_write_1h is None:
        return None
    return (tokens.cache_write_5m or 0) + (tokens.cache_write_1h or 0)


def to_chat(tokens: Tokens) -> dict[str, Any]:
    """Prompt counts include cached tokens, completion counts include reasoning."""
    prompt, output = tokens.known_input(), tokens.output or 0
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if details := _without_unknown(
        {"cached_tokens": tokens.cache_read, "cache_write_tokens": _written(tokens)}
    ):
        usage["prompt_tokens_details"] = details
    if tokens.reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning}
    return usage


def to_responses(tokens: Tokens) -> dict[str, Any]:
    """As `to_chat` under other names; its details are obligatory."""
    prompt, output = tokens.known_input(), tokens.output or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": tokens.cache_read or 0,
            "cache_write_tokens": _written(tokens) or 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning or 0},
        "total_tokens": prompt + output,
    }


def to_messages(tokens: Tokens) -> dict[str, Any]:
    """Input classes are disjoint; `output_tokens` includes reasoning."""
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
    if tokens.reasoning is not None:
        usage["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    return usage
