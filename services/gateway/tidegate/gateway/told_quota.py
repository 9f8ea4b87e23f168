"""What a provider says of one of its limits, as an event: with the window of the pool that it measures. Pure."""

from collections.abc import Sequence

from tidegate.events.config import Window
from tidegate.events.decision import WindowUse
from tidegate.events.quota import duration_ns, period_start_ns, weighted
from tidegate.events.signals import AttemptStarted, QuotaObserved
from tidegate.gateway.rate_limits import Limit

SAME_PERIOD_NS = 5_000_000_000
"""Providers round resets to seconds, and a period begins there a little after we sent its first request."""


def observed(
    limit: Limit,
    window: Window | None,
    started: AttemptStarted,
    now_ns: int,
    weight: float = 1.0,
    *,
    served: bool,
) -> QuotaObserved:
    """The event. `window` is the one that the limit measures, None for none; `served`: the provider took the request,
    so it counts there already, `weight` times."""
    counted = 0
    if served and window is not None and window.unit == "requests":
        counted = weighted(1, weight * _peak(started.windows, window))
    return QuotaObserved(
        target=started.target,
        pool=started.pool,
        scope=limit.scope,
        limit=limit.limit,
        remaining=limit.remaining,
        resets_at_ns=limit.resets_at_ns,
        window=None if window is None else _measured(window, limit, started.windows, now_ns, counted),
        guess=window.limit if window is not None and window.percent_only else None,
    )


def _peak(reserved: Sequence[WindowUse], window: Window) -> float:
    return next((use.peak for use in reserved if use.window == window.id), 1.0)


def _measured(
    window: Window, limit: Limit, reserved: Sequence[WindowUse], now_ns: int, counted: int
) -> WindowUse:
    planned_ns = next((use.period_start_ns for use in reserved if use.window == window.id), None)
    start_ns = period_start_ns(window, now_ns, planned_ns)
    if window.kind == "first_request" and limit.resets_at_ns is not None:
        told_ns = limit.resets_at_ns - duration_ns(window)
        # Others of the account may have opened the period before us, or the provider begun a new one.
        start_ns = start_ns if abs(told_ns - start_ns) < SAME_PERIOD_NS else told_ns
    return WindowUse(window.id, start_ns, counted, duration_ns(window), window.kind == "first_request")
