"""Blocks -> events of a responses stream."""

from collections.abc import Mapping
from typing import Any

import orjson

from tidegate.events.money import Tokens
from tidegate.gateway.dialects import error_shape, responses_answer, stops
from tidegate.gateway.dialects.blocks import AnswerBlock, Refusal, Stop, Text, Thinking, ToolCall
from tidegate.gateway.dialects.encoder import named_event
from tidegate.gateway.dialects.sink import Head
from tidegate.gateway.errors import GatewayError

_DELTA = {"text": "response.output_text.delta", "refusal": "response.refusal.delta"}


class ResponsesEncoder:
    """Writes one stream. Every block is an item; events are numbered."""

    def __init__(self, echo: Mapping[str, Any]) -> None:
        self.out: list[bytes] = []
        self.terminal: bytes | None = None
        self._echo = echo
        self._number = 0
        self._id = ""
        self._model = ""
        self._created_s = 0
        self._tier: str | None = None
        self._items: list[dict[str, Any]] = []
        self._head = Head("text")
        self._pieces: list[str] = []

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        """See BlockSink."""
        self._id, self._model, self._created_s = answer_id, model, created_s or 0
        self._tier = tier
        for kind in ("response.created", "response.in_progress"):
            self._send(kind, {"response": self._shell("in_progress", [])})

    def open(self, head: Head) -> None:
        """See BlockSink."""
        self._head = head
        self._pieces = []
        item = responses_answer.item(self._block(None, ""), self._id, len(self._items), "in_progress")
        item.pop("encrypted_content", None)
        if head.kind in _DELTA:
            self._send_item("response.output_item.added", item | {"content": []})
            self._send_part("response.content_part.added", "")
        elif head.kind == "tool":
            field = "input" if head.is_custom else "arguments"
            self._send_item("response.output_item.added", item | {field: ""})
        else:
            self._send_item("response.output_item.added", item)

    def piece(self, text: str) -> None:
        """See BlockSink."""
        kind = self._head.kind
        if kind == "thinking":
            if not self._pieces:
                self._send_summary("response.reasoning_summary_part.added", self._summary(""))
            self._send_summary("response.reasoning_summary_text.delta", {"delta": text})
        elif kind == "tool":
            name = "custom_tool_call_input" if self._head.is_custom else "function_call_arguments"
            self._send_place(f"response.{name}.delta", {"delta": text})
        else:
            extra: dict[str, Any] = {"logprobs": []} if kind == "text" else {}
            self._send_place(_DELTA[kind], {"content_index": 0, "delta": text} | extra)
        self._pieces.append(text)

    def close(self, proof: Thinking | None) -> None:
        """See BlockSink."""
        kind, is_custom = self._head.kind, self._head.is_custom
        if kind == "tool" and not self._pieces and not is_custom:
            self.piece("{}")
        text = "".join(self._pieces)
        if kind == "text":
            done = {"content_index": 0, "text": text, "logprobs": []}
            self._send_place("response.output_text.done", done)
            self._send_part("response.content_part.done", text)
        elif kind == "refusal":
            self._send_place("response.refusal.done", {"content_index": 0, "refusal": text})
            self._send_part("response.content_part.done", text)
        elif kind == "tool" and is_custom:
            self._send_place("response.custom_tool_call_input.done", {"input": text})
        elif kind == "tool":
            done = {"name": self._head.name, "arguments": text}
            self._send_place("response.function_call_arguments.done", done)
        elif text:
            self._send_summary("response.reasoning_summary_text.done", {"text": text})
            self._send_summary("response.reasoning_summary_part.done", self._summary(text))
        item = responses_answer.item(self._block(proof, text), self._id, len(self._items))
        self._send_item("response.output_item.done", item)
        self._items.append(item)

    def end(self, stop: Stop, stop_sequence: str | None, tokens: Tokens, tier: str | None = None) -> None:
        """See BlockSink."""
        self._tier = tier or self._tier
        reason = stops.INCOMPLETE.get(stop)
        details = None if reason is None else {"reason": reason}
        status = "completed" if reason is None else "incomplete"
        response = self._shell(status, self._items, details, tokens)
        kind = f"response.{status}"
        data = {"type": kind, "sequence_number": self._number, "response": response}
        self.terminal = named_event(kind, data)

    def error_event(self, error: GatewayError) -> bytes:
        """See Encoder. Flat for readers of the dialect, nested for SDKs that raise on an `error` in any."""
        told: dict[str, Any] = orjson.loads(error_shape.body("openai-responses", error))
        flat = {"type": "error", "code": error.code, "message": error.message, "param": None}
        return named_event("error", flat | {"sequence_number": self._number} | told)

    def _block(self, proof: Thinking | None, text: str) -> AnswerBlock:
        head = self._head
        if head.kind == "text":
            return Text(text)
        if head.kind == "refusal":
            return Refusal(text)
        if head.kind == "tool":
            return ToolCall(head.call_id, head.name, text, head.is_custom)
        if head.redacted is not None:
            return Thinking(text, redacted=head.redacted)
        known = Thinking() if proof is None else proof
        return Thinking(text, known.signature, known.redacted, known.encrypted, known.id)

    def _shell(
        self,
        status: str,
        output: list[dict[str, Any]],
        details: dict[str, Any] | None = None,
        tokens: Tokens | None = None,
    ) -> dict[str, Any]:
        return responses_answer.shell(
            self._id,
            self._model,
            self._created_s,
            self._echo,
            status=status,
            output=output,
            incomplete_details=details,
            tokens=tokens,
            tier=self._tier,
        )

    def _summary(self, text: str) -> dict[str, Any]:
        return {"part": {"type": "summary_text", "text": text}}

    def _send_summary(self, kind: str, data: dict[str, Any]) -> None:
        self._send_place(kind, {"summary_index": 0} | data)

    def _send_part(self, kind: str, text: str) -> None:
        block = Refusal(text) if self._head.kind == "refusal" else Text(text)
        self._send_place(kind, {"content_index": 0, "part": responses_answer.part(block)})

    def _send_place(self, kind: str, data: dict[str, Any]) -> None:
        index = len(self._items)
        item_id = responses_answer.item_id(self._id, self._block(None, ""), index)
        self._send(kind, {"item_id": item_id, "output_index": index} | data)

    def _send_item(self, kind: str, item: dict[str, Any]) -> None:
        self._send(kind, {"output_index": len(self._items), "item": item})

    def _send(self, kind: str, data: dict[str, Any]) -> None:
        self.out.append(named_event(kind, {"type": kind, "sequence_number": self._number} | data))
        self._number += 1
