"""Blocks -> chunks of a chat completion."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.gateway import errors, tiers
from tidegate.gateway.dialects import chat_reasoning, stops, usage_shape
from tidegate.gateway.dialects.blocks import Stop, Thinking
from tidegate.gateway.dialects.chat_answer import UNKNOWN
from tidegate.gateway.dialects.encoder import event
from tidegate.gateway.dialects.sink import Head
from tidegate.gateway.errors import GatewayError

DONE = b"data: [DONE]\n\n"
_FIELDS = {"text": "content", "refusal": "refusal", "thinking": "reasoning_content"}


class ChatEncoder:
    """Writes one stream; usage in a chunk of its own when the client asked for it."""

    def __init__(self, *, wants_usage: bool) -> None:
        self.out: list[bytes] = []
        self.terminal: bytes | None = None
        self._wants_usage = wants_usage
        self._frame: dict[str, Any] = {}
        self._head = Head("text")
        self._calls = 0
        self._thoughts = 0
        self._thought: list[str] = []
        self._is_empty = True

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        """See BlockSink."""
        self._frame = {
            "id": answer_id,
            "object": "chat.completion.chunk",
            "created": created_s or 0,
            "model": model,
            **tiers.for_openai(tier),
        }
        self._delta({"role": "assistant", "content": None})

    def open(self, head: Head) -> None:
        """See BlockSink."""
        self._head = head
        self._is_empty = True
        self._thought = []
        if head.kind == "tool":
            kind = "custom" if head.is_custom else "function"
            inner = {"name": head.name, "input" if head.is_custom else "arguments": ""}
            call = {"index": self._calls, "id": head.call_id, "type": kind, kind: inner}
            self._delta({"tool_calls": [call]})

    def piece(self, text: str) -> None:
        """See BlockSink."""
        self._is_empty = False
        head = self._head
        if head.kind != "tool":
            if head.kind == "thinking":
                self._thought.append(text)
            self._delta({_FIELDS[head.kind]: text})
        elif head.is_custom:
            self._delta({"tool_calls": [{"index": self._calls, "custom": {"input": text}}]})
        else:
            self._delta({"tool_calls": [{"index": self._calls, "function": {"arguments": text}}]})

    def close(self, proof: Thinking | None) -> None:
        """See BlockSink."""
        head = self._head
        if head.kind == "tool":
            if self._is_empty and not head.is_custom:
                self.piece("{}")
            self._calls += 1
        elif head.kind == "thinking":
            self._close_thinking(head, proof)

    def end(self, stop: Stop, stop_sequence: str | None, tokens: Tokens, tier: str | None = None) -> None:
        """See BlockSink."""
        self._frame |= tiers.for_openai(tier)
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": stops.TO_CHAT[stop]}
        self.out.append(event(self._frame | {"choices": [choice]}))
        if self._wants_usage and tokens != UNKNOWN:
            usage = usage_shape.to_chat(tokens)
            self.out.append(event(self._frame | {"choices": [], "usage": usage}))
        self.terminal = DONE

    def error_event(self, error: GatewayError) -> bytes:
        """See Encoder."""
        return errors.error_event(error, "openai")

    def _close_thinking(self, head: Head, proof: Thinking | None) -> None:
        text = "".join(self._thought)
        if head.redacted is not None:
            whole = Thinking(redacted=head.redacted)
        elif proof is not None:
            whole = Thinking(text, proof.signature, proof.redacted, proof.encrypted, proof.id)
        else:
            whole = Thinking(text)
        entry = chat_reasoning.detail(whole, self._thoughts)
        self._thoughts += 1
        if entry is not None:
            self._delta({"reasoning_details": [entry]})

    def _delta(self, delta: dict[str, Any]) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        self.out.append(event(self._frame | {"choices": [choice]}))
