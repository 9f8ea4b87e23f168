"""The three phases of an upstream stream: head held until content, body relayed at once, tail held; pure."""

from typing import Any

import msgspec

from tidegate.events.money import Tokens
from tidegate.events.types import Dialect
from tidegate.gateway.responses_events import ResponsesEvents
from tidegate.gateway.said import Said, is_plausible
from tidegate.gateway.sse import BOM, MAX_EVENT_BYTES, SseOverflow, UnitCutter, parse_unit, split_units
from tidegate.gateway.stream_events import AnthropicEvents, Meaning, OpenAiEvents, Reading, Vocabulary
from tidegate.gateway.usage_rules import UsageRules

MAX_HEAD_BYTES = 64 * 1024
_VOCABULARIES: dict[Dialect, Vocabulary] = {
    "openai": OpenAiEvents(),
    "anthropic": AnthropicEvents(),
    "openai-responses": ResponsesEvents(),
}


class Step(msgspec.Struct, frozen=True, gc=False):
    """What to do after a read, in this order.

    `forward`: bytes for the client, always up to the end of a whole event or comment line (so an error event
    may follow). `committed`: content was seen, in this read or before: no failover any more. `terminal`: the
    event to send when the settlement is durable. `error`: a typed error event of the provider, parsed.
    `fault`: the stream cannot be followed further. `finished`: nothing more will come of this stream.
    """

    forward: bytes = b""
    committed: bool = False
    terminal: bytes | None = None
    error: dict[str, Any] | None = None
    fault: str | None = None
    finished: bool = False


class StreamPhases:
    """State machine over the bytes of one upstream stream; the output does not depend on how they are cut.

    Forwarded bytes are untouched; an OpenAI usage chunk the client did not ask for is left out. Everything
    after the terminal event is dropped.
    """

    __slots__ = (
        "_at_start",
        "_cutter",
        "_drop_lf",
        "_finished",
        "_head",
        "_head_bytes",
        "_opening",
        "_reading",
        "_said",
        "_vocabulary",
        "committed",
        "content_events",
    )

    def __init__(
        self,
        dialect: Dialect,
        *,
        client_wants_usage: bool,
        max_event_bytes: int = MAX_EVENT_BYTES,
        usage_rules: UsageRules | None = None,
    ) -> None:
        self._vocabulary = _VOCABULARIES[dialect]
        self._said = Said(dialect)
        self._reading = Reading(dialect, client_wants_usage=client_wants_usage, usage_rules=usage_rules)
        self._cutter = UnitCutter(max_event_bytes)
        self._head: list[bytes] = []
        self._head_bytes = 0
        self._at_start = True
        self._opening = b""
        self._drop_lf = False
        self._finished = False
        self.committed = False
        self.content_events = 0
        """Events with content so far; about one output token each where the provider streams token by token."""

    @property
    def said_bytes(self) -> int:
        """See Said."""
        if self._opening:
            self._said.add(self._opening)
            self._opening = b""
        return self._said.size_bytes

    @property
    def model(self) -> str | None:
        """The model the provider says it used."""
        return self._reading.model

    @property
    def told_tier(self) -> str | None:
        """How the provider says it serves the request; None while it says nothing."""
        return self._reading.usage.told_tier

    @property
    def tokens(self) -> Tokens:
        """Usage reported so far.

        Anthropic's first event already counts an output token; that count is a placeholder until the closing
        delta, unless the stream ended properly without one and may have had so few.
        """
        tokens = self._reading.usage.tokens()
        if not self._reading.output_is_final:
            return msgspec.structs.replace(tokens, output=None)
        return tokens

    def feed(self, data: bytes) -> Step:
        """Bytes as they were read (never empty)."""
        if self._finished:
            return Step(committed=self.committed, finished=True)
        try:
            block = self._cutter.take(data)
        except SseOverflow as error:
            return self._stop(fault=str(error))
        if self._drop_lf and block:
            # The event we removed ended in CR; this LF was a part of that line end.
            self._drop_lf = False
            block = block.removeprefix(b"\n")
        if not block:
            return Step(committed=self.committed)
        if self.committed and not self._vocabulary.may_matter(block):
            self.content_events += block.count(self._vocabulary.content_mark)
            self._said.add(block)
            return Step(block, committed=True)
        return self._read_units(block)

    def end(self) -> Step:
        """The upstream body ended. A terminal event that only lacks its blank line is completed; without a
        terminal event the stream was cut, and what was held is dropped."""
        if self._finished:
            return Step(committed=self.committed, finished=True)
        rest = self._cutter.rest()
        meaning = self._meaning_of(rest) if rest else Meaning.OTHER
        if meaning is Meaning.TERMINAL:
            return self._stop(self._flush([]), terminal=_completed(rest))
        return self._stop(error=self._reading.error)

    def _read_units(self, block: bytes) -> Step:
        out: list[bytes] = []
        at, size = 0, len(block)
        for unit in split_units(block):
            at += len(unit)
            meaning = self._meaning_of(unit)
            if meaning is Meaning.CONTENT and not self.committed:
                self.committed = True
                out = [*self._head, *out]
                self._head.clear()
            if meaning is Meaning.CONTENT or meaning is Meaning.OTHER:
                out.append(unit)
            elif meaning is Meaning.UNASKED_USAGE:
                self._drop_lf = at == size and unit.endswith(b"\r")
            elif meaning is not Meaning.TERMINAL:
                return self._broken(meaning, out)
            elif at < size or not unit.endswith(b"\r") or self._cutter.rest():
                return self._stop(self._flush(out), terminal=unit)
            else:
                self._cutter.put_back(unit)  # an LF may belong to it: wait for the next byte, or the end
        return self._go_on(out)

    def _meaning_of(self, unit: bytes) -> Meaning:
        if self.committed and not self._vocabulary.may_matter(unit):
            self.content_events += unit.count(self._vocabulary.content_mark)
            self._said.add(unit)
            return Meaning.OTHER
        if self._at_start:
            self._at_start = False
            unit = unit.removeprefix(BOM)
        name, data = parse_unit(unit)
        if not data:
            return Meaning.OTHER
        meaning = self._vocabulary.read(name, data, self._reading)
        if meaning is Meaning.CONTENT:
            self.content_events += 1
            if self.committed:
                self._said.add(unit)
            else:
                self._opening = unit  # measured when it is asked for: the first token does not wait for that
        return meaning

    def _go_on(self, out: list[bytes]) -> Step:
        if self.committed:
            return Step(b"".join(out), committed=True)
        self._head += out
        self._head_bytes += sum(map(len, out))
        if self._head_bytes > MAX_HEAD_BYTES:
            return self._stop(fault=f"no content within {MAX_HEAD_BYTES} bytes")
        return Step()

    def _broken(self, meaning: Meaning, out: list[bytes]) -> Step:
        forward = b"".join(out) if self.committed else b""
        if meaning is Meaning.ERROR:
            return self._stop(forward, error=self._reading.error)
        return self._stop(forward, fault="an event is not a JSON object")

    def _flush(self, out: list[bytes]) -> bytes:
        """Everything before the terminal event, also when no content came."""
        if self.committed:
            return b"".join(out)
        return b"".join([*self._head, *out])

    def _stop(
        self,
        forward: bytes = b"",
        *,
        terminal: bytes | None = None,
        error: dict[str, Any] | None = None,
        fault: str | None = None,
    ) -> Step:
        self._finished = True
        if terminal is not None and not self._reading.output_is_final:
            counted = self._reading.usage.tokens().output
            self._reading.output_is_final = is_plausible(counted, self.content_events, self.said_bytes)
        return Step(forward, self.committed, terminal, error, fault, finished=True)


def _completed(event: bytes) -> bytes:
    """An event that the end of the stream cut, with the blank line it lacks."""
    last = event.splitlines(keepends=True)[-1]
    text = last.rstrip(b"\r\n")
    if not text:
        return event
    return event + (last[len(text) :] or b"\n\n")
