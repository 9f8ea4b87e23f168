"""Events of a responses stream -> blocks in order."""

from typing import Any

from tidegate.gateway.dialects import responses_answer, responses_items, seals, stops
from tidegate.gateway.dialects.blocks import AnswerBlock, Refusal, Stop, Thinking, ToolCall
from tidegate.gateway.dialects.decoder import Verdict
from tidegate.gateway.dialects.fields import Fields, answer_fields
from tidegate.gateway.dialects.sequencer import Sequencer
from tidegate.gateway.dialects.sink import BlockSink, Head
from tidegate.gateway.usage import UsageTally

_Key = tuple[int, int]
_WORDS = {"response.output_text.delta": "output_text", "response.refusal.delta": "refusal"}
_ARGUMENTS = {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
_THINKING = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
_BETWEEN_PARTS = "\n\n"


class ResponsesDecoder:
    """Reads one stream. A block is a part of a message, or an item of any other kind."""

    def __init__(self, sink: BlockSink, usage: UsageTally) -> None:
        self._sink = sink
        self._usage = usage
        self._blocks = Sequencer(sink)
        self._thought: dict[int, tuple[str, int]] = {}
        self._has_begun = False
        self._has_calls = False
        self._stop: Stop | None = None
        self.model: str | None = None

    @property
    def has_finish_reason(self) -> bool:
        """Did the upstream say why it ended?"""
        return self._stop is not None

    def read(self, data: dict[str, Any]) -> Verdict:
        """One event; kinds not known are passed over."""
        event = answer_fields(data, "")
        kind = event.text("type") or ""
        if kind in {"error", "response.failed"}:
            return Verdict.ERROR
        if (response := event.inner("response")) is not None:
            self._begin(response)
            if kind in {"response.completed", "response.incomplete"}:
                self._usage.observe(response.raw("usage"), response.raw("service_tier"))
                self._usage.observe_output(response.raw("output") or None)
                self._stop = responses_answer.stop_of(response)
                self._fill(response)
                return Verdict.TERMINAL
            return Verdict.GOES_ON
        if kind == "response.output_item.done":
            self._usage.observe_item(event.raw("item"))
        index = event.integer("output_index")
        if index is not None:
            self._item_event(index, event, kind)
        return Verdict.GOES_ON

    def finish(self) -> None:
        """The stream is whole."""
        self._blocks.close_all()
        stop = stops.settled(self._stop or "end", has_calls=self._has_calls)
        self._sink.end(stop, None, self._usage.tokens(), self._usage.told_tier)

    def _begin(self, response: Fields) -> None:
        model = response.text("model")
        self.model = model or self.model
        if not self._has_begun:
            self._has_begun = True
            created = response.number("created_at")
            seconds = None if created is None else int(created)
            self._sink.begin(response.text("id") or "", model or "", seconds)

    def _fill(self, response: Fields) -> None:
        """Items that were not streamed at all: some vendors name them only at the end."""
        for index, item in enumerate(response.each("output")):
            self._done(index, item)

    def _item_event(self, index: int, event: Fields, kind: str) -> None:
        part = event.integer("content_index") or 0
        if kind == "response.output_item.added":
            self._open_item(index, event.inner("item"))
        elif kind == "response.content_part.added":
            inner = event.inner("part")
            if inner is not None and inner.text("type") in {"output_text", "refusal"}:
                self._open_words((index, part), is_refusal=inner.text("type") == "refusal")
        elif kind in _WORDS:
            self._open_words((index, part), is_refusal=_WORDS[kind] == "refusal")
            self._blocks.piece((index, part), event.text("delta") or "")
        elif kind in _ARGUMENTS:
            self._blocks.piece((index, 0), event.text("delta") or "")
        elif kind in _THINKING:
            self._think(index, event, kind)
        elif kind == "response.content_part.done" and index not in self._thought:
            self._blocks.close((index, part))
        elif kind == "response.output_item.done" and (item := event.inner("item")) is not None:
            self._done(index, item)

    def _open_words(self, key: _Key, *, is_refusal: bool) -> None:
        self._blocks.open(key, Head("refusal" if is_refusal else "text"))

    def _open_item(self, index: int, item: Fields | None) -> None:
        kind = item.text("type") if item else None
        if item is not None and kind in {"function_call", "custom_tool_call"}:
            self._open((index, 0), responses_items.call(item, kind))
        elif kind == "reasoning":
            self._open((index, 0), Thinking())

    def _open(self, key: _Key, block: AnswerBlock) -> None:
        if isinstance(block, ToolCall):
            self._has_calls = True
            self._blocks.open(key, Head("tool", block.id, block.name, block.is_custom))
        elif isinstance(block, Thinking):
            self._blocks.open(key, Head("thinking", redacted=block.redacted))
        else:
            self._open_words(key, is_refusal=isinstance(block, Refusal))

    def _think(self, index: int, event: Fields, kind: str) -> None:
        """Summary parts have a blank line between them. Full reasoning is not shown beside its own summary."""
        part = event.integer("summary_index" if "summary" in kind else "content_index") or 0
        shown, last = self._thought.get(index, (kind, part))
        if shown != kind:
            return
        self._blocks.open((index, 0), Head("thinking"))
        if part != last:
            self._blocks.piece((index, 0), _BETWEEN_PARTS)
        self._thought[index] = (kind, part)
        self._blocks.piece((index, 0), event.text("delta") or "")

    def _done(self, index: int, item: Fields) -> None:
        """The whole item: it closes its blocks, and stands for those that were not streamed."""
        is_sealed = item.text("encrypted_content")
        for part, block in enumerate(responses_answer.blocks_of(item)):
            key = (index, part)
            if key not in self._blocks.opened:
                self._open(key, block)
                self._blocks.piece(key, _text_of(block))
            proof = None
            if isinstance(block, Thinking) and is_sealed:
                proof = seals.from_encrypted("", is_sealed, block.id)
            self._blocks.close(key, proof)


def _text_of(block: AnswerBlock) -> str:
    return block.arguments if isinstance(block, ToolCall) else block.text
