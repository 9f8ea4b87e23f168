"""Utilization Velocity Index: share of the quota used over share of the period passed. A display value.

`uvi_parity` and its companions are the index as the seed router computes it, defects included, for comparison;
`uvi` is ours. Whether a window will run dry is forecast elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.events.config import UviLimits

Status = Literal["unknown", "surplus", "ok", "stressed", "critical", "exhausted"]
STATUSES: tuple[Status, ...] = ("unknown", "surplus", "ok", "stressed", "critical", "exhausted")
UNKNOWN, SURPLUS, OK, STRESSED, CRITICAL, EXHAUSTED = range(6)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where a status begins, for all windows or for each. It ends `hysteresis` further back, so that it does not
    flip with every refresh."""

    stressed: float | FloatArray = 1.5
    critical: float | FloatArray = 2.0
    surplus: float | FloatArray = 0.5
    surplus_min_elapsed: float | FloatArray = 0.7
    hysteresis: float | FloatArray = 0.1
    max_age_s: float | FloatArray = 900.0
    head_start: float = 0.15
    """Share of a period that counts as used on schedule before it began: the first minutes prove nothing."""


DEFAULT = Thresholds()


def thresholds_of(limits: Sequence[UviLimits]) -> Thresholds:
    """As configured for the pool of each window."""

    def column(name: str) -> FloatArray:
        return np.array([getattr(each, name) for each in limits], dtype=np.float64)

    return Thresholds(
        stressed=column("stressed"),
        critical=column("critical"),
        surplus=column("surplus"),
        surplus_min_elapsed=column("surplus_min_elapsed"),
        hysteresis=column("hysteresis"),
        max_age_s=column("max_age_s"),
    )


class Uvi(NamedTuple):
    """Per window: the index (NaN when unknown) and a status code, a place in STATUSES."""

    value: FloatArray
    status: IntArray


def uvi(
    used: FloatArray,
    elapsed: FloatArray,
    age_s: FloatArray,
    previous: IntArray,
    thresholds: Thresholds = DEFAULT,
) -> Uvi:
    """Index and status of windows. `used` and `elapsed` are shares of quota and period, NaN = unknown; `age_s`
    is the age of the newest evidence; `previous` the last status codes, UNKNOWN at first.

    index = (used + h) / (elapsed + h) with the head start h: bounded by (1 + h)/h, 1 for a fresh window, and on
    schedule exactly 1. Used up is exhausted until the reset, however old the evidence.
    """
    t = thresholds
    defined = np.isfinite(used) & np.isfinite(elapsed) & (elapsed >= 0.0) & (elapsed < 1.0)
    share = np.where(defined, np.maximum(used, 0.0), 0.0)
    passed = np.where(defined, elapsed, 0.0)
    index = (share + t.head_start) / (passed + t.head_start)
    slack = t.hysteresis
    critical = index >= np.where(previous >= CRITICAL, t.critical - slack, t.critical)
    stressed = index >= np.where(previous >= STRESSED, t.stressed - slack, t.stressed)
    spare = index <= np.where(previous == SURPLUS, t.surplus + slack, t.surplus)
    status = np.where(spare & (passed >= t.surplus_min_elapsed), SURPLUS, OK)
    status = np.where(stressed, STRESSED, status)
    status = np.where(critical, CRITICAL, status)
    usable = defined & (age_s <= t.max_age_s)
    status = np.where(usable, status, UNKNOWN)
    status = np.where(defined & (share >= 1.0), EXHAUSTED, status)
    shown = usable | (status == EXHAUSTED)
    return Uvi(np.where(shown, index, np.nan), status.astype(np.int64))


def pool_status(codes: list[int]) -> int:
    """Status of a pool from those of its windows: the worst, so surplus only where every window is in surplus.

    An unknown window hides no stress elsewhere; without stress it makes the pool unknown.
    """
    worst = max(codes, default=UNKNOWN)
    if worst >= STRESSED or not codes:
        return worst
    return UNKNOWN if UNKNOWN in codes else worst


@dataclass(frozen=True, slots=True)
class ParityWindow:
    """A quota window as the seed router sees it; times in milliseconds."""

    scope: str
    used_percent: float
    fetched_at_ms: float
    duration_ms: float
    resets_at_ms: float | None = None
    resets_in_s: float | None = None
    stale: bool = False


def elapsed_parity(window: ParityWindow, now_ms: float) -> float:
    """Share of the period that passed; 0 without reset or with a bad duration."""
    if window.resets_at_ms is not None:
        remaining = window.resets_at_ms - now_ms
    elif window.resets_in_s is not None:
        remaining = window.fetched_at_ms + window.resets_in_s * 1000.0 - now_ms
    else:
        return 0.0
    if not (math.isfinite(window.duration_ms) and window.duration_ms > 0):
        return 0.0
    remaining = min(max(remaining, 0.0), window.duration_ms)
    return min(max(1.0 - remaining / window.duration_ms, 0.0), 1.0)


def uvi_parity(used_percent: float, elapsed: float) -> float:
    """clamp01(used/100) ÷ max(elapsed, 0.05); 0 when not finite. Range 0 … 20."""
    value = min(max(used_percent / 100.0, 0.0), 1.0) / max(elapsed, 0.05)
    return value if math.isfinite(value) else 0.0


def status_parity(value: float, elapsed: float) -> Status:
    """Status of an index, in the seed's order of tests."""
    if value >= 2.0:
        return "critical"
    if value >= 1.5:
        return "stressed"
    if value <= 0.5 and elapsed >= 0.7:
        return "surplus"
    return "ok"


class ParityVerdict(NamedTuple):
    """A provider's worst window: index to three decimals, status before rounding, its reason, staleness."""

    value: float
    status: Status
    reason: str
    stale: bool


def aggregate_parity(windows: list[ParityWindow], now_ms: float) -> ParityVerdict:
    """The window with the largest index decides, the first one on ties; no windows = 0, ok."""
    if not windows:
        return ParityVerdict(0.0, "ok", "no data", stale=False)
    rated = [(uvi_parity(w.used_percent, e), e, w) for w in windows for e in (elapsed_parity(w, now_ms),)]
    value, elapsed, worst = max(rated, key=lambda item: item[0])
    reason = f"{worst.scope}@{worst.used_percent:g}%"
    listed = ", ".join(f"{w.scope}@{w.used_percent:g}%" for w in windows)
    return ParityVerdict(
        round(value, 3),
        status_parity(value, elapsed),
        f"worst {reason} of {listed}",
        any(w.stale for w in windows),
    )


class ParityPartition(NamedTuple):
    """Providers by what their status does to them, each in the given order; `ordered` is who is asked, in turn."""

    ordered: tuple[str, ...]
    promoted: tuple[str, ...]
    normal: tuple[str, ...]
    demoted: tuple[str, ...]
    blocked: tuple[str, ...]


def partition_parity(audited: Sequence[tuple[str, Status]], *, hard: bool = False) -> ParityPartition:
    """Surplus first, stressed last, critical never. In hard mode the stressed are listed but not asked.

    Used up is critical here: the seed, which had no such status, let it through late in a period.
    """
    buckets: dict[str, list[str]] = {"promoted": [], "normal": [], "demoted": [], "blocked": []}
    for name, status in audited:
        buckets[_BUCKET.get(status, "normal")].append(name)
    promoted, normal, demoted, blocked = (tuple(names) for names in buckets.values())
    return ParityPartition(promoted + normal + (() if hard else demoted), promoted, normal, demoted, blocked)


_BUCKET: dict[Status, str] = {
    "surplus": "promoted",
    "stressed": "demoted",
    "critical": "blocked",
    "exhausted": "blocked",
}
