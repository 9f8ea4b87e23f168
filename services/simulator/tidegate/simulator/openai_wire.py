"""Writes OpenAI chat completions: bodies, chunks, errors and `x-ratelimit-*` headers."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from tidegate.simulator import openai_ask, sse
from tidegate.simulator.actions import Headers
from tidegate.simulator.answer import Answer, Part, PartKind, call_id
from tidegate.simulator.ask import Ask
from tidegate.simulator.config import Dialect, ReasoningField
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.tokens import TokenClasses
from tidegate.simulator.windows import WindowState, tightest
from tidegate.simulator.wire import Event

_FINISH = {"tool": "tool_calls", "length": "length", "filter": "content_filter"}
# status: (type, code), as the vendor and the servers that copy it send them
_KINDS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_balance"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    408: ("server_error", "timeout"),
    413: ("invalid_request_error", "request_too_large"),
    422: ("invalid_request_error", "unprocessable_entity"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    502: ("server_error", "bad_gateway"),
    503: ("server_error", "service_unavailable"),
    504: ("server_error", "timeout"),
    529: ("server_error", "overloaded"),
}


class OpenAiWire:
    """The dialect of `POST /v1/chat/completions`; the field of shown reasoning is a habit of the provider."""

    dialect: Dialect = "openai"
    endpoint: str = "openai"

    def __init__(self, reasoning_field: ReasoningField = "reasoning_content") -> None:
        self._reasoning_field = reasoning_field

    def read(self, body: bytes) -> Ask:
        """Body to Ask. Raises Refusal 400."""
        return openai_ask.read(body)

    def whole(self, answer: Answer) -> bytes:
        """A `chat.completion`."""
        calls = [_call(answer, place, part.text) for place, part in enumerate(answer.calls)]
        text, refusal, thoughts = (answer.joined(kind) for kind in ("text", "refusal", "reasoning"))
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or (None if calls or refusal else ""),
            "refusal": refusal or None,
        }
        if calls:
            message["tool_calls"] = calls
        if answer.joined("opened"):
            message["annotations"] = [_citation(answer.joined("opened"))]
        if thoughts and self._reasoning_field != "none":
            message[self._reasoning_field] = thoughts
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _logprobs(text) if answer.logprobs and text else None,
            "finish_reason": _FINISH.get(answer.finish, "stop"),
        }
        body = _envelope(answer, "chat.completion", [choice])
        if answer.show_usage:
            body["usage"] = usage(answer.tokens)
        return orjson.dumps(body)

    def events(self, answer: Answer, size_tokens: int) -> Iterator[Event]:
        """Role chunk, content chunks, finish chunk, usage chunk where asked for, and `[DONE]`."""
        yield Event("open", _chunk(answer, {"role": "assistant", "content": "", "refusal": None}), 0)
        produced, calls, silent = 0, 0, answer.silent_tokens
        for part in answer.parts:
            if part.kind == "tool":
                yield Event("open", _chunk(answer, {"tool_calls": [_opened(answer, calls)]}), produced)
                calls += 1
            # A call is announced before what is thought in silence, its arguments come after it.
            produced, silent = produced + silent, 0
            delta = self._delta(part.kind, calls - 1, custom=part.custom)
            if delta is None:
                produced += part.tokens
                continue
            template = sse.Template(_chunk(answer, delta))
            for piece in part.pieces(size_tokens):
                produced += piece.tokens
                if answer.logprobs and part.kind == "text":
                    data = _chunk(answer, {"content": piece.text}, logprobs=_logprobs(piece.text))
                else:
                    data = template.fill(piece.text)
                yield Event("content", data, produced)
        total = answer.tokens.output
        yield Event("close", _chunk(answer, {}, _FINISH.get(answer.finish, "stop")), total)
        if answer.show_usage:
            body = _envelope(answer, "chat.completion.chunk", [])
            body["usage"] = usage(answer.tokens)
            yield Event("close", sse.event(orjson.dumps(body)), total)
        yield Event("terminal", sse.event(b"[DONE]"), total)

    def _delta(self, kind: PartKind, place: int, *, custom: bool) -> dict[str, Any] | None:
        """The delta of a kind with a blank for its text; None for what the dialect does not show."""
        match kind:
            case "text":
                return {"content": sse.Template.BLANK}
            case "refusal":
                return {"refusal": sse.Template.BLANK}
            case "tool":
                field = {"input": sse.Template.BLANK} if custom else {"arguments": sse.Template.BLANK}
                return {"tool_calls": [{"index": place, ("custom" if custom else "function"): field}]}
            case "reasoning" if self._reasoning_field != "none":
                return {self._reasoning_field: sse.Template.BLANK}
            case _:
                return None

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        """An `error` object; the request id is in a header only."""
        kind, code = _KINDS.get(refusal.status, ("server_error", None))
        fields = {
            "message": refusal.message,
            "type": refusal.kind or refusal.unit or kind,
            "param": refusal.param,
            "code": refusal.code or code,
        }
        return orjson.dumps({"error": fields})

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        """The error object as a data line."""
        return sse.event(self.error(refusal, request_id))

    def keep_alive(self) -> bytes:
        """A comment, as aggregators send it."""
        return sse.comment(b"keep-alive")

    def headers(
        self, request_id: str, states: Sequence[WindowState], pending_tokens: int, now_s: float
    ) -> Headers:
        """`x-request-id`, and per unit the tightest window as limit, remaining, and time to its reset; windows told in
        percents as a coding plan's `primary` and `secondary`."""
        lines: Headers = [(b"x-request-id", f"req_{request_id}".encode())]
        counted = [state for state in states if state.told == "count"]
        lines += _plan_headers([state for state in states if state.told == "percent"], now_s)
        for unit, pending in (("requests", 0), ("tokens", pending_tokens)):
            state = tightest(counted, unit)
            if state is None:
                continue
            rest_s = state.duration_s if state.reset_s is None else state.reset_s - now_s
            lines += [
                (f"x-ratelimit-limit-{unit}".encode(), b"%d" % state.limit),
                (f"x-ratelimit-remaining-{unit}".encode(), b"%d" % max(state.remaining - pending, 0)),
                (f"x-ratelimit-reset-{unit}".encode(), span(rest_s).encode()),
            ]
        return lines


def _plan_headers(states: list[WindowState], now_s: float) -> Headers:
    lines: Headers = []
    shortest_first = sorted(states, key=lambda state: state.nominal_s)
    for name, state in zip(("primary", "secondary"), shortest_first, strict=False):
        rest_s = state.duration_s if state.reset_s is None else state.reset_s - now_s
        lines += [
            (f"x-codex-{name}-used-percent".encode(), b"%d" % state.percent),
            (f"x-codex-{name}-window-minutes".encode(), b"%d" % round(state.nominal_s / 60)),
            (f"x-codex-{name}-reset-after-seconds".encode(), b"%d" % max(math.ceil(rest_s), 0)),
        ]
    return lines


def usage(tokens: TokenClasses) -> dict[str, Any]:
    """OpenAI's overlapping counts: cached tokens are part of the prompt, reasoning of the completion."""
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.total,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def span(duration_s: float) -> str:
    """A duration as OpenAI's headers write it: `120ms`, `7.5s`, `6m0s`, `5h0m0s`."""
    milliseconds = max(round(duration_s * 1000), 0)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _envelope(answer: Answer, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": answer.created_s,
        "model": answer.model,
        "service_tier": answer.service_tier or "default",
        "system_fingerprint": "fp_sim",
        "choices": choices,
    }


def _chunk(
    answer: Answer, delta: dict[str, Any], finish: str | None = None, logprobs: dict[str, Any] | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    body = _envelope(answer, "chat.completion.chunk", [choice])
    if answer.show_usage:
        body["usage"] = None
    return sse.event(orjson.dumps(body))


def _call(answer: Answer, place: int, text: str) -> dict[str, Any]:
    part = answer.calls[place]
    identity = f"call_{call_id(answer, place)}"
    if part.custom:
        return {"id": identity, "type": "custom", "custom": {"name": part.name, "input": text}}
    return {"id": identity, "type": "function", "function": {"name": part.name, "arguments": text}}


def _citation(url: str) -> dict[str, Any]:
    """All that this dialect tells of a search."""
    cited = {"url": url, "title": "Tides", "start_index": 0, "end_index": 0}
    return {"type": "url_citation", "url_citation": cited}


def _opened(answer: Answer, place: int) -> dict[str, Any]:
    return {"index": place, **_call(answer, place, "")}


def _logprobs(text: str) -> dict[str, Any]:
    """A made-up probability for every token of a text, from its bytes."""
    part = Part("text", text, 0)
    content = [
        {
            "token": piece.text,
            "logprob": -(sum(piece.text.encode()) % 100) / 64,
            "bytes": list(piece.text.encode()),
            "top_logprobs": [],
        }
        for piece in part.pieces(1)
    ]
    return {"content": content, "refusal": None}
