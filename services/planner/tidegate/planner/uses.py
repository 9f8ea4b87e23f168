"""Quota of a request on a candidate: use per window in its unit and period, room for it, Σ λ·u. Pure."""

import msgspec

from tidegate.events.decision import LocalView, WindowUse
from tidegate.events.quota import weighted
from tidegate.planner.beliefs import half_up
from tidegate.planner.windows import QuotaFacts, WindowFacts


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """A window that cannot take the request: units needed and left."""

    facts: WindowFacts
    need: int
    left: int


Uses = tuple[WindowUse, ...]


def quota_use(
    quota: QuotaFacts, local: LocalView, now_ns: int, tokens: int, cost_nanousd: int
) -> tuple[Uses, int, Shortage | None]:
    """Use per window, Σ λ·u rounded once, and the first window that lacks room; cost is at list price.

    Room is what is left less own uses not yet believed, in periods that still run; it must cover this
    request's use and the stated quantile of the pool's uses.
    """
    amounts = 1, tokens, cost_nanousd
    own = local.uses
    uses: list[WindowUse] = []
    nanousd = 0.0
    for facts in quota.windows:
        units = weighted(amounts[facts.unit], facts.weight)
        left = facts.left
        for use in own:
            if use.window == facts.id and now_ns < use.period_start_ns + facts.length_ns:
                left -= use.units
        if left < units or left < facts.use_p90:
            return (), 0, Shortage(facts, max(units, facts.use_p90), left)
        nanousd += facts.shadow_nanousd * units
        uses.append(WindowUse(facts.id, facts.start_ns, units, facts.length_ns, facts.first_request))
    return tuple(uses), half_up(nanousd), None
