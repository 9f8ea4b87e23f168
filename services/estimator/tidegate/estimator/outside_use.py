"""What others use of the same account, as a series of its own: booked by difference, forecast like our own use.

Its sum comes from the provider: its own count less ours, or the estimate of `capacity` where it tells a percentage.
"""

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray, IntColumns
from tidegate.estimator.consumption import Consumption

START_NS, BOOKED = 0, 1
_NEVER = -(1 << 62)


class OutsideUse(IntColumns):
    """Units of others that are booked per window and period. `rate` is their series, by the same index."""

    FIELDS = ("start_ns", "booked")
    PRIOR = (_NEVER, 0)

    def __init__(self, size: int = 0) -> None:
        self.rate = Consumption(size)
        super().__init__(size)

    def ensure(self, size: int) -> None:
        """Make room for windows 0 … size-1 in both tables."""
        super().ensure(size)
        self.rate.ensure(size)

    def observe(self, idx: IntArray, ts_ns: IntArray, start_ns: IntArray, total: FloatArray) -> IntArray:
        """Others used `total` units of the period that began at `start_ns`, as far as is known at `ts_ns`.

        Unique windows. What is new since the last call is booked at `ts_ns` and returned; a lower total than
        before is a better estimate, not a refund: nothing is booked until it is passed again. Totals that are
        unknown (NaN) or of a past period book nothing.
        """
        start, booked = self.data[START_NS, idx], self.data[BOOKED, idx]
        counts = np.isfinite(total) & (start_ns >= start)
        before = np.where(start_ns > start, 0, booked)
        whole = np.floor(np.where(counts, total, 0.0)).astype(np.int64)
        units = np.where(counts, np.maximum(whole - before, 0), 0)
        self.data[START_NS, idx] = np.where(counts, start_ns, start)
        self.data[BOOKED, idx] = np.where(counts, before + units, booked)
        self.rate.observe(idx[counts], ts_ns[counts], units[counts])
        return units
