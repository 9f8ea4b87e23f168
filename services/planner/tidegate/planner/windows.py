"""Quota windows of a pool as they stand in their running period, with what is believed of each. Pure."""

from collections.abc import Sequence

import msgspec

from tidegate.events.config import Pool, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.quota import duration_ns, period_start_ns, prior_shadow_nanousd
from tidegate.events.snapshots import RateSnapshot, WindowBelief
from tidegate.events.types import Unit, WindowId
from tidegate.planner.beliefs import MAX_BELIEF, ceiling

UNITS: tuple[Unit, ...] = ("requests", "tokens", "nanousd")

UNGUESSED = 1 << 62
"""Room of a window of whose capacity nothing is known."""


class WindowFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A window in the period [start, end); units are the window's own."""

    window: Window
    id: WindowId
    unit: int
    """Index of the window's unit in UNITS."""
    limit: int
    start_ns: int
    end_ns: int
    length_ns: int
    first_request: bool
    """Its period begins with its first request."""
    left: int
    prior_nanousd: float
    """λ of a period of which nothing is believed, > 0."""
    shadow_nanousd: float
    p_exhaust: float | None
    use_p90: int
    weight: float
    """How often a unit of the candidate's model counts."""


class QuotaFacts(msgspec.Struct, frozen=True, gc=False):
    """A pool's windows, good until the first period ends."""

    windows: tuple[WindowFacts, ...]
    resets_at_ns: int
    """Earliest end of a period; from then on `renewed` must be asked."""
    p_exhaust: float | None
    """The likeliest exhaustion; None when nothing is believed."""
    tie: tuple[float, int]
    """P(exhaust) to compare by, what is not believed counts as sure, then the earliest reset."""


def quota_facts_of(
    pool: Pool, targets: Sequence[Target], snapshot: RateSnapshot | None, digest: str, weight: float = 1.0
) -> QuotaFacts | None:
    """The windows as the pool's snapshot has them; without one their periods ended at 0. None for a pool without any.

    `targets` are the pool's: their list prices say what its quota displaces. `weight` is the candidate's.
    """
    if not pool.windows:
        return None
    known: dict[WindowId, WindowBelief] = {}
    if snapshot is not None and snapshot.pool is not None:
        known = {belief.window: belief for belief in snapshot.pool.windows}
    same_config = snapshot is not None and snapshot.config == digest
    return _quota_facts(
        [_window(window, targets, known.get(window.id), same_config, weight) for window in pool.windows]
    )


def renewed(facts: QuotaFacts, uses: Sequence[WindowUse], now_ns: int) -> QuotaFacts:
    """The windows with every ended period replaced by the one of `now_ns`.

    What was believed of a period that ended is void: nothing is used, λ is its prior, P(exhaust) is unknown. A
    `first_request` period is the one our own uses opened, else it begins with this request.
    """
    return _quota_facts(
        [
            window
            if now_ns < window.end_ns
            else _next_period(window, _opened_ns(uses, window, now_ns), now_ns)
            for window in facts.windows
        ]
    )


def _quota_facts(windows: Sequence[WindowFacts]) -> QuotaFacts:
    risk = max([window.p_exhaust for window in windows if window.p_exhaust is not None], default=None)
    resets_at_ns = min([window.end_ns for window in windows])
    return QuotaFacts(tuple(windows), resets_at_ns, risk, (1.0 if risk is None else risk, resets_at_ns))


def _opened_ns(uses: Sequence[WindowUse], facts: WindowFacts, now_ns: int) -> int | None:
    """When the first of the window's periods that still run and have own uses began."""
    start_ns = None
    for use in uses:
        began_ns = use.period_start_ns
        if use.window == facts.id and now_ns < began_ns + facts.length_ns:
            start_ns = began_ns if start_ns is None else min(start_ns, began_ns)
    return start_ns


def _next_period(facts: WindowFacts, opened_ns: int | None, now_ns: int) -> WindowFacts:
    start_ns = period_start_ns(facts.window, now_ns, opened_ns)
    return msgspec.structs.replace(
        facts,
        start_ns=start_ns,
        end_ns=start_ns + facts.length_ns,
        left=facts.limit,
        shadow_nanousd=facts.prior_nanousd,
        p_exhaust=None,
    )


def _window(
    window: Window, targets: Sequence[Target], belief: WindowBelief | None, same_config: bool, weight: float
) -> WindowFacts:
    length_ns, prior = duration_ns(window), prior_shadow_nanousd(window, targets)
    if belief is None:
        belief = WindowBelief(
            window=window.id,
            period_start_ns=None,
            resets_at_ns=None,
            used=0,
            limit=window.limit,
            shadow_nanousd=prior,
        )
    shadow, use_p90, p_exhaust = belief.shadow_nanousd, belief.use_p90, belief.p_exhaust
    # A belief published under another config knows that config's limit.
    limit = belief.limit if same_config or window.percent_only else window.limit
    left = limit - belief.used
    if window.percent_only and left > 0 and (belief.capacity is None or belief.capacity.prior):
        limit = left = UNGUESSED  # a guess refuses nobody: the provider does
    start_ns = -length_ns if belief.period_start_ns is None else belief.period_start_ns
    return WindowFacts(
        window=window,
        id=window.id,
        unit=UNITS.index(window.unit),
        limit=limit,
        start_ns=start_ns,
        end_ns=start_ns + length_ns,
        length_ns=length_ns,
        first_request=window.kind == "first_request",
        left=left,
        prior_nanousd=prior,
        shadow_nanousd=shadow if 0.0 <= shadow <= MAX_BELIEF else prior,
        p_exhaust=p_exhaust if p_exhaust is not None and 0.0 <= p_exhaust <= 1.0 else None,
        use_p90=ceiling(use_p90) if use_p90 is not None and 0.0 <= use_p90 <= MAX_BELIEF else 0,
        weight=weight,
    )
