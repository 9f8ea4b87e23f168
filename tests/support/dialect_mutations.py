"""JSON values with something odd in one place."""

from __future__ import annotations

from random import Random
from typing import Any

_ODD = (
    None,
    5,
    -1,
    2**70,
    0.5,
    float("inf"),
    "x",
    "",
    True,
    [],
    {},
    [5],
    [None],
    {"type": "x"},
    {"type": []},
    {"type": "text"},
)


def mutated(value: Any, random: Random) -> Any:
    """The value with one part of it replaced, and now and then a name dropped on the way there."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        return {
            k: (mutated(v, random) if k == name else v)
            for k, v in value.items()
            if k != name or random.random() < 0.9
        }
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [mutated(item, random) if index == at else item for index, item in enumerate(value)]
    return random.choice(_ODD)
