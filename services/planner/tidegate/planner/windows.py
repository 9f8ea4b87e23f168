"""Quota windows of a pool as they stand in their running period, with what is believed of each. Pure."""

from collections.abc import Sequence

import msgspec

from tidegate.events.config import Pool, Target, Window
from tidegate.events.decision import NO_PEAK, WindowUse
from tidegate.events.peak import NEVER_NS, peak_at, peak_until_ns
from tidegate.events.quota import (
    counts_for_ns,
    duration_ns,
    period_start_ns,
    prior_shadow_nanousd,
    slice_ns,
)
from tidegate.events.snapshots import RateSnapshot, WindowBelief
from tidegate.events.types import Unit, WindowId
from tidegate.planner.beliefs import MAX_BELIEF, ceiling

UNITS: tuple[Unit, ...] = ("requests", "tokens", "nanousd")

UNGUESSED = 1 << 62
"""Room of a window of whose capacity nothing is known."""


class WindowFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A window in the period [start, end); units are the window's own. Of a rolling one the period is a slice."""

    window: Window
    id: WindowId
    unit: int
    """Index of the window's unit in UNITS."""
    limit: int
    start_ns: int
    end_ns: int
    length_ns: int
    counts_ns: int
    """How long after the start of its period a use counts."""
    first_request: bool
    """Its period begins with its first request."""
    rolling: bool
    ages_out: tuple[tuple[int, int], ...]
    """Of a rolling window, when how many of the used units count no longer, in order of time."""
    void_ns: int
    """From then on nothing is believed of a rolling window any more."""
    left: int
    prior_nanousd: float
    """λ of a period of which nothing is believed, > 0."""
    shadow_nanousd: float
    p_exhaust: float | None
    use_p90: int
    model_weight: float
    """How often a unit of the candidate's model counts."""
    peak: float
    """How often any unit counts at the hour."""
    weight: float
    """Both together."""
    weighs_until_ns: int
    """From then on the hour may weigh otherwise."""


class QuotaFacts(msgspec.Struct, frozen=True, gc=False):
    """A pool's windows, good until the first period ends."""

    windows: tuple[WindowFacts, ...]
    resets_at_ns: int
    """Earliest end of a period, or of an hour's weight; from then on `renewed` must be asked."""
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
    at_ns = 0
    if snapshot is not None and snapshot.pool is not None:
        known = {belief.window: belief for belief in snapshot.pool.windows}
        at_ns = snapshot.at_ns
    same_config = snapshot is not None and snapshot.config == digest
    facts: list[WindowFacts] = []
    for window in pool.windows:
        belief = known.get(window.id)
        each = _window(window, targets, belief, same_config, weight)
        if window.peaks:
            each = _at_hour(each, at_ns)
        facts.append(each if belief is None or not each.rolling else _in_slice(each, belief, at_ns))
    return _quota_facts(facts)


def renewed(facts: QuotaFacts, uses: Sequence[WindowUse], now_ns: int) -> QuotaFacts:
    """The windows with every ended period replaced by the one of `now_ns`, and units weighed as at that hour.

    What was believed of a period that ended is void: nothing is used, λ is its prior, P(exhaust) is unknown. A
    `first_request` period is the one our own uses opened, else it begins with this request.
    """
    windows: list[WindowFacts] = []
    for window in facts.windows:
        current = window
        if now_ns >= window.end_ns:
            current = _next_period(window, _opened_ns(uses, window, now_ns), now_ns)
        windows.append(current if now_ns < current.weighs_until_ns else _at_hour(current, now_ns))
    return _quota_facts(windows)


def _quota_facts(windows: Sequence[WindowFacts]) -> QuotaFacts:
    risk = max([window.p_exhaust for window in windows if window.p_exhaust is not None], default=None)
    ends_ns = min([window.end_ns for window in windows])
    resets_at_ns = min(ends_ns, *[window.weighs_until_ns for window in windows])
    return QuotaFacts(tuple(windows), resets_at_ns, risk, (1.0 if risk is None else risk, ends_ns))


def _opened_ns(uses: Sequence[WindowUse], facts: WindowFacts, now_ns: int) -> int | None:
    """When the first of the window's periods that still run and have own uses began."""
    start_ns = None
    for use in uses:
        began_ns = use.period_start_ns
        if use.window == facts.id and now_ns < began_ns + facts.length_ns:
            start_ns = began_ns if start_ns is None else min(start_ns, began_ns)
    return start_ns


def _at_hour(facts: WindowFacts, at_ns: int) -> WindowFacts:
    peaks = facts.window.peaks
    peak = peak_at(peaks, at_ns)
    return msgspec.structs.replace(
        facts, peak=peak, weight=facts.model_weight * peak, weighs_until_ns=peak_until_ns(peaks, at_ns)
    )


def _in_slice(facts: WindowFacts, belief: WindowBelief, at_ns: int) -> WindowFacts:
    """A rolling window as it was believed at `at_ns`: good until the slice of that time ends."""
    start_ns = period_start_ns(facts.window, at_ns)
    return msgspec.structs.replace(
        facts,
        start_ns=start_ns,
        end_ns=start_ns + slice_ns(facts.length_ns),
        ages_out=belief.ages_out,
        void_ns=at_ns + facts.counts_ns,
    )


def _next_slice(facts: WindowFacts, now_ns: int) -> WindowFacts:
    """A rolling window with what has aged out; what is believed of it holds until all it was made of has."""
    start_ns = period_start_ns(facts.window, now_ns)
    gone = sum([units for at_ns, units in facts.ages_out if at_ns <= now_ns])
    known = now_ns < facts.void_ns
    return msgspec.structs.replace(
        facts,
        start_ns=start_ns,
        end_ns=start_ns + slice_ns(facts.length_ns),
        left=min(facts.left + gone, facts.limit),
        ages_out=tuple([each for each in facts.ages_out if each[0] > now_ns]),
        shadow_nanousd=facts.shadow_nanousd if known else facts.prior_nanousd,
        p_exhaust=facts.p_exhaust if known else None,
    )


def _next_period(facts: WindowFacts, opened_ns: int | None, now_ns: int) -> WindowFacts:
    if facts.rolling:
        return _next_slice(facts, now_ns)
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
        counts_ns=counts_for_ns(window),
        first_request=window.kind == "first_request",
        rolling=window.kind == "rolling",
        ages_out=(),
        void_ns=0,
        left=left,
        prior_nanousd=prior,
        shadow_nanousd=shadow if 0.0 <= shadow <= MAX_BELIEF else prior,
        p_exhaust=p_exhaust if p_exhaust is not None and 0.0 <= p_exhaust <= 1.0 else None,
        use_p90=ceiling(use_p90) if use_p90 is not None and 0.0 <= use_p90 <= MAX_BELIEF else 0,
        model_weight=weight,
        peak=NO_PEAK,
        weight=weight,
        weighs_until_ns=NEVER_NS,
    )
