"""Provider usage objects -> disjoint token classes. Explicit zero is kept, unknown is None; pure."""

from typing import Any

from tidegate.events.money import Tokens
from tidegate.events.types import Dialect

MAX_COUNT = 2**31 - 1
"""A provider's count above it is no count: no model reads or writes that much, and sums must stay exact."""


class UsageTally:
    """Usage of one answer, gathered from any number of objects: the last explicit value of a field wins.

    Counts in streams are cumulative, so they replace and never add.
    """

    __slots__ = ("_dialect", "_fields")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect: Dialect = dialect
        self._fields: dict[str, int] = {}

    def observe(self, usage: Any) -> None:
        """Take the explicit counts of a `usage` object; anything else is ignored."""
        if not isinstance(usage, dict):
            return
        fields = self._fields
        for name, value in usage.items():
            kind = type(value)  # JSON's true and false are ints to isinstance
            if kind is int:
                if 0 <= value <= MAX_COUNT:
                    fields[name] = value
            elif kind is dict:
                for part, count in value.items():
                    if type(count) is int and 0 <= count <= MAX_COUNT:
                        fields[f"{name}.{part}"] = count

    def tokens(self) -> Tokens:
        """The classes known so far."""
        if self._dialect == "anthropic":
            return _from_anthropic(self._fields)
        return _from_openai(self._fields)


def from_answer(dialect: Dialect, answer: dict[str, Any]) -> Tokens:
    """Usage of a whole (not streamed) answer; all None when it reports none."""
    tally = UsageTally(dialect)
    tally.observe(answer.get("usage"))
    return tally.tokens()


def _from_openai(fields: dict[str, int]) -> Tokens:
    """Prompt counts include cached tokens, completion counts include reasoning.

    Chat completions say prompt/completion, responses say input/output; DeepSeek puts cache hits beside them.
    A missing completion count follows from the total (embeddings have no completion).
    """
    get = fields.get
    prompt = get("prompt_tokens", get("input_tokens"))
    output = get("completion_tokens", get("output_tokens"))
    total = get("total_tokens")
    if output is None and total is not None and prompt is not None and total >= prompt:
        output = total - prompt
    cached = get("prompt_tokens_details.cached_tokens", get("input_tokens_details.cached_tokens"))
    if cached is None:
        cached = get("prompt_cache_hit_tokens")
    return Tokens(
        input_uncached=None if prompt is None else max(0, prompt - (cached or 0)),
        cache_read=cached,
        output=output,
        reasoning=get(
            "completion_tokens_details.reasoning_tokens", get("output_tokens_details.reasoning_tokens")
        ),
    )


def _from_anthropic(fields: dict[str, int]) -> Tokens:
    """Input counts are disjoint already; cache writes are all 5-minute ones unless split by lifetime."""
    get = fields.get
    written = get("cache_creation_input_tokens")
    short = get("cache_creation.ephemeral_5m_input_tokens")
    long = get("cache_creation.ephemeral_1h_input_tokens")
    if written is not None:
        # A later total replaces an earlier split: what is not known to be long-lived counts as short.
        long = None if long is None else min(long, written)
        short = written - (long or 0)
    return Tokens(
        input_uncached=get("input_tokens"),
        cache_read=get("cache_read_input_tokens"),
        cache_write_5m=short,
        cache_write_1h=long,
        output=get("output_tokens"),
        reasoning=get("output_tokens_details.reasoning_tokens"),
    )
