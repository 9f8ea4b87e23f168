"""Chunks of a chat completion -> blocks in order."""

from typing import Any, Literal

import msgspec

from tidegate.gateway.dialects import chat_answer, chat_reasoning, stops
from tidegate.gateway.dialects.arguments import is_whole
from tidegate.gateway.dialects.blocks import Stop, Text, Thinking
from tidegate.gateway.dialects.decoder import Verdict
from tidegate.gateway.dialects.fields import Fields, answer_fields
from tidegate.gateway.dialects.sequencer import Sequencer
from tidegate.gateway.dialects.sink import BlockSink, Head
from tidegate.gateway.usage import UsageTally

_Kind = Literal["text", "refusal", "thinking"]


class _Call(msgspec.Struct):
    """A tool call being received. It opens when its name is known."""

    key: int
    call_id: str
    name: str
    is_custom: bool
    pieces: list[str]
    is_open: bool = False

    def is_complete(self) -> bool:
        """More arguments could not follow. Free text may always go on: another block ends it."""
        last = next((text for text in reversed(self.pieces) if text.strip()), "")
        return self.is_custom or (last.rstrip().endswith("}") and is_whole("".join(self.pieces)))


class ChatDecoder:
    """Reads one stream. The dialect never says that a block has ended: the next one says it, or the end."""

    def __init__(self, sink: BlockSink, usage: UsageTally, answer_id: str) -> None:
        self._sink = sink
        self._usage = usage
        self._blocks = Sequencer(sink)
        self._calls: dict[int, _Call] = {}
        self._newest: dict[int, int] = {}
        """Which of them the provider means by an index: the one that began there last."""
        self._words: tuple[_Kind, int] | None = None
        self._blocks_so_far = 0
        self._proof: Thinking | None = None
        self._stop: Stop | None = None
        self._id = answer_id
        self._has_begun = False
        self.model: str | None = None

    @property
    def has_finish_reason(self) -> bool:
        """Did the upstream say why it ended?"""
        return self._stop is not None

    def read(self, data: dict[str, Any]) -> Verdict:
        """One chunk; `[DONE]` is the caller's to see."""
        chunk = answer_fields(data, "")
        if data.get("error"):
            return Verdict.ERROR
        self._usage.observe(data.get("usage"), data.get("service_tier"))
        self._begin(chunk)
        for choice in chunk.each("choices"):
            if choice.integer("index"):
                continue
            delta = choice.inner("delta")
            if delta is not None:
                self._delta(delta)
            reason = choice.text("finish_reason")
            if reason:
                self._stop = stops.FROM_CHAT.get(reason, "end")
        return Verdict.GOES_ON

    def finish(self) -> None:
        """The stream is whole."""
        self._end_words()
        self._blocks.close_all()
        stop = stops.settled(self._stop or "end", has_calls=bool(self._calls))
        self._sink.end(stop, None, self._usage.tokens(), self._usage.told_tier)

    def _begin(self, chunk: Fields) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        answer_id, model, created = chunk.text("id"), chunk.text("model"), chunk.number("created")
        self._id = answer_id or self._id
        self.model = model or None
        seconds = None if created is None else int(created)
        self._sink.begin(self._id, model or "", seconds, self._usage.told_tier)

    def _delta(self, delta: Fields) -> None:
        self._say("thinking", chat_reasoning.text_of(delta))
        for entry in delta.each("reasoning_details"):
            self._prove(chat_reasoning.from_detail(entry))
        for block in chat_answer.content_blocks(delta):
            self._say("text" if isinstance(block, Text) else "thinking", block.text)
        self._say("refusal", delta.text("refusal") or "")
        for call in delta.each("tool_calls"):
            self._call(call)

    def _say(self, kind: _Kind, text: str) -> None:
        if not text:
            return
        if self._words is None or self._words[0] != kind:
            self._end_words()
            self._end_complete_call()
            self._blocks_so_far += 1
            self._words = (kind, self._blocks_so_far)
            self._blocks.open(self._words, Head(kind))
        self._blocks.piece(self._words, text)

    def _prove(self, proof: Thinking | None) -> None:
        """What signs the thinking that is going on; sealed thinking without words is a block of its own."""
        if proof is None:
            return
        if proof.redacted is None and self._words is not None and self._words[0] == "thinking":
            self._proof = proof
            return
        self._end_words()
        self._end_complete_call()
        self._blocks_so_far += 1
        key = ("proof", self._blocks_so_far)
        self._blocks.open(key, Head("thinking", redacted=proof.redacted))
        self._blocks.piece(key, proof.text)
        self._blocks.close(key, proof)

    def _end_words(self) -> None:
        if self._words is not None:
            self._blocks.close(self._words, self._proof)
            self._words = self._proof = None

    def _end_complete_call(self) -> None:
        """Arguments that are whole cannot go on: what waits for their block need not wait any more."""
        key = self._blocks.current
        while isinstance(key, int) and self._calls[key].is_complete():
            self._blocks.close(key)
            key = self._blocks.current

    def _call(self, delta: Fields) -> None:
        custom = delta.inner("custom")
        inner = custom or delta.inner("function")
        name = (inner.text("name") if inner else None) or ""
        call = self._call_of(delta.integer("index"), delta.text("id") or "", name, custom is not None)
        if inner is None:
            return
        call.name = call.name or name
        text = inner.text("input" if call.is_custom else "arguments") or ""
        if text:
            call.pieces.append(text)
        if call.is_open:
            self._blocks.piece(call.key, text)
            if self._blocks.is_anything_waiting and self._blocks.current == call.key:
                self._end_complete_call()
        elif call.name:
            self._open(call)

    def _call_of(self, index: int | None, call_id: str, name: str, is_custom: bool) -> _Call:
        """The call a delta belongs to. Some vendors give no index, or the same to several calls: a new id, or a
        second name without one, is a new call."""
        if index is None:
            known = [key for key, call in self._calls.items() if call_id in {"", call.call_id}]
            begins = not known or (not call_id and name and self._calls[known[-1]].name)
            key = None if begins else known[-1]
        else:
            key = self._newest.get(index)
            if key is not None and name and call_id and self._calls[key].call_id != call_id:
                key = None
        if key is None:
            key = len(self._calls)
            made = call_id or chat_answer.missing_call_id(self._id, key)
            self._calls[key] = _Call(key, made, "", is_custom, [])
        if index is not None:
            self._newest[index] = key
        return self._calls[key]

    def _open(self, call: _Call) -> None:
        self._end_words()
        self._end_complete_call()
        call.is_open = True
        self._blocks.open(call.key, Head("tool", call.call_id, call.name, call.is_custom))
        self._blocks.piece(call.key, "".join(call.pieces))
