"""Short ways to translate in tests."""

from __future__ import annotations

import json
from typing import Any

from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.for_client import Context
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.phases import Step

LEAST: dict[Wire, dict[str, Any]] = {
    "openai": {"model": "route", "messages": [{"role": "user", "content": "hi"}]},
    "anthropic": {"model": "route", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]},
    "openai-responses": {"model": "route", "input": "hi"},
}
"""The smallest request of each dialect."""
CONTEXT = Context(model="route", answer_id="a1", created_s=7)


def sent(
    client: Wire, upstream: Wire, quirks: Quirks = PLAIN, **fields: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The upstream's body and the warnings for the smallest request with these fields."""
    made = translate.request(client, upstream, LEAST[client] | fields, model="m", quirks=quirks)
    return json.loads(made.body), made.warnings


def body(client: Wire, upstream: Wire, quirks: Quirks = PLAIN, **fields: Any) -> dict[str, Any]:
    """As `sent`, where nothing is left out."""
    made, warnings = sent(client, upstream, quirks, **fields)
    assert warnings == ()
    return made


def answered(
    client: Wire, upstream: Wire, answer: dict[str, Any], context: Context = CONTEXT
) -> dict[str, Any]:
    """A whole answer as the client gets it."""
    made: dict[str, Any] = json.loads(
        translate.answer(client, upstream, json.dumps(answer).encode(), context)
    )
    return made


def events(*data: Any) -> bytes:
    """Server-sent events; strings as they are."""
    return b"".join(
        b"data: %b\n\n" % (item.encode() if isinstance(item, str) else json.dumps(item).encode())
        for item in data
    )


def streamed(
    client: Wire, upstream: Wire, data: bytes, context: Context = CONTEXT, quirks: Quirks = PLAIN
) -> tuple[Step, list[dict[str, Any]]]:
    """The last step, and all events that a client gets (`[DONE]` left out)."""
    phases = TranslatedPhases(upstream, client, context, quirks=quirks)
    steps = [phases.feed(data), phases.end()]
    step = next((step for step in steps if step.terminal or step.error or step.fault), steps[-1])
    out = b"".join(step.forward + (step.terminal or b"") for step in steps)
    lines = [line[6:] for line in out.split(b"\n") if line.startswith(b"data: ")]
    return step, [json.loads(line) for line in lines if line != b"[DONE]"]
