"""A target is admitted for its dialects, or for one that the request can be put in without loss."""

from __future__ import annotations

from typing import Any

import pytest

from support.planning import ask, plan, priced, routing, target, world
from tidegate.events.types import Dialect

TARGETS = [
    target("chat", priced(3, 15)),
    target("messages", priced(1, 5), dialect="anthropic", tools=False),
    target("two", priced(5, 25), dialect="openai", also_speaks=("openai-responses",)),
    target("vectors", priced(1, 1), dialect="openai-embeddings"),
]


def reasons(**fields: Any) -> dict[str, str | None]:
    made = plan(world(routing(TARGETS)), ask(**fields))
    return {candidate.target: candidate.reason for candidate in made.candidates}


@pytest.mark.parametrize(
    ("dialect", "others", "admitted"),
    [
        ("openai", (), {"chat", "two"}),
        ("openai", ("anthropic",), {"chat", "two", "messages"}),
        ("anthropic", (), {"messages"}),
        ("anthropic", ("openai-responses",), {"messages", "two"}),
        ("anthropic", ("openai-responses", "openai"), {"messages", "two", "chat"}),
        ("openai-responses", (), {"two"}),
        ("openai-embeddings", (), {"vectors"}),
    ],
)
def test_a_target_serves_what_it_speaks_and_what_can_be_said_in_it(
    dialect: Dialect, others: tuple[Dialect, ...], admitted: set[str]
) -> None:
    found = reasons(dialect=dialect, dialects=others)
    assert {name for name, reason in found.items() if reason is None} == admitted
    assert {reason for name, reason in found.items() if name not in admitted} <= {"dialect"}


def test_another_dialect_excuses_nothing_else_that_is_lacking() -> None:
    assert reasons(dialect="openai", dialects=("anthropic",), tools=True)["messages"] == "tools"
    assert reasons(dialect="openai", tools=True)["messages"] == "dialect"


def test_the_cheapest_may_speak_another_dialect() -> None:
    made = plan(world(routing(TARGETS)), ask(dialect="openai", dialects=("anthropic",)))
    assert made.chosen == "messages"
