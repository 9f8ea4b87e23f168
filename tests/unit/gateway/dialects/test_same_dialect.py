"""Within one dialect every field passes; only declared quirks change anything."""

from __future__ import annotations

from typing import Any

import pytest

from support.dialect_calls import body, sent
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.quirks import Quirks

STRICT = {"type": "function", "function": {"name": "f", "strict": True}}


@pytest.mark.parametrize("wire", ["openai", "anthropic", "openai-responses"])
def test_unknown_fields_pass_untouched(wire: Wire) -> None:
    odd = {"brand_new": {"deep": [1, None]}, "n": 3, "temperature": 9, "tools": "odd", "reasoning": 4}
    made = body(wire, wire, **odd)
    assert {name: made[name] for name in odd} == odd
    assert made["model"] == "m"
    quirky = Quirks(no_strict_tools=True, no_developer_role=True, no_parallel_tool_calls=True)
    made = body(wire, wire, quirky, **odd, messages="odd", input=[5])
    assert {name: made[name] for name in odd} == odd


CHANGED: list[tuple[Wire, dict[str, Any], dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ("openai", {"max_tokens_field": "max_tokens"}, {"max_completion_tokens": 5}, {"max_tokens": 5, "max_completion_tokens": None}, ()),
    ("openai", {"no_stream_options": True}, {"max_tokens": 5, "stream_options": {}}, {"max_completion_tokens": 5, "max_tokens": None, "stream_options": None}, ()),
    ("openai", {"no_stream_options": True}, {"max_tokens": 5, "max_completion_tokens": 6}, {"max_completion_tokens": 6, "max_tokens": 5}, ()),
    ("openai", {"no_developer_role": True}, {"messages": [{"role": "developer", "content": "a"}, {"role": "user"}, 5]}, {"messages": [{"role": "system", "content": "a"}, {"role": "user"}, 5]}, ()),
    ("openai-responses", {"no_developer_role": True}, {"input": [{"role": "developer", "content": "a"}]}, {"input": [{"role": "system", "content": "a"}]}, ()),
    ("openai", {"no_parallel_tool_calls": True}, {"parallel_tool_calls": False}, {"parallel_tool_calls": None}, ("parallel_tool_calls",)),
    ("openai", {"no_parallel_tool_calls": True}, {"parallel_tool_calls": True}, {"parallel_tool_calls": None}, ()),
    ("openai", {"no_strict_tools": True}, {"tools": [STRICT, 5]}, {"tools": [{"type": "function", "function": {"name": "f"}}, 5]}, ()),
    ("anthropic", {"no_strict_tools": True}, {"tools": [{"name": "f", "strict": True}]}, {"tools": [{"name": "f"}]}, ()),
    ("openai", {"reasoning_field": "reasoning"}, {"messages": [{"role": "assistant", "reasoning_content": "hm", "content": "x"}]}, {"messages": [{"role": "assistant", "reasoning": "hm", "content": "x"}]}, ()),
    ("openai", {"reasoning_field": "reasoning_content"}, {"messages": [{"role": "assistant", "reasoning": "hm", "reasoning_content": ""}]}, {"messages": [{"role": "assistant", "reasoning_content": "hm"}]}, ()),
    ("openai", {"reasoning_field": "reasoning_content"}, {"messages": [{"role": "assistant", "content": "x"}]}, {"messages": [{"role": "assistant", "content": "x"}]}, ()),
    ("openai", {"no_reasoning_effort": True}, {"reasoning_effort": "low"}, {"reasoning_effort": None}, ("reasoning_effort",)),
    ("openai", {"efforts": ("low", "high")}, {"reasoning_effort": "max"}, {"reasoning_effort": "high"}, ()),
    ("openai", {"efforts": ("low", "high")}, {"reasoning_effort": "odd"}, {"reasoning_effort": "odd"}, ()),
    ("openai-responses", {"efforts": ("low", "high")}, {"reasoning": {"effort": "max"}}, {"reasoning": {"effort": "high"}}, ()),
    ("anthropic", {"no_reasoning_effort": True}, {"thinking": {"type": "adaptive"}}, {"thinking": None}, ("thinking",)),
    ("anthropic", {"no_sampling": True}, {"temperature": 1}, {"temperature": None}, ("temperature",)),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "flags", "asked", "expected", "names"), CHANGED)
def test_a_quirk_changes_what_it_says(
    wire: Wire, flags: dict[str, Any], asked: dict[str, Any], expected: dict[str, Any], names: tuple[str, ...]
) -> None:
    made, warnings = sent(wire, wire, Quirks(**flags), **asked)
    assert {name: made.get(name) for name in expected} == expected
    assert warnings == names


def test_an_answer_of_the_same_dialect_is_not_touched() -> None:
    answer = b' {"id" : 1 }'
    made = translate.request("openai", "openai", {"messages": []}, model="m")
    assert translate.answer("openai", "openai", answer, made.context) is answer
