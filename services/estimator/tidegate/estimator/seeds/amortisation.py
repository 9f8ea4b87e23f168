"""What a flat plan costs per million tokens, by every rule the seed tried (ours is `amortised`). Not for routing.

Fees in dollars, volumes in tokens, results in dollars per million tokens; None where nothing can be said.
"""

from collections.abc import Sequence

SHORT_HISTORY_D = 30
SHORT_HISTORY_RATE = 0.014
PENALTY, UNKNOWN_FALLBACK = 0.01, 0.50


def cycle_to_date(fee: float, tokens: float) -> float | None:
    """Variant A: the fee over what this cycle used. Dear at first and falling: a plan avoided stays dear."""
    return fee / tokens * 1e6 if tokens > 0 else None


def assumed_volume(fee: float, assumed_tokens: float) -> float | None:
    """Variant B: the fee over a volume somebody assumed."""
    return cycle_to_date(fee, assumed_tokens)


def logged_outcome(
    spend: float, tokens: float, *, succeeded: bool, fallback: float | None = None
) -> float | None:
    """Variant C, what fed the price filter: spend per token of a success, else the fallback's cost and a penalty."""
    if succeeded:
        return spend / (tokens / 1e6) if tokens > 0 else None
    return UNKNOWN_FALLBACK if fallback is None else fallback + PENALTY


def trailing_year(annual_budget: float, daily_tokens: Sequence[float], factor: float = 1.0) -> float | None:
    """Variant D: a year's budget over the last 365 days of use; a constant below 30 days of history."""
    days = daily_tokens[-365:]
    if len(days) < SHORT_HISTORY_D:
        return SHORT_HISTORY_RATE * factor
    rate = cycle_to_date(annual_budget, sum(days))
    return None if rate is None else rate * factor


def entitlement(fee: float, plan_capacity: float) -> float | None:
    """Variant E: the fee over all the plan would allow. Stable, and lower than what is realised."""
    return cycle_to_date(fee, plan_capacity)


def sunk(used: float, entitled: float, overage: float) -> float:
    """Variant F: nothing inside the entitlement, the overage price beyond. Right for cash; scarcity needs λ."""
    return 0.0 if used < entitled else overage
