"""Writes OpenAI responses: bodies and the whole sequence of their events."""

from collections.abc import Iterator
from typing import Any

import orjson

from tidegate.simulator import responses_ask, sse
from tidegate.simulator.answer import Answer, Part
from tidegate.simulator.ask import Ask
from tidegate.simulator.config import Dialect
from tidegate.simulator.openai_wire import OpenAiWire
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.responses_items import Item, Output, content_part, outputs
from tidegate.simulator.stored import AnswerStore
from tidegate.simulator.tokens import TokenClasses
from tidegate.simulator.wire import Event, Stage

_INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}


class ResponsesWire(OpenAiWire):
    """The dialect of `POST /v1/responses`; errors and headers are those of chat completions."""

    dialect: Dialect = "responses"
    endpoint: str = "responses"

    def __init__(self, store: AnswerStore) -> None:
        super().__init__()
        self._store = store

    def read(self, body: bytes) -> Ask:
        """Body to Ask. Raises Refusal 400."""
        return responses_ask.read(body, self._store)

    def whole(self, answer: Answer) -> bytes:
        """A `response`, kept unless the request says otherwise."""
        return orjson.dumps(self._finished(answer, outputs(answer)))

    def events(self, answer: Answer, size_tokens: int) -> Iterator[Event]:
        """`response.created`, every item from its opening to its end, `response.completed` or `.incomplete`."""
        script = _Script(answer)
        opened = _response(answer, "in_progress", [])
        yield script.event("open", "response.created", response=opened)
        yield script.event("open", "response.in_progress", response=opened)
        made = outputs(answer)
        for place, output in enumerate(made):
            yield script.event("open", "response.output_item.added", output_index=place, item=output.opened)
            yield from script.item(output, place, size_tokens)
            yield script.event("close", "response.output_item.done", output_index=place, item=output.closed)
        script.produced = answer.tokens.output
        response = self._finished(answer, made)
        yield script.event("terminal", f"response.{response['status']}", response=response)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        """An `error` event; it ends the stream."""
        fields = orjson.loads(self.error(refusal, request_id))["error"]
        data = {**fields, "type": "error", "sequence_number": 0}
        return sse.event(orjson.dumps(data), b"error")

    def _finished(self, answer: Answer, made: list[Output]) -> dict[str, Any]:
        items = [output.closed for output in made]
        reason = _INCOMPLETE.get(answer.finish)
        response = _response(answer, "completed" if reason is None else "incomplete", items)
        if reason is not None:
            response["incomplete_details"] = {"reason": reason}
        if answer.show_usage:
            response["usage"] = usage(answer.tokens)
        if response["store"]:
            kept = [{**item, "kept": True} for item in items]
            self._store.keep(response["id"], [*answer.echo.get("items", ()), *kept])
        return response


class _Script:
    """Numbers the events of one answer and counts the tokens that are out."""

    def __init__(self, answer: Answer) -> None:
        self.produced = 0
        self._silent = answer.silent_tokens
        self._number = 0

    def event(self, stage: Stage, kind: str, **fields: Any) -> Event:
        """The next event."""
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return Event(stage, sse.event(orjson.dumps(data), kind.encode()), self.produced)

    def item(self, output: Output, place: int, size_tokens: int) -> Iterator[Event]:
        """What happens between an item's opening and its end."""
        self.produced, self._silent = self.produced + self._silent, 0
        at = {"item_id": output.opened["id"], "output_index": place}
        match output.opened["type"]:
            case "reasoning":
                yield from self._reasoning(output, at, size_tokens)
            case "message":
                for number, part in enumerate(output.parts):
                    yield from self._spoken(part, {**at, "content_index": number}, size_tokens)
            case "web_search_call":
                for state in ("in_progress", "searching", "completed"):
                    yield self.event("open", f"response.web_search_call.{state}", **at)
            case "custom_tool_call":
                (part,) = output.parts
                yield from self._deltas(part, "response.custom_tool_call_input", at, size_tokens)
                yield self.event("close", "response.custom_tool_call_input.done", **at, input=part.text)
            case _:
                (part,) = output.parts
                yield from self._deltas(part, "response.function_call_arguments", at, size_tokens)
                done = {**at, "name": part.name, "arguments": part.text}
                yield self.event("close", "response.function_call_arguments.done", **done)

    def _reasoning(self, output: Output, at: Item, size_tokens: int) -> Iterator[Event]:
        if not output.closed["summary"]:
            self.produced += sum(part.tokens for part in output.parts)
            return
        (part,) = output.parts
        at = {**at, "summary_index": 0}
        kind = "response.reasoning_summary"
        blank = {"type": "summary_text", "text": ""}
        yield self.event("open", f"{kind}_part.added", **at, part=blank)
        yield from self._deltas(part, f"{kind}_text", at, size_tokens)
        yield self.event("close", f"{kind}_text.done", **at, text=part.text)
        yield self.event("close", f"{kind}_part.done", **at, part={**blank, "text": part.text})

    def _spoken(self, part: Part, at: Item, size_tokens: int) -> Iterator[Event]:
        yield self.event("open", "response.content_part.added", **at, part=content_part(part, ""))
        if part.kind == "refusal":
            yield from self._deltas(part, "response.refusal", at, size_tokens)
            yield self.event("close", "response.refusal.done", **at, refusal=part.text)
        else:
            yield from self._deltas(part, "response.output_text", {**at, "logprobs": []}, size_tokens)
            yield self.event("close", "response.output_text.done", **at, text=part.text, logprobs=[])
        yield self.event("close", "response.content_part.done", **at, part=content_part(part, part.text))

    def _deltas(self, part: Part, kind: str, at: Item, size_tokens: int) -> Iterator[Event]:
        for piece in part.pieces(size_tokens):
            self.produced += piece.tokens
            yield self.event("content", f"{kind}.delta", **at, delta=piece.text)


def usage(tokens: TokenClasses) -> dict[str, Any]:
    """Overlapping counts: cached tokens are part of the input, reasoning of the output."""
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total,
    }


def _response(answer: Answer, status: str, items: list[Item]) -> dict[str, Any]:
    echo = answer.echo
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created_s,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": echo.get("instructions"),
        "max_output_tokens": echo.get("max_output_tokens"),
        "model": answer.model,
        "output": items,
        "parallel_tool_calls": echo.get("parallel_tool_calls", True),
        "previous_response_id": echo.get("previous_response_id"),
        "prompt_cache_key": echo.get("prompt_cache_key"),
        "reasoning": {"effort": None, "summary": None, **(echo.get("reasoning") or {})},
        "service_tier": answer.service_tier or "default",
        "store": echo.get("store", True) is not False,
        "temperature": echo.get("temperature", 1.0),
        "text": echo.get("text") or {"format": {"type": "text"}},
        "tool_choice": echo.get("tool_choice", "auto"),
        "tools": echo.get("tools", []),
        "top_p": echo.get("top_p", 1.0),
        "truncation": echo.get("truncation", "disabled"),
        "usage": None,
        "metadata": echo.get("metadata") or {},
    }
