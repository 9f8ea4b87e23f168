"""Provider usage objects -> disjoint token classes. Explicit zero is kept, unknown is None; pure."""

from typing import Any

import msgspec

from tidegate.events.money import Tokens
from tidegate.gateway import tiers
from tidegate.gateway.usage_rules import GENERIC, WIRES, Spoken, UsageRules

MAX_COUNT = 2**31 - 1
"""A provider's count above it is no count: no model reads or writes that much, and sums must stay exact."""

_LEVELS = 2
_Fields = dict[str, int]


class UsageTally:
    """Usage of one answer, gathered from any number of objects: the last explicit value of a field wins.

    Counts in streams are cumulative, so they replace and never add.
    """

    __slots__ = ("_fields", "_rules", "_searches", "_wire", "told_tier")

    def __init__(self, dialect: Spoken, rules: UsageRules | None = None) -> None:
        """`rules`: which fields this vendor reports; by default what its dialect has."""
        self._wire = WIRES[dialect]
        self._rules = GENERIC[self._wire] if rules is None else rules
        self._fields: _Fields = {}
        self.told_tier: str | None = None
        """How the provider says it serves the request, in the words of `tiers`; None while it says nothing."""
        self._searches = 0

    def observe(self, usage: Any, service_tier: Any = None) -> None:
        """Take the explicit counts of a `usage` object; anything else is ignored.

        `service_tier` is what stands beside the object in the answer (OpenAI); inside it, it is found (Anthropic).
        """
        if service_tier is not None:
            self._observe_tier(service_tier)
        if isinstance(usage, dict):
            _gather(self._fields, "", usage)
            if "service_tier" in usage or "speed" in usage:
                fast = usage.get("speed") == "fast"
                self._observe_tier("fast" if fast else usage.get("service_tier"))

    def observe_output(self, items: Any) -> None:
        """Take the output items of a response: its usage does not tell how often the provider searched the web."""
        if isinstance(items, list):
            self._searches = sum(map(is_search, items))

    def observe_item(self, item: Any) -> None:
        """Take one more output item, of a response that is not whole yet."""
        self._searches += is_search(item)

    def tokens(self) -> Tokens:
        """The classes known so far."""
        if self._wire == "embeddings":
            return _from_embeddings(self._fields)
        read = _from_anthropic if self._wire == "anthropic" else _from_openai
        tokens = read(self._fields, self._rules, tiers.priced(self.told_tier))
        if self._searches and tokens.web_searches is None:
            return msgspec.structs.replace(tokens, web_searches=self._searches)
        return tokens

    def _observe_tier(self, word: Any) -> None:
        self.told_tier = tiers.named(word) or self.told_tier


def tally_of(dialect: Spoken, answer: dict[str, Any], rules: UsageRules | None = None) -> UsageTally:
    """What a whole (not streamed) answer says of its usage."""
    tally = UsageTally(dialect, rules)
    tally.observe(answer.get("usage"), answer.get("service_tier"))
    tally.observe_output(answer.get("output"))
    return tally


def from_answer(dialect: Spoken, answer: dict[str, Any], rules: UsageRules | None = None) -> Tokens:
    """Usage of a whole answer; all None when it reports none."""
    return tally_of(dialect, answer, rules).tokens()


def is_search(item: Any) -> bool:
    """A web search that OpenAI bills: pages that are opened or looked through are free, and so is what failed.

    Source: OpenAI's guide to web search, "Output and citations": search actions incur a tool call cost.
    """
    if not isinstance(item, dict) or item.get("type") != "web_search_call" or item.get("status") == "failed":
        return False
    action = item.get("action")
    return not isinstance(action, dict) or action.get("type") in {None, "search"}


def _gather(fields: _Fields, place: str, found: dict[str, Any]) -> None:
    """Counts of an object and of those inside it, two levels down."""
    for name, value in found.items():
        kind = type(value)  # JSON's true and false are ints to isinstance
        if kind is int:
            if 0 <= value <= MAX_COUNT:
                fields[place + name] = value
        elif kind is dict and place.count(".") < _LEVELS:
            _gather(fields, f"{place}{name}.", value)
        elif kind is float and value.is_integer() and 0 <= value <= MAX_COUNT:
            fields[place + name] = int(value)


def _pick(fields: _Fields, names: tuple[str, ...]) -> int | None:
    for name in names:
        if name in fields:
            return fields[name]
    return None


def _from_openai(fields: _Fields, rules: UsageRules, tier: str | None) -> Tokens:
    """Prompt counts include what was cached and what was written, completion counts include reasoning.

    Chat completions say prompt/completion, responses say input/output; who bills reasoning beside its completion
    count has it added. A missing completion count follows from the total (embeddings have no completion). Parts that
    exceed their prompt contradict it: how much was read uncached is then unknown, and the settlement an estimate.
    """
    get = fields.get
    prompt = get("prompt_tokens", get("input_tokens"))
    output = get("completion_tokens", get("output_tokens"))
    if output is None:
        total = get("total_tokens")
        if total is not None and prompt is not None and total >= prompt:
            output = total - prompt
    else:
        for name in rules.beside_output:
            output += get(name, 0)
    if rules.details.isdisjoint(fields):
        return Tokens(prompt, None, None, None, output, service_tier=tier)
    cached, written = _pick(fields, rules.cached), _pick(fields, rules.written)
    uncached = None if prompt is None else prompt - (cached or 0) - (written or 0)
    if uncached is not None and uncached < 0:
        uncached = None
    reasoning = _pick(fields, rules.reasoning)
    tokens = Tokens(uncached, cached, written, None, output, reasoning, service_tier=tier)
    if rules.rare.isdisjoint(fields) or not any(map(get, rules.rare)):
        return tokens
    return _with_rare(tokens, fields, rules)


def _with_rare(tokens: Tokens, fields: _Fields, rules: UsageRules) -> Tokens:
    """Sound, pictures and searches, which few answers have."""
    from_cache = _pick(fields, rules.cached_audio)
    heard = (_pick(fields, rules.input_audio) or 0) - (from_cache or 0)
    return msgspec.structs.replace(
        tokens,
        input_audio=_part(heard, tokens.input_uncached),
        input_image=_part(_pick(fields, rules.input_image), tokens.input_uncached),
        cache_read_audio=_part(from_cache, tokens.cache_read),
        output_audio=_part(_pick(fields, rules.output_audio), tokens.output),
        output_image=_part(_pick(fields, rules.output_image), tokens.output),
        web_searches=_pick(fields, rules.searches) or None,
    )


def _from_embeddings(fields: _Fields) -> Tokens:
    """Embeddings have no output: what was read is all there is."""
    prompt = fields.get("prompt_tokens")
    return Tokens(input_uncached=prompt, output=None if prompt is None else 0)


def _part(count: int | None, whole: int | None) -> int | None:
    """A part that is there, at most the whole. None of it is the rule, so none and unknown are one."""
    return min(count, whole) if count and whole and count > 0 else None


def _from_anthropic(fields: _Fields, rules: UsageRules, tier: str | None) -> Tokens:
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
        reasoning=_pick(fields, rules.reasoning),
        web_searches=_pick(fields, rules.searches) or None,
        service_tier=tier,
    )
