"""Errors of a provider, of any dialect and shape, in the client's dialect."""

from typing import Any

import orjson

from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.errors import GatewayError, render

MAX_MESSAGE_CHARACTERS = 2000
_NO_MESSAGE = "The upstream refused the request and gave no reason."


def message_of(data: Any) -> str:
    """The words of a provider's error object, wherever it puts them; empty when there are none."""
    if isinstance(data, str):
        return data[:MAX_MESSAGE_CHARACTERS]
    if isinstance(data, list):
        return next((text for item in data if (text := message_of(item))), "")
    if not isinstance(data, dict):
        return ""
    inside = next(
        (data[name] for name in ("error", "response", "errors") if isinstance(data.get(name), dict | list)),
        None,
    )
    if inside is not None and (text := message_of(inside)):
        return text
    for name in ("message", "detail", "error", "title"):
        value = data.get(name)
        if isinstance(value, str) and value:
            return value[:MAX_MESSAGE_CHARACTERS]
    return ""


def provider_message(upstream_body: bytes) -> str:
    """The provider's words; text that is no JSON is not repeated."""
    try:
        message = message_of(orjson.loads(upstream_body))
    except orjson.JSONDecodeError:
        message = ""
    return message or _NO_MESSAGE


def body(client: Wire, error: GatewayError) -> bytes:
    """The client's error envelope; both of OpenAI's dialects have the same."""
    return render(error, "anthropic" if client == "anthropic" else "openai").body
