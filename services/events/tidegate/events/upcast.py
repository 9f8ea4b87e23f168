"""Old versions → today's, one small pure function per step, keyed by (type, version it reads)."""

from collections.abc import Callable
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: dict[tuple[str, int], Step] = {}
"""Every event is still at version 1: the first breaking change adds the first step."""


def upcast(
    kind: str,
    version: int,
    current: int,
    data: dict[str, Any],
    steps: dict[tuple[str, int], Step] | None = None,
) -> dict[str, Any]:
    """Data of `kind` at `version` brought to `current`. Raises KeyError when a step is missing."""
    table = STEPS if steps is None else steps
    for at in range(version, current):
        data = table[kind, at](data)
    return data
