"""Reasoning that was carried for another provider never reaches one that would check it, whoever carried it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from support.around import joined
from tidegate.gateway import attempt
from tidegate.gateway.crossings import Crossings, Speech
from tidegate.gateway.origins import Origins

CARRIED = {"type": "thinking", "thinking": "hm", "signature": "tidegate:openai:encrypted:rs_1:e"}
SAID = {"type": "text", "text": "x"}


def told(*content: dict[str, Any]) -> bytes | None:
    """What Anthropic is told of a conversation that this worker has not seen before; None = the client's bytes."""
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": list(content)}]
    raw = json.dumps({"model": "route", "max_tokens": 9, "messages": messages}).encode()
    crossings = Crossings("anthropic", raw, created_s=1, answer_id="a")
    job: Any = SimpleNamespace(
        raw=raw,
        dialect="anthropic",
        endpoint=SimpleNamespace(counts=False),
        ask=SimpleNamespace(session="s"),
        cross=lambda: crossings,
        crossings=None,
    )
    target: Any = SimpleNamespace(origin="anthropic", speech=Speech(("anthropic",)))
    tools: Any = SimpleNamespace(origins=Origins())
    crossed = attempt._crossed(tools, job, target)
    return None if crossed is None else joined(crossed.around_model, b"m")


def test_what_another_worker_carried_is_taken_out() -> None:
    made = told(CARRIED, SAID)
    assert made is not None
    assert b"tidegate" not in made
    assert b'"text":"x"' in made


def test_a_conversation_of_ones_own_is_told_byte_for_byte() -> None:
    assert told(CARRIED | {"signature": "real"}, SAID) is None
