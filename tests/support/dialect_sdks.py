"""The official SDKs as judges: what each makes of a whole answer and of a stream, brought to one plain form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from anthropic import Anthropic
from openai import OpenAI

from support.dialect_answers import CHAT, MESSAGES

Responder = Callable[[dict[str, Any]], tuple[bytes, bool]]
"""The client's request body -> (body of the answer, is it a stream)."""


@dataclass
class Heard:
    """An answer as an application sees it."""

    id: str
    model: str
    text: str = ""
    refusal: str = ""
    thinking: str = ""
    proofs: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    tier: str | None = None


class Judge:
    """One SDK whose transport is a function."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._respond: Responder = _nobody
        transport = httpx2.MockTransport(self._handle)
        http = httpx2.Client(transport=transport)
        if client == MESSAGES:
            self._anthropic = Anthropic(
                base_url="http://judge.test", api_key="k", http_client=http, max_retries=0
            )
        else:
            self._openai = OpenAI(
                base_url="http://judge.test/v1", api_key="k", http_client=http, max_retries=0
            )

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        body, is_stream = self._respond(json.loads(request.content))
        kind = "text/event-stream" if is_stream else "application/json"
        return httpx2.Response(200, headers={"content-type": kind}, content=body)

    def ask(self, respond: Responder, asked: dict[str, Any]) -> Heard:
        """A call without `stream`."""
        self._respond = respond
        if self._client == CHAT:
            return _heard_chat(_plain(self._openai.chat.completions.create(**asked)))
        if self._client == MESSAGES:
            return _heard_message(_plain(self._anthropic.messages.create(**asked)))
        return _heard_response(_plain(self._openai.responses.create(**asked)))

    def listen(self, respond: Responder, asked: dict[str, Any]) -> Heard:
        """A call with `stream`, put together by the SDK itself."""
        self._respond = respond
        if self._client == CHAT:
            return self._listen_chat(asked)
        if self._client == MESSAGES:
            with self._anthropic.messages.stream(**asked) as stream:
                return _heard_message(_plain(stream.get_final_message()))
        return self._listen_response(asked)

    def _listen_chat(self, asked: dict[str, Any]) -> Heard:
        from openai.lib.streaming.chat import ChatCompletionStreamState

        state = ChatCompletionStreamState()
        fields: Any = asked | {"stream": True, "stream_options": {"include_usage": True}}
        for chunk in self._openai.chat.completions.create(**fields):
            state.handle_chunk(chunk)
        return _heard_chat(_plain(state.current_completion_snapshot))

    def _listen_response(self, asked: dict[str, Any]) -> Heard:
        """The deltas must add up to the items, the items to the final object."""
        final: dict[str, Any] = {}
        added: dict[int, dict[str, str]] = {}
        items: list[dict[str, Any]] = []
        fields = {k: v for k, v in asked.items() if k != "stream"}
        with self._openai.responses.stream(**fields) as stream:
            for event in stream:
                data = _plain(event)
                if data["type"].endswith(".delta"):
                    place = added.setdefault(data["output_index"], {})
                    place[data["type"]] = place.get(data["type"], "") + data["delta"]
                elif data["type"] == "response.output_item.done":
                    items.append(data["item"])
                elif data["type"] in {"response.completed", "response.incomplete"}:
                    final = data["response"]
        assert [_unparsed(item) for item in final["output"]] == [_unparsed(item) for item in items]
        for index, item in enumerate(items):
            assert "".join(added.get(index, {}).values()) == _words_of(item)
        return _heard_response(final)


def heard(client: str, data: dict[str, Any]) -> Heard:
    """What an application sees in an answer of the dialect `client`; absent values left out."""
    make = {CHAT: _heard_chat, MESSAGES: _heard_message}.get(client, _heard_response)
    return make(data)


def _nobody(body: dict[str, Any]) -> tuple[bytes, bool]:
    raise AssertionError(f"nobody answers {body}")


def _plain(model: Any) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(mode="json", exclude_none=True, warnings=False)
    return data


def _unparsed(value: Any) -> Any:
    """Without what the SDK adds when it parses."""
    if isinstance(value, dict):
        return {k: _unparsed(v) for k, v in value.items() if not k.startswith("parsed")}
    return [_unparsed(item) for item in value] if isinstance(value, list) else value


def _words_of(item: dict[str, Any]) -> str:
    if item["type"] == "function_call":
        return str(item["arguments"])
    if item["type"] == "custom_tool_call":
        return str(item["input"])
    if item["type"] == "reasoning":
        return "".join(part["text"] for part in item["summary"])
    return "".join(part.get("text", part.get("refusal", "")) for part in item["content"])


def _heard_chat(data: dict[str, Any]) -> Heard:
    choice = data["choices"][0]
    message = choice["message"]
    heard = Heard(data["id"], data["model"], stop=choice["finish_reason"], usage=data.get("usage", {}))
    heard.tier = data.get("service_tier")
    heard.text = message.get("content", "")
    heard.refusal = message.get("refusal", "")
    heard.thinking = message.get("reasoning_content", "")
    heard.proofs = [d.get("signature") or d["data"] for d in message.get("reasoning_details", [])]
    for call in message.get("tool_calls", []):
        if call["type"] == "custom":
            heard.calls.append((call["id"], call["custom"]["name"], call["custom"]["input"]))
            continue
        heard.calls.append((call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])))
    return heard


def _heard_message(data: dict[str, Any]) -> Heard:
    heard = Heard(data["id"], data["model"], stop=data["stop_reason"], usage=data["usage"])
    heard.tier = heard.usage.pop("service_tier", None)
    for block in data["content"]:
        heard.order.append(block["type"])
        if block["type"] == "text":
            heard.text += block["text"]
        elif block["type"] == "thinking":
            heard.thinking += block["thinking"]
            heard.proofs.append(block["signature"])
        elif block["type"] == "redacted_thinking":
            heard.proofs.append(block["data"])
        else:
            heard.calls.append((block["id"], block["name"], block["input"]))
    return heard


def _heard_response(data: dict[str, Any]) -> Heard:
    reason = data.get("incomplete_details", {}).get("reason")
    heard = Heard(data["id"], data["model"], stop=reason or data["status"], usage=data["usage"])
    heard.tier = data.get("service_tier")
    for item in data["output"]:
        heard.order.append(item["type"])
        if item["type"] == "message":
            heard.text += "".join(part.get("text", "") for part in item["content"])
            heard.refusal += "".join(part.get("refusal", "") for part in item["content"])
        elif item["type"] == "reasoning":
            heard.thinking += "".join(part["text"] for part in item["summary"])
            heard.proofs.append(item.get("encrypted_content", ""))
        else:
            is_custom = item["type"] == "custom_tool_call"
            given = item["input"] if is_custom else json.loads(item["arguments"])
            heard.calls.append((item["call_id"], item["name"], given))
    return heard
