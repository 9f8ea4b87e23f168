"""The price formula: E[cash] + Σ λ·u + P(fail)·E[retry] + ρ·E[time] + switch, in integer nano-dollars. Pure.

Each part is rounded once, half up. Only + − × ÷ in a fixed order: the same bits everywhere. Σ λ·u is in
`uses`, ρ·E[time] in `facts`, because it is worked out before there is a request.
"""

from collections.abc import Sequence

from tidegate.events.decision import LocalView
from tidegate.events.money import MILLION
from tidegate.planner.facts import Rates, RatesFrom

CACHE_TTL_NS = 300_000_000_000
"""How long a provider is expected to keep a session's prefix where nothing was seen yet: five minutes."""

KeptByAge = tuple[tuple[int, float | None], ...]
"""Age up to which (ns, exclusive), ascending, and the share of a prefix that is then still cached; None = unseen."""

HALF_MILLION = MILLION // 2
"""Added before a division by a million: rounds it half up."""


def rates_at(prices: Sequence[RatesFrom], now_ns: int, input_tokens: int) -> Rates | None:
    """Rates in force for a prompt of this length; of several the last declared, as the list price of the target."""
    rates = None
    for step in prices:
        if step.from_ns <= now_ns:
            rates = step.rates
    if rates is not None:
        for mark, long in rates.above:
            if input_tokens > mark:
                rates = long
    return rates


def expected_cached_tokens(
    local: LocalView, input_tokens: int, now_ns: int, kept_by_age: KeptByAge = ()
) -> int | None:
    """Input tokens this session is expected to find in the target's cache; None when it was never there.

    The cached share of the last prompt, times what of this one can be the same prefix, times what is believed to
    be kept at its age; where nothing is believed, all within the TTL and nothing after it.
    """
    prompt, cached, at_ns = local.session_prompt_tokens, local.session_cached_tokens, local.session_at_ns
    if prompt is None or cached is None or at_ns is None:
        return None
    if prompt <= 0:
        return 0
    left, age_ns = min(input_tokens, prompt) * min(cached, prompt) // prompt, now_ns - at_ns
    for to_age_ns, kept in kept_by_age:
        if age_ns < to_age_ns:
            if kept is not None:
                return int(left * kept)
            break
    return 0 if age_ns > CACHE_TTL_NS else left


def cost_nanousd(rates: Rates, input_tokens: int, cached_tokens: int, output_cost: int) -> int:
    """Σ tokens × rate ÷ 10⁶; what is not cached costs the uncached price. `output_cost` is tokens × rate."""
    total = input_tokens * rates.input_uncached + output_cost
    if cached_tokens:
        total += cached_tokens * (rates.cache_read - rates.input_uncached)
    return (total + HALF_MILLION) // MILLION
