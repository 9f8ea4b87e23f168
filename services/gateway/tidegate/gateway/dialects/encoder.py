"""What all stream encoders have in common."""

from typing import Any, Protocol

import orjson

from tidegate.events.money import Tokens
from tidegate.gateway.dialects.blocks import Stop, Thinking
from tidegate.gateway.dialects.sink import BlockSink, Head
from tidegate.gateway.errors import GatewayError


class Encoder(BlockSink, Protocol):
    """Writes a stream in the client's dialect."""

    out: list[bytes]
    """Whole events not yet taken by the caller."""
    terminal: bytes | None
    """The event that says the answer is whole; set by `end`."""

    def error_event(self, error: GatewayError) -> bytes:
        """The one event that tells of a failure; no terminal event follows it."""
        ...


class Silent:
    """A sink for a stream that is passed on as it is."""

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        """See BlockSink."""

    def open(self, head: Head) -> None:
        """See BlockSink."""

    def piece(self, text: str) -> None:
        """See BlockSink."""

    def close(self, proof: Thinking | None) -> None:
        """See BlockSink."""

    def end(self, stop: Stop, stop_sequence: str | None, tokens: Tokens, tier: str | None = None) -> None:
        """See BlockSink."""


def named_event(name: str, data: dict[str, Any]) -> bytes:
    """An event with a name."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))


def event(data: dict[str, Any]) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % orjson.dumps(data)
