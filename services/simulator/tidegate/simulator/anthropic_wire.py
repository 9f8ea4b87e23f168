"""Writes Anthropic messages: bodies, events, errors and `anthropic-ratelimit-*` headers."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from tidegate.simulator import anthropic_ask, sse
from tidegate.simulator.actions import Headers
from tidegate.simulator.answer import Answer, Part, call_id, tool_input
from tidegate.simulator.ask import Ask
from tidegate.simulator.config import Dialect
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.tokens import TokenClasses
from tidegate.simulator.windows import WindowState, tightest
from tidegate.simulator.wire import Event

_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool": "tool_use",
    "refusal": "refusal",
    "filter": "refusal",
    "sequence": "stop_sequence",
}
_DELTA = {
    "reasoning": ("thinking_delta", "thinking"),
    "text": ("text_delta", "text"),
    "refusal": ("text_delta", "text"),
    "tool": ("input_json_delta", "partial_json"),
    "search": ("input_json_delta", "partial_json"),
}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_LONG_S = 3600.0


class AnthropicWire:
    """The dialect of `POST /v1/messages`."""

    dialect: Dialect = "anthropic"
    endpoint: str = "anthropic"

    def read(self, body: bytes) -> Ask:
        """Body to Ask. Raises Refusal 400."""
        return anthropic_ask.read(body)

    def whole(self, answer: Answer) -> bytes:
        """A `message`."""
        content = [_block(answer, part) for part in _shown(answer)]
        body = _message(answer, content, _FINISH[answer.finish])
        if answer.show_usage:
            body["usage"] = usage(answer.tokens, answer.tokens.output, answer.service_tier)
        return orjson.dumps(body)

    def events(self, answer: Answer, size_tokens: int) -> Iterator[Event]:
        """`message_start`, `ping`, content blocks, `message_delta` (cumulative output), `message_stop`."""
        start = _message(answer, [], None)
        if answer.show_usage:
            # The vendor counts a token here that message_delta counts again: the latter is cumulative.
            start["usage"] = usage(answer.tokens, min(answer.tokens.output, 1), answer.service_tier)
        yield Event("open", _event("message_start", message=start), 0)
        yield Event("open", self.keep_alive(), 0)
        yield from _blocks(answer, size_tokens)
        total = answer.tokens.output
        delta = {"stop_reason": _FINISH[answer.finish], "stop_sequence": answer.stop}
        fields: dict[str, Any] = {"delta": delta}
        if answer.show_usage:
            fields["usage"] = {"output_tokens": total, **_searched(answer.tokens)}
        yield Event("close", _event("message_delta", **fields), total)
        yield Event("terminal", _event("message_stop"), total)

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        """An `error` envelope with the request id."""
        kind = refusal.kind or _KINDS.get(refusal.status, "api_error")
        fields = {"type": kind, "message": refusal.message}
        return orjson.dumps({"type": "error", "error": fields, "request_id": f"req_{request_id}"})

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        """The envelope as an `error` event."""
        return sse.event(self.error(refusal, request_id), b"error")

    def keep_alive(self) -> bytes:
        """A `ping` event."""
        return _event("ping")

    def headers(
        self, request_id: str, states: Sequence[WindowState], pending_tokens: int, now_s: float
    ) -> Headers:
        """`request-id`, the tightest short window per unit, each long window as a unified utilization."""
        lines: Headers = [(b"request-id", f"req_{request_id}".encode())]
        short = [state for state in states if state.nominal_s < _LONG_S and state.told == "count"]
        for unit, pending in (("requests", 0), ("tokens", pending_tokens)):
            state = tightest(short, unit)
            if state is not None:
                lines += _unit_headers(unit, state, pending, now_s)
        for state in states:
            if state.nominal_s >= _LONG_S or state.told == "percent":
                lines += _unified_headers(state, now_s)
        return lines


def usage(tokens: TokenClasses, output_tokens: int, tier: str | None = None) -> dict[str, Any]:
    """Anthropic's disjoint input counts and the output so far; `fast` is a speed here, not a tier."""
    told = {"service_tier": tier or "standard"}
    if tier == "fast":
        told = {"service_tier": "standard", "speed": "fast"}
    return {
        "input_tokens": tokens.input_uncached,
        "cache_creation_input_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write_5m,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        },
        "output_tokens": output_tokens,
        **_searched(tokens),
        **told,
    }


def _searched(tokens: TokenClasses) -> dict[str, Any]:
    """Only of who searched; the closing delta tells it, too."""
    if not tokens.web_searches:
        return {}
    return {"server_tool_use": {"web_search_requests": tokens.web_searches}}


def instant(moment_s: float) -> str:
    """Unix seconds as RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(round(moment_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unit_headers(unit: str, state: WindowState, pending: int, now_s: float) -> Headers:
    name = f"anthropic-ratelimit-{unit}"
    reset_s = now_s + state.duration_s if state.reset_s is None else state.reset_s
    return [
        (f"{name}-limit".encode(), b"%d" % state.limit),
        (f"{name}-remaining".encode(), b"%d" % max(state.remaining - pending, 0)),
        (f"{name}-reset".encode(), instant(reset_s).encode()),
    ]


def _unified_headers(state: WindowState, now_s: float) -> Headers:
    name = f"anthropic-ratelimit-unified-{state.name}"
    reset_s = now_s + state.duration_s if state.reset_s is None else state.reset_s
    share = f"{state.used / state.limit:.4f}" if state.told == "count" else f"{state.percent / 100:.2f}"
    return [
        (f"{name}-status".encode(), b"allowed" if state.remaining else b"rejected"),
        (f"{name}-utilization".encode(), share.encode()),
        (f"{name}-reset".encode(), b"%d" % round(reset_s)),
    ]


def _shown(answer: Answer) -> list[Part]:
    """The parts that become blocks: the dialect knows no empty ones, except of calls."""
    return [
        part
        for part in answer.parts
        if (part.text or part.seal or part.kind == "tool") and part.kind != "opened"
    ]


def _blocks(answer: Answer, size_tokens: int) -> Iterator[Event]:
    produced = answer.silent_tokens
    for index, part in enumerate(_shown(answer)):
        block = _opened(answer, part)
        yield Event("open", _event("content_block_start", index=index, content_block=block), produced)
        if part.kind in ("redacted", "found") or not part.text:
            produced += part.tokens
        else:
            delta_type, field = _DELTA[part.kind]
            delta = {"type": delta_type, field: sse.Template.BLANK}
            template = sse.Template(_event("content_block_delta", index=index, delta=delta))
            text = _query(part) if part.kind == "search" else part.text
            for piece in part._replace(text=text).pieces(size_tokens):
                produced += piece.tokens if part.tokens else 0
                yield Event("content", template.fill(piece.text), produced)
        yield from _block_end(part, index, produced)


def _block_end(part: Part, index: int, produced: int) -> Iterator[Event]:
    if part.kind == "reasoning":
        delta = {"type": "signature_delta", "signature": part.seal}
        yield Event("close", _event("content_block_delta", index=index, delta=delta), produced)
    yield Event("close", _event("content_block_stop", index=index), produced)


def _opened(answer: Answer, part: Part) -> dict[str, Any]:
    match part.kind:
        case "tool":
            return {**_tool_block(answer, part), "input": {}}
        case "reasoning":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "redacted" | "found":
            return _block(answer, part)
        case "search":
            return {**_block(answer, part), "input": {}}
        case _:
            return {"type": "text", "text": ""}


def _block(answer: Answer, part: Part) -> dict[str, Any]:
    match part.kind:
        case "tool":
            return {**_tool_block(answer, part), "input": tool_input(part)}
        case "reasoning":
            return {"type": "thinking", "thinking": part.text, "signature": part.seal}
        case "redacted":
            return {"type": "redacted_thinking", "data": part.seal}
        case "search":
            identity = f"srvtoolu_{_search_id(answer, part)}"
            return {
                "type": "server_tool_use",
                "id": identity,
                "name": "web_search",
                "input": {"query": part.text},
            }
        case "found":
            return _found(answer, part)
        case _:
            return {"type": "text", "text": part.text}


def _query(part: Part) -> str:
    return orjson.dumps({"query": part.text}).decode()


def _search_id(answer: Answer, part: Part) -> str:
    place = next(number for number, own in enumerate(answer.parts) if own.text == part.text)
    return f"{answer.id}{place:x}"


def _found(answer: Answer, part: Part) -> dict[str, Any]:
    """What a search found, encrypted but for title and address."""
    page = {
        "type": "web_search_result",
        "title": part.text,
        "url": "https://tides.example/today",
        "encrypted_content": _search_id(answer, part),
        "page_age": None,
    }
    identity = f"srvtoolu_{_search_id(answer, part)}"
    return {"type": "web_search_tool_result", "tool_use_id": identity, "content": [page]}


def _tool_block(answer: Answer, part: Part) -> dict[str, Any]:
    place = next(number for number, call in enumerate(answer.calls) if call is part)
    return {"type": "tool_use", "id": f"toolu_{call_id(answer, place)}", "name": part.name}


def _message(answer: Answer, content: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": finish,
        "stop_sequence": answer.stop if finish else None,
    }


def _event(name: str, **fields: Any) -> bytes:
    return sse.event(orjson.dumps({"type": name, **fields}), name.encode())
