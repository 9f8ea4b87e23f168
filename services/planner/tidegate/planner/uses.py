"""Quota of a request on a candidate: use per window in its unit and period, room for it, Σ λ·u. Pure."""

import msgspec

from tidegate.events.decision import LocalView, WindowUse
from tidegate.events.quota import weighted
from tidegate.planner.beliefs import half_up
from tidegate.planner.windows import QuotaFacts, WindowFacts


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """A window that cannot take the request: units needed and left, and when it could."""

    facts: WindowFacts
    need: int
    left: int
    retry_at_ns: int | None
    """None: a use above the limit never fits."""


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
            if use.window == facts.id and now_ns < use.period_start_ns + facts.counts_ns:
                left -= use.units
        if left < units or left < facts.use_p90:
            return (), 0, _shortage(facts, own, max(units, facts.use_p90), left, now_ns)
        nanousd += facts.shadow_nanousd * units
        uses.append(
            WindowUse(
                facts.id,
                facts.start_ns,
                units,
                facts.length_ns,
                facts.first_request,
                facts.rolling,
                facts.peak,
            )
        )
    return tuple(uses), half_up(nanousd), None


def _shortage(facts: WindowFacts, own: Uses, need: int, left: int, now_ns: int) -> Shortage:
    if need > facts.limit:
        return Shortage(facts, need, left, None)
    if not facts.rolling:
        return Shortage(facts, need, left, facts.end_ns)
    ends = [
        *facts.ages_out,
        *[(use.period_start_ns + facts.counts_ns, use.units) for use in own if use.window == facts.id],
    ]
    room = left
    for at_ns, units in sorted(ends):
        if at_ns > now_ns:
            room += units
            if room >= need:
                return Shortage(facts, need, left, at_ns)
    return Shortage(facts, need, left, facts.end_ns)
