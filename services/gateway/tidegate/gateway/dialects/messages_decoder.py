"""Events of an Anthropic message stream -> blocks in order."""

from typing import Any

from tidegate.gateway.dialects import seals, stops
from tidegate.gateway.dialects.blocks import Stop, Thinking
from tidegate.gateway.dialects.decoder import Verdict
from tidegate.gateway.dialects.fields import Fields, answer_fields
from tidegate.gateway.dialects.json_text import compact
from tidegate.gateway.dialects.sequencer import Sequencer
from tidegate.gateway.dialects.sink import BlockSink, Head
from tidegate.gateway.usage import UsageTally

_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class MessagesDecoder:
    """Reads one stream. Blocks of the provider's own tools are left out, with all their deltas."""

    def __init__(self, sink: BlockSink, usage: UsageTally) -> None:
        self._sink = sink
        self._usage = usage
        self._blocks = Sequencer(sink)
        self._signatures: dict[int, str] = {}
        self._inputs: dict[int, str] = {}
        self._has_calls = False
        self._stop: Stop | None = None
        self._stop_sequence: str | None = None
        self.model: str | None = None

    @property
    def has_finish_reason(self) -> bool:
        """Did the upstream say why it ended?"""
        return self._stop is not None

    def read(self, data: dict[str, Any]) -> Verdict:
        """One event; pings and kinds not known are passed over."""
        event = answer_fields(data, "")
        kind = event.text("type")
        if kind == "error":
            return Verdict.ERROR
        if kind == "message_stop":
            return Verdict.TERMINAL
        if kind == "message_start":
            self._begin(event.inner("message"))
        elif kind == "message_delta":
            self._message_delta(event)
        elif kind in {"content_block_start", "content_block_delta", "content_block_stop"}:
            self._block(event, kind)
        return Verdict.GOES_ON

    def finish(self) -> None:
        """The stream is whole."""
        for index in list(self._inputs):
            self._close(index)
        self._blocks.close_all()
        stop = stops.settled(self._stop or "end", has_calls=self._has_calls)
        self._sink.end(stop, self._stop_sequence, self._usage.tokens(), self._usage.told_tier)

    def _begin(self, message: Fields | None) -> None:
        answer_id = model = None
        if message is not None:
            answer_id, model = message.text("id"), message.text("model")
            self._usage.observe(message.raw("usage"))
        self.model = model or None
        self._sink.begin(answer_id or "", model or "", None, self._usage.told_tier)

    def _message_delta(self, event: Fields) -> None:
        self._usage.observe(event.raw("usage"))
        delta = event.inner("delta")
        if delta is None:
            return
        reason = delta.text("stop_reason")
        if reason:
            self._stop = stops.FROM_MESSAGES.get(reason, "end")
        self._stop_sequence = delta.text("stop_sequence") or self._stop_sequence

    def _block(self, event: Fields, kind: str) -> None:
        index = event.integer("index")
        if index is None:
            raise event.wrong("index", "is missing")
        if kind == "content_block_start":
            block = event.inner("content_block")
            if block is not None:
                self._open(index, block)
        elif kind == "content_block_stop":
            self._close(index)
        elif (delta := event.inner("delta")) is not None:
            self._delta(index, delta)

    def _open(self, index: int, block: Fields) -> None:
        kind = block.text("type")
        if kind == "text":
            self._blocks.open(index, Head("text"))
            self._blocks.piece(index, block.text("text") or "")
        elif kind == "thinking":
            self._blocks.open(index, Head("thinking"))
            self._blocks.piece(index, block.text("thinking") or "")
            self._sign(index, block.text("signature") or "")
        elif kind == "redacted_thinking":
            self._blocks.open(index, Head("thinking", redacted=block.needed_text("data")))
        elif kind == "tool_use":
            self._has_calls = True
            self._blocks.open(index, Head("tool", block.needed_text("id"), block.needed_text("name")))
            given = block.json("input")
            if given:
                self._inputs[index] = compact(given)

    def _delta(self, index: int, delta: Fields) -> None:
        kind = delta.text("type") or ""
        if kind == "signature_delta":
            self._sign(index, delta.text("signature") or "")
        elif kind in _PIECES:
            text = delta.text(_PIECES[kind]) or ""
            if text and kind == "input_json_delta":
                self._inputs.pop(index, None)
            self._blocks.piece(index, text)

    def _sign(self, index: int, signature: str) -> None:
        if signature:
            self._signatures[index] = self._signatures.get(index, "") + signature

    def _close(self, index: int) -> None:
        """Input that came whole at the start counts only when no delta replaced it."""
        whole_input = self._inputs.pop(index, "")
        self._blocks.piece(index, whole_input)
        signature = self._signatures.get(index)
        proof: Thinking | None = None if signature is None else seals.from_signature("", signature)
        self._blocks.close(index, proof)
