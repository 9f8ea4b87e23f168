"""The questions put to a forecaster: at set places of a window, how much more will be used before it ends?

From the answers come two tasks. *Fixed*: the quota is a quantile of the series' own past windows. *Relative*: it is
a multiple of what the window used in the end; hits and misses weigh the same, so no skill scores 0.25.
"""

from dataclasses import dataclass, fields

import numpy as np

from bench.forecast.traffic import Traffic
from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.series_fields import BINS_PER_WINDOW

FACTORS = (0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3)
EVERY = 3
PLACES = tuple(range(EVERY, BINS_PER_WINDOW, EVERY))
"""Bins of a window after which is asked: nine times."""
FIXED_QUANTILE = 0.7


@dataclass(frozen=True, slots=True)
class Asked:
    """What was true at each decision: arrays (windows, places, series)."""

    used: FloatArray
    rest: FloatArray
    """Used before and after the decision, within the window."""
    idle: BoolArray
    """The last closed bin was idle."""


@dataclass(frozen=True, slots=True)
class Task:
    """Questions with their truth, flat: window, place and series asked about, quota left, outcome (0 or 1)."""

    window: IntArray
    place: IntArray
    series: IntArray
    left: FloatArray
    outcome: FloatArray
    weight: FloatArray

    def where(self, mask: BoolArray) -> "Task":
        return Task(*(getattr(self, field.name)[mask] for field in fields(self)))


def asked(traffic: Traffic, places: tuple[int, ...] = PLACES) -> Asked:
    so_far = traffic.units.cumsum(axis=2)
    used = np.stack([so_far[:, :, place - 1] for place in places], axis=2).transpose(1, 2, 0)
    total = so_far[:, :, -1].T[:, None, :]
    idle = np.stack([traffic.units[:, :, place - 1] == 0 for place in places], axis=2).transpose(1, 2, 0)
    return Asked(used, total - used, idle)


def fixed(facts: Asked, quota: FloatArray, windows: range, *, active_only: bool = True) -> Task:
    """`quota` (series,); where it is zero nothing is asked. `active_only` leaves out windows that used nothing."""
    total = facts.used + facts.rest
    ask = _within((facts.used < quota) & (quota > 0), windows)
    if active_only:
        ask &= total > 0
    window, place, series = np.nonzero(ask)
    left = quota[series] - facts.used[ask]
    outcome = (facts.rest[ask] >= left).astype(np.float64)
    return Task(window, place, series, left, outcome, np.ones(left.size))


def relative(facts: Asked, windows: range) -> Task:
    """Quota = each of FACTORS × what was used in the end, while it is not used up."""
    total = facts.used + facts.rest
    parts: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]] = []
    for factor in FACTORS:
        ask = _within((total > 0) & (facts.used < factor * total), windows)
        window, place, series = np.nonzero(ask)
        left = factor * total[window, 0, series] - facts.used[ask]
        parts.append((window, place, series, left, np.full(left.size, float(factor < 1))))
    window, place, series, left, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
    hits = outcome.mean()
    weight = np.where(outcome > 0, 0.5 / hits, 0.5 / (1.0 - hits))
    return Task(window, place, series, left, outcome, weight)


def _within(ask: BoolArray, windows: range) -> BoolArray:
    ask[: windows.start] = False
    ask[windows.stop :] = False
    return ask


def past_quota(traffic: Traffic, windows: range, quantile: float = FIXED_QUANTILE) -> FloatArray:
    """A quantile of each series' use in past windows."""
    use = traffic.units[:, windows.start : windows.stop].sum(axis=2)
    quota: FloatArray = np.quantile(use, quantile, axis=1)
    return quota


def lead_s(traffic: Traffic, task: Task, quota: FloatArray, places: tuple[int, ...] = PLACES) -> FloatArray:
    """Seconds from each decision to the begin of the bin in which the quota is used up; inf when it is not.

    The traces tell no more than what was used in a bin, so from its begin on the quota may be gone.
    """
    over = traffic.units.cumsum(axis=2) >= quota[:, None, None]
    bin_s = traffic.window_s / BINS_PER_WINDOW
    at_s = np.where(over.any(axis=2), over.argmax(axis=2) * bin_s, np.inf)
    lead: FloatArray = at_s[task.series, task.window] - np.array(places)[task.place] * bin_s
    return lead
