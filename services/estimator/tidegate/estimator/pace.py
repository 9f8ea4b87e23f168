"""Will the window's own pace use up the quota? A second opinion, weighed with the model's chance in log odds.

The model reverts to what a series did for days; a window that is busier or slower than that tends to stay so. Pools
of opinions in log odds are calibrated where the single ones are too timid (Satopää et al. 2014). Only for windows of
a fixed clock: one that opens with a first request begins busy and then stops. Pure.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray

# Logistic regression on week one of ServeGen, quota the 70 % quantile of each client: see tests/bench/forecast.
_OWN = 0.82
_PACE = 0.66
SURE = 1e-3
"""Chances nearer to 0 or 1 count as this far away: the draws tell no more."""
LEAST = 0.01
"""Share of the quota that is added to what is left and to what the pace asks: neither may be nothing."""
FARTHEST = 4.0
EARLY = 0.1
"""Until this share of a window has gone, its pace says proportionally less."""


class Pace(NamedTuple):
    """Of each window the units used since it opened, and the share of its length that has gone; NaN: says nothing."""

    used: FloatArray
    elapsed: FloatArray

    def of(self, windows: IntArray | slice) -> "Pace":
        """That of some of the windows."""
        return Pace(self.used[windows], self.elapsed[windows])


def weighed(p: FloatArray, pace: Pace, left: FloatArray, busy: BoolArray) -> FloatArray:
    """The chance `p` that `left` units are used before the reset, with the pace of the window so far weighed in.

    A window that is not `busy` now has no pace, only a less certain chance. All arrays (n,).
    """
    used, elapsed = pace
    quota = used + left
    known = np.isfinite(elapsed) & (elapsed > 0) & (elapsed < 1) & (quota > 0)
    quota, elapsed = np.where(known, quota, 1.0), np.where(known, elapsed, 0.5)
    asked = np.where(known, used, 0.0) / quota * (1.0 - elapsed) / elapsed
    short = np.log((asked + LEAST) / (np.maximum(left, 0.0) / quota + LEAST))
    short = np.where(busy, np.clip(short, -FARTHEST, FARTHEST), 0.0)
    trust = np.minimum(elapsed / EARLY, 1.0)
    sure = np.clip(p, SURE, 1.0 - SURE)
    odds = np.log(sure / (1.0 - sure))
    odds = odds + trust * ((_OWN - 1.0) * odds + _PACE * short)
    found: FloatArray = np.where(known, 1.0 / (1.0 + np.exp(-odds)), p)
    return found
