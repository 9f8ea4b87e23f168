"""Web searches of a provider are counted where its usage does not count them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tidegate.events.types import Dialect
from tidegate.gateway.dialects.for_client import Context
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.phases import StreamPhases
from tidegate.gateway.usage import from_answer, is_search

USAGE = {"input_tokens": 9, "output_tokens": 3}
TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}


def call(kind: str | None = "search", status: str = "completed") -> dict[str, Any]:
    made: dict[str, Any] = {"type": "web_search_call", "id": "ws_1", "status": status}
    return made if kind is None else {**made, "action": {"type": kind}}


@pytest.mark.parametrize(
    ("item", "counts"),
    [
        (call(), True),
        (call(None), True),
        ({**call(), "action": {"query": "tides"}}, True),
        (call("open_page"), False),
        (call("find_in_page"), False),
        (call(status="failed"), False),
        (TEXT, False),
        ({"type": "file_search_call"}, False),
        ("web_search_call", False),
        (None, False),
    ],
)
def test_only_a_search_that_was_run_is_billed(item: Any, counts: bool) -> None:
    assert is_search(item) is counts


@pytest.mark.parametrize(
    ("output", "count"), [([call(), call("open_page"), call(), TEXT], 2), ([TEXT], None)]
)
def test_a_whole_response_is_charged_by_its_searches(output: list[Any], count: int | None) -> None:
    tokens = from_answer("responses", {"usage": USAGE, "output": output})
    assert (tokens.input_uncached, tokens.output, tokens.web_searches) == (9, 3, count)


def test_what_a_usage_says_of_searches_goes_before_what_is_counted() -> None:
    usage = {**USAGE, "server_tool_use": {"web_search_requests": 5}}
    assert from_answer("responses", {"usage": usage, "output": [call()]}).web_searches == 5


def events(*, listed: bool, ended: bool = True) -> bytes:
    items = [call(), call("open_page"), call(), TEXT]
    made: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "model": "m", "output": []}}
    ]
    for place, item in enumerate(items):
        made.append(
            {"type": "response.output_item.added", "output_index": place, "item": {**item, "content": []}}
        )
        if item is TEXT:
            made.append({"type": "response.output_text.delta", "output_index": place, "delta": "hi"})
        made.append({"type": "response.output_item.done", "output_index": place, "item": item})
    if ended:
        response = {"id": "r", "model": "m", "usage": USAGE, "output": items if listed else []}
        made.append({"type": "response.completed", "response": response})
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in made)


@pytest.mark.parametrize("client", ["openai-responses", "openai", "anthropic"])
@pytest.mark.parametrize(
    "stream", [events(listed=True), events(listed=False), events(listed=True, ended=False)]
)
@pytest.mark.parametrize("cut", [7, 1 << 20])
def test_a_stream_of_a_response_counts_each_search_once(client: Dialect, stream: bytes, cut: int) -> None:
    if client == "openai-responses":
        phases: StreamPhases | TranslatedPhases = StreamPhases(client, client_wants_usage=True)
    else:
        assert client != "openai-embeddings"
        phases = TranslatedPhases("openai-responses", client, Context(answer_id="a", created_s=0))
    for at in range(0, len(stream), cut):
        phases.feed(stream[at : at + cut])
    assert phases.tokens.web_searches == 2
