"""A stream of one dialect as a stream of another, event by event; independent of how the bytes were cut."""

from typing import Any

import msgspec
import orjson

from tidegate.events.money import Tokens
from tidegate.gateway.dialects import exact_numbers
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.chat_decoder import ChatDecoder
from tidegate.gateway.dialects.chat_encoder import DONE, ChatEncoder
from tidegate.gateway.dialects.decoder import Decoder, Verdict
from tidegate.gateway.dialects.encoder import Encoder, Silent
from tidegate.gateway.dialects.faults import AnswerMalformed
from tidegate.gateway.dialects.for_client import Context, Restoring
from tidegate.gateway.dialects.messages_decoder import MessagesDecoder
from tidegate.gateway.dialects.messages_encoder import MessagesEncoder
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.dialects.responses_decoder import ResponsesDecoder
from tidegate.gateway.dialects.responses_encoder import ResponsesEncoder
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.phases import Step
from tidegate.gateway.said import Said, is_plausible
from tidegate.gateway.sse import BOM, MAX_EVENT_BYTES, SseOverflow, UnitCutter, parse_unit, split_units
from tidegate.gateway.usage import UsageTally

MAX_HEAD_EVENTS = 4096
"""Events without content before the stream is given up."""
_DONE = b"[DONE]"
_OPENED = b'"content_block_start"'
"""May hold the whole input of a tool."""


def encoder_for(client: Wire, context: Context) -> Encoder:
    """What writes a client's dialect."""
    if client == "openai":
        return ChatEncoder(wants_usage=context.wants_usage)
    return MessagesEncoder() if client == "anthropic" else ResponsesEncoder(context.echo)


def decoder_for(upstream: Wire, sink: Restoring, usage: UsageTally, context: Context) -> Decoder:
    """What reads an upstream's dialect."""
    if upstream == "openai":
        return ChatDecoder(sink, usage, context.answer_id)
    return MessagesDecoder(sink, usage) if upstream == "anthropic" else ResponsesDecoder(sink, usage)


class StreamTranslator:
    """Takes whole SSE units. What it returns is `phases.Step`: nothing is forwarded before the first content.

    Chunks for a chat client from a chat upstream are passed on as they are: only the end is made, where a vendor
    makes none.
    """

    def __init__(self, upstream: Wire, client: Wire, context: Context, quirks: Quirks = PLAIN) -> None:
        self._upstream: Wire = upstream
        self._said = Said(upstream)
        self._usage = UsageTally("anthropic" if upstream == "anthropic" else "openai", context.usage_rules)
        self._encoder = encoder_for(client, context)
        self._passes_on = upstream == client == "openai"
        self._wants_usage = context.wants_usage
        self._sink = Restoring(Silent() if self._passes_on else self._encoder, context)
        self._decoder = decoder_for(upstream, self._sink, self._usage, context)
        self._ends_without_done = quirks.ends_without_done
        self._head_events = 0
        self._finished = False
        self._is_counted = upstream != "anthropic"
        """No output count is a placeholder any more."""
        self.committed = False
        """Content was seen: no failover any more."""

    @property
    def model(self) -> str | None:
        """The model the provider says it used."""
        return self._decoder.model

    @property
    def told_tier(self) -> str | None:
        """How the provider says it serves the request; None while it says nothing."""
        return self._usage.told_tier

    @property
    def content_events(self) -> int:
        """Pieces of content so far; about one output token each where the provider streams token by token."""
        return self._sink.pieces

    @property
    def said_bytes(self) -> int:
        """See Said."""
        return self._said.size_bytes

    @property
    def tokens(self) -> Tokens:
        """Usage reported so far; Anthropic's first output count is a placeholder and does not count, unless nothing
        came after it and the answer may have had so few."""
        tokens = self._usage.tokens()
        if self._is_counted:
            return tokens
        has_ended = self._decoder.has_finish_reason or self._finished
        if has_ended and is_plausible(tokens.output, self.content_events, self.said_bytes):
            return tokens
        return msgspec.structs.replace(tokens, output=None)

    def feed(self, unit: bytes) -> Step:
        """One unit as `sse.split_units` cuts them."""
        name, data = parse_unit(unit)
        if self._finished or not data:
            return Step(committed=self.committed, finished=self._finished)
        if self._upstream == "openai" and data.strip() == _DONE:
            return self._finish()
        event = _event(name, data, self._upstream)
        if event is None:
            return self._stop(fault="an event is not a JSON object")
        try:
            verdict = self._decoder.read(event)
        except (AnswerMalformed, orjson.JSONEncodeError) as error:
            return self._stop(fault=str(error))
        if verdict is Verdict.ERROR:
            return self._stop(error=_error(event))
        self._said.add(unit)
        self._is_counted = self._is_counted or _closes_count(event)
        if self._passes_on and (self._wants_usage or event.get("usage") is None or event.get("choices")):
            self._encoder.out.append(b"data: %b\n\n" % data.replace(b"\n", b"\ndata: "))
        return self._finish() if verdict is Verdict.TERMINAL else self._go_on()

    def feed_last(self, rest: bytes) -> Step:
        """The upstream body ended; `rest` is a unit that lacks its blank line, or empty. Without a terminal event
        the stream was cut: `rest` counts only if it is a whole event."""
        forward = b""
        name, data = parse_unit(rest)
        if data is not None and not self._finished:
            is_done = self._upstream == "openai" and data.strip() == _DONE
            if is_done or _event(name, data, self._upstream) is not None:
                step = self.feed(rest)
                if self._finished:
                    return step
                forward = step.forward
        is_whole = self._ends_without_done and self._decoder.has_finish_reason and not self._finished
        last = self._finish() if is_whole else self._stop()
        return msgspec.structs.replace(last, forward=forward + last.forward)

    def error_event(self, error: GatewayError) -> bytes:
        """The one event that tells a client whose stream has begun of a failure."""
        return self._encoder.error_event(error)

    def _finish(self) -> Step:
        try:
            self._decoder.finish()
        except (AnswerMalformed, orjson.JSONEncodeError) as error:
            return self._stop(fault=str(error))
        self._finished = True
        terminal = DONE if self._passes_on else self._encoder.terminal
        return Step(self._take(), self._commit(), terminal, finished=True)

    def _go_on(self) -> Step:
        if self._commit():
            return Step(self._take(), committed=True)
        self._head_events += 1
        if self._head_events > MAX_HEAD_EVENTS:
            return self._stop(fault=f"no content within {MAX_HEAD_EVENTS} events")
        return Step()

    def _commit(self) -> bool:
        self.committed = self._sink.pieces > 0
        return self.committed

    def _take(self) -> bytes:
        out = b"".join(self._encoder.out)
        self._encoder.out.clear()
        return out

    def _stop(self, *, error: dict[str, Any] | None = None, fault: str | None = None) -> Step:
        """What was made of a stream that broke is sent only when the client has seen a part of it."""
        self._finished = True
        forward = self._take() if self._commit() else b""
        return Step(forward, self.committed, error=error, fault=fault, finished=True)


def _event(name: bytes, data: bytes, upstream: Wire) -> dict[str, Any] | None:
    """The event's object, its `type` filled in from the event's name; None when it is no object."""
    try:
        event = exact_numbers.exactly(data) if _OPENED in data else exact_numbers.parsed(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict):
        return None
    if upstream == "openai":
        return {"error": event} if name == b"error" and not event.get("error") else event
    if event.get("type") is None:
        event["type"] = name.decode("utf-8", "replace")
    return event


def _closes_count(event: dict[str, Any]) -> bool:
    """Anthropic's closing delta replaces the count that its first event gave."""
    usage = event.get("usage") if event["type"] == "message_delta" else None
    return isinstance(usage, dict) and usage.get("output_tokens") is not None


def _error(event: dict[str, Any]) -> dict[str, Any]:
    """An error event as the object that `taxonomy` reads: `{"error": {...}}`."""
    response = event.get("response")
    if isinstance(response, dict) and isinstance(response.get("error"), dict):
        return {"error": response["error"]}
    if event.get("error"):
        return event
    return {"error": {name: value for name, value in event.items() if name not in {"type", "response"}}}


class TranslatedPhases:
    """A drop-in for `phases.StreamPhases` when client and upstream speak different dialects."""

    def __init__(
        self,
        upstream: Wire,
        client: Wire,
        context: Context,
        *,
        quirks: Quirks = PLAIN,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self._translator = StreamTranslator(upstream, client, context, quirks)
        self._cutter = UnitCutter(max_event_bytes)
        self._at_start = True
        self._finished = False

    @property
    def committed(self) -> bool:
        """Content was seen: no failover any more."""
        return self._translator.committed

    @property
    def content_events(self) -> int:
        """See StreamTranslator."""
        return self._translator.content_events

    @property
    def said_bytes(self) -> int:
        """See StreamTranslator."""
        return self._translator.said_bytes

    @property
    def told_tier(self) -> str | None:
        """See StreamTranslator."""
        return self._translator.told_tier

    @property
    def model(self) -> str | None:
        """See StreamTranslator."""
        return self._translator.model

    @property
    def tokens(self) -> Tokens:
        """See StreamTranslator."""
        return self._translator.tokens

    def feed(self, data: bytes) -> Step:
        """Bytes as they were read (never empty)."""
        if self._finished:
            return Step(committed=self.committed, finished=True)
        try:
            block = self._cutter.take(data)
        except SseOverflow as error:
            self._finished = True
            return Step(committed=self.committed, fault=str(error), finished=True)
        forward: list[bytes] = []
        for unit in split_units(block):
            step = self._translator.feed(self._without_bom(unit))
            forward.append(step.forward)
            if step.finished:
                self._finished = True
                return msgspec.structs.replace(step, forward=b"".join(forward))
        return Step(b"".join(forward), self.committed)

    def end(self) -> Step:
        """The upstream body ended."""
        if self._finished:
            return Step(committed=self.committed, finished=True)
        self._finished = True
        return self._translator.feed_last(self._without_bom(self._cutter.rest()))

    def error_event(self, error: GatewayError) -> bytes:
        """See StreamTranslator."""
        return self._translator.error_event(error)

    def _without_bom(self, unit: bytes) -> bytes:
        if not self._at_start:
            return unit
        self._at_start = False
        return unit.removeprefix(BOM)
