"""How much to think, said in two ways: a word (effort) or a number of tokens (budget)."""

from collections.abc import Sequence
from typing import get_args

from tidegate.gateway.dialects.blocks import Effort, Reasoning

ORDER: tuple[Effort, ...] = get_args(Effort)
MIN_BUDGET_TOKENS = 1024
"""Anthropic takes no smaller budget."""

BUDGET_TOKENS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}
"""The budget an effort stands for; no vendor publishes one, so the steps are ours."""


def nearest(effort: Effort, accepted: Sequence[Effort]) -> Effort:
    """The accepted effort closest to `effort`, of two equally close ones the lower; all when none is listed.

    `none` is a different thing than a little: it becomes the lowest accepted word, and nothing else becomes it.
    """
    if not accepted or effort in accepted:
        return effort
    at = ORDER.index(effort)
    thinking: list[Effort] = [word for word in accepted if word != "none"] or list(accepted)
    return min(thinking, key=lambda word: (abs(ORDER.index(word) - at), ORDER.index(word)))


def from_budget(budget_tokens: int) -> Effort:
    """The largest effort whose budget is not above `budget_tokens`."""
    fitting: list[Effort] = [effort for effort, budget in BUDGET_TOKENS.items() if budget <= budget_tokens]
    return fitting[-1] if fitting else "minimal"


def to_budget(effort: Effort, max_output_tokens: int) -> int | None:
    """The budget of an effort, below `max_output_tokens` as Anthropic demands; None when too little is left."""
    budget = min(BUDGET_TOKENS.get(effort, 0), max_output_tokens - 1)
    return budget if budget >= MIN_BUDGET_TOKENS else None


def of(reasoning: Reasoning | None) -> Effort | None:
    """The effort asked for, in a word; None = nothing was said. Thinking as the model likes counts as medium."""
    if reasoning is None:
        return None
    if reasoning.effort is not None:
        return reasoning.effort
    if reasoning.budget_tokens is not None:
        return from_budget(reasoning.budget_tokens)
    return "medium" if reasoning.is_adaptive else None
