"""Blocks -> events of an Anthropic message stream."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway import errors, tiers
from tidegate.gateway.dialects import seals, usage_shape
from tidegate.gateway.dialects.blocks import Stop, Thinking
from tidegate.gateway.dialects.encoder import named_event
from tidegate.gateway.dialects.messages_answer import stop_reason
from tidegate.gateway.dialects.sink import Head
from tidegate.gateway.errors import GatewayError

STOP = named_event("message_stop", {"type": "message_stop"})


class MessagesEncoder:
    """Writes one stream. Other dialects count at the end only: the counts at the start are 0 until then."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.terminal: bytes | None = None
        self._index = 0
        self._head = Head("text")
        self._has_refusal = False

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        """See BlockSink."""
        message: dict[str, Any] = {
            "id": answer_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0, **tiers.for_messages(tier)},
        }
        self._send("message_start", {"message": message})

    def open(self, head: Head) -> None:
        """See BlockSink."""
        self._head = head
        block: dict[str, Any]
        if head.kind == "tool":
            block = {"type": "tool_use", "id": head.call_id, "name": head.name, "input": {}}
        elif head.redacted is not None:
            block = {"type": "redacted_thinking", "data": head.redacted}
        elif head.kind == "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        else:
            self._has_refusal |= head.kind == "refusal"
            block = {"type": "text", "text": ""}
        self._send("content_block_start", {"index": self._index, "content_block": block})

    def piece(self, text: str) -> None:
        """See BlockSink."""
        if self._head.kind == "tool":
            delta = {"type": "input_json_delta", "partial_json": text}
        elif self._head.kind == "thinking":
            delta = {"type": "thinking_delta", "thinking": text}
        else:
            delta = {"type": "text_delta", "text": text}
        self._send("content_block_delta", {"index": self._index, "delta": delta})

    def close(self, proof: Thinking | None) -> None:
        """See BlockSink."""
        if self._head.kind == "thinking" and self._head.redacted is None:
            signature = seals.as_signature(Thinking() if proof is None else proof)
            delta = {"type": "signature_delta", "signature": signature}
            self._send("content_block_delta", {"index": self._index, "delta": delta})
        self._send("content_block_stop", {"index": self._index})
        self._index += 1

    def end(self, stop: Stop, stop_sequence: str | None, tokens: Tokens, tier: str | None = None) -> None:
        """See BlockSink."""
        delta = {
            "stop_reason": stop_reason(stop, self._has_refusal),
            "stop_sequence": stop_sequence,
        }
        self._send("message_delta", {"delta": delta, "usage": usage_shape.to_messages(tokens, tier)})
        self.terminal = STOP

    def error_event(self, error: GatewayError) -> bytes:
        """See Encoder."""
        return errors.error_event(error, "anthropic")

    def _send(self, kind: str, data: dict[str, Any]) -> None:
        self.out.append(named_event(kind, {"type": kind} | data))
