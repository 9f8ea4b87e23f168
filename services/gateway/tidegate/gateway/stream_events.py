"""What one event of an upstream stream means, per dialect: content, usage, terminal, error; pure."""

import re
from enum import Enum, auto
from typing import Any, Protocol

import orjson

from tidegate.events.types import Dialect
from tidegate.gateway.usage import UsageTally
from tidegate.gateway.usage_rules import UsageRules


class Meaning(Enum):
    """`OTHER` is forwarded like content but does not commit; `UNASKED_USAGE` is removed."""

    CONTENT = auto()
    OTHER = auto()
    UNASKED_USAGE = auto()
    TERMINAL = auto()
    ERROR = auto()
    MALFORMED = auto()


class Reading:
    """What was learnt from the events of one stream."""

    __slots__ = ("client_wants_usage", "error", "model", "output_is_final", "usage")

    def __init__(
        self, dialect: Dialect, *, client_wants_usage: bool, usage_rules: UsageRules | None = None
    ) -> None:
        self.client_wants_usage = client_wants_usage
        self.usage = UsageTally(dialect, usage_rules)
        self.output_is_final = dialect != "anthropic"
        """Anthropic opens with a placeholder count that the closing delta replaces."""
        self.model: str | None = None
        self.error: dict[str, Any] | None = None


class Vocabulary(Protocol):
    """The events of one dialect."""

    content_mark: bytes
    """Appears once in every event that may carry content."""

    def may_matter(self, block: bytes) -> bool:
        """Cheap and without false negatives: could an event in these bytes be more than content?"""
        ...

    def read(self, name: bytes, data: bytes, reading: Reading) -> Meaning:
        """Meaning of one parsed event; usage, model and error go to `reading`."""
        ...


_ESCAPED_NAME = re.compile(rb"\\u00[567]")


def is_escaped(block: bytes) -> bool:
    """A letter or underscore written as an escape: legal in keys, though nobody was seen to send one."""
    # One byte is searched with memchr, ten times as fast as a longer needle.
    return b"\\" in block and b"\\u00" in block and _ESCAPED_NAME.search(block) is not None


def object_of(data: bytes) -> dict[str, Any] | None:
    """The JSON object of an event, None when it is none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


class OpenAiEvents:
    """`chat.completion.chunk` objects and `[DONE]`."""

    content_mark = b'"delta"'
    # Text cannot forge these: inside a JSON string a quote is escaped. `"usage":null` comes with every chunk.
    _present = re.compile(rb'"(?:usage|error)"\s*+:\s*+(?!null)')

    def may_matter(self, block: bytes) -> bool:
        """`[DONE]`, a `usage` or `error` that is not null, or a named event."""
        if b"[DONE]" in block or b"event" in block:
            return True
        if b'"usage"' in block or b'"error"' in block:
            return self._present.search(block) is not None
        return is_escaped(block)

    def read(self, name: bytes, data: bytes, reading: Reading) -> Meaning:
        """See Vocabulary."""
        if data.strip() == b"[DONE]":
            return Meaning.TERMINAL
        chunk = object_of(data)
        if chunk is None:
            return Meaning.MALFORMED
        error = chunk.get("error")
        if error or name == b"error":
            reading.error = chunk if error else {"error": chunk}
            return Meaning.ERROR
        model = chunk.get("model")
        if reading.model is None and isinstance(model, str):
            reading.model = model or None
        usage, choices, tier = chunk.get("usage"), chunk.get("choices"), chunk.get("service_tier")
        if usage is not None or tier is not None:
            reading.usage.observe(usage, tier)
        if usage is not None and not choices and not reading.client_wants_usage:
            return Meaning.UNASKED_USAGE
        if isinstance(choices, list) and any(map(_is_content, choices)):
            return Meaning.CONTENT
        return Meaning.OTHER


def _is_content(choice: Any) -> bool:
    """Non-empty text, reasoning, refusal, tool arguments, or anything unknown that is not empty.

    A tool call's id and name alone commit nothing: another target may still answer.
    """
    if not isinstance(choice, dict):
        return False
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    for key, value in delta.items():
        if key == "tool_calls":
            if isinstance(value, list) and any(map(_has_arguments, value)):
                return True
        elif key == "function_call":
            if _has_arguments({"function": value}):
                return True
        elif value and key != "role":
            return True
    return False


def _has_arguments(call: Any) -> bool:
    if not isinstance(call, dict):
        return False
    return any(
        isinstance(part, dict) and bool(part.get("arguments") or part.get("input"))
        for part in (call.get("function"), call.get("custom"))
    )


class AnthropicEvents:
    """`message_start` … `message_stop`; the type inside the data decides, the event name where it is missing."""

    content_mark = b'"content_block_delta"'
    _opened_empty = ("text", "thinking", "tool_use", "server_tool_use", "mcp_tool_use")

    def may_matter(self, block: bytes) -> bool:
        """A message event or an error."""
        return b"message_" in block or b"error" in block or is_escaped(block)

    def read(self, name: bytes, data: bytes, reading: Reading) -> Meaning:
        """See Vocabulary."""
        event = object_of(data)
        if event is None:
            return Meaning.MALFORMED
        kind = event.get("type") or name.decode("utf-8", "replace")
        if kind == "message_stop":
            return Meaning.TERMINAL
        if kind == "error":
            reading.error = event
            return Meaning.ERROR
        if kind == "message_start":
            self._read_start(event.get("message"), reading)
        elif kind == "message_delta":
            usage = event.get("usage")
            reading.usage.observe(usage)
            if isinstance(usage, dict) and usage.get("output_tokens") is not None:
                reading.output_is_final = True
        elif (kind == "content_block_delta" and self._is_content(event.get("delta"))) or (
            kind == "content_block_start" and self._opens_with_content(event.get("content_block"))
        ):
            return Meaning.CONTENT
        return Meaning.OTHER

    def _read_start(self, message: Any, reading: Reading) -> None:
        if isinstance(message, dict):
            reading.usage.observe(message.get("usage"))
            model = message.get("model")
            if isinstance(model, str):
                reading.model = model or None

    def _is_content(self, delta: Any) -> bool:
        if not isinstance(delta, dict) or delta.get("type") == "signature_delta":
            return False
        return any(bool(value) for key, value in delta.items() if key != "type")

    def _opens_with_content(self, block: Any) -> bool:
        if not isinstance(block, dict):
            return False
        if block.get("type") not in self._opened_empty:
            return True  # whole blocks without deltas: redacted thinking, results of server tools
        return any(bool(block.get(key)) for key in ("text", "thinking", "input"))
