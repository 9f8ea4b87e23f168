"""Disjoint token classes -> the usage object of a client's dialect. Pure."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway.usage_rules import WIRES, Spoken

_TIERS_OF_ANTHROPIC = frozenset({"priority", "batch"})


def usage_object(dialect: Spoken, tokens: Tokens) -> dict[str, Any] | None:
    """The usage object that a client of this dialect reads; None where what it must hold is unknown.

    OpenAI's objects hold sums, so they need input and output; Anthropic's hold what is known, as its streams
    tell the input first and the output last.
    """
    wire = WIRES[dialect]
    if wire == "anthropic":
        return _anthropic(tokens) or None
    if tokens.input_uncached is None or tokens.output is None:
        return None
    if wire == "embeddings":
        return {"prompt_tokens": tokens.known_input(), "total_tokens": tokens.known_total()}
    return _responses(tokens) if wire == "responses" else _chat(tokens)


def _chat(tokens: Tokens) -> dict[str, Any]:
    prompt, output = tokens.known_input(), tokens.output or 0
    heard = (tokens.input_audio or 0) + (tokens.cache_read_audio or 0)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": _known(
            cached_tokens=tokens.cache_read,
            cache_write_tokens=_written(tokens),
            audio_tokens=heard or None,
            image_tokens=tokens.input_image,
            cached_tokens_details=_known(audio_tokens=tokens.cache_read_audio) or None,
        ),
        "completion_tokens_details": _known(
            reasoning_tokens=tokens.reasoning,
            audio_tokens=tokens.output_audio,
            image_tokens=tokens.output_image,
        ),
    }
    if tokens.web_searches is not None:
        usage["server_tool_use"] = {"web_search_requests": tokens.web_searches}
    return {name: value for name, value in usage.items() if value != {}}


def _responses(tokens: Tokens) -> dict[str, Any]:
    """Here the details are required: what is unknown stands as 0, as OpenAI itself writes it."""
    chat = _chat(tokens)
    usage: dict[str, Any] = {
        "input_tokens": chat["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0, **chat.get("prompt_tokens_details", {})},
        "output_tokens": chat["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0, **chat.get("completion_tokens_details", {})},
        "total_tokens": chat["total_tokens"],
    }
    if "server_tool_use" in chat:
        usage["server_tool_use"] = chat["server_tool_use"]
    return usage


def _anthropic(tokens: Tokens) -> dict[str, Any]:
    usage = _known(
        input_tokens=tokens.input_uncached,
        cache_creation_input_tokens=_written(tokens),
        cache_read_input_tokens=tokens.cache_read,
        cache_creation=_lifetimes(tokens),
        output_tokens=tokens.output,
    )
    if tokens.reasoning is not None:
        usage["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    if tokens.web_searches is not None:
        usage["server_tool_use"] = {"web_search_requests": tokens.web_searches}
    if tokens.service_tier in _TIERS_OF_ANTHROPIC:
        usage["service_tier"] = tokens.service_tier
    return usage


def _written(tokens: Tokens) -> int | None:
    if tokens.cache_write_5m is None and tokens.cache_write_1h is None:
        return None
    return (tokens.cache_write_5m or 0) + (tokens.cache_write_1h or 0)


def _lifetimes(tokens: Tokens) -> dict[str, Any] | None:
    if tokens.cache_write_1h is None:
        return None
    return {
        "ephemeral_5m_input_tokens": tokens.cache_write_5m or 0,
        "ephemeral_1h_input_tokens": tokens.cache_write_1h,
    }


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
