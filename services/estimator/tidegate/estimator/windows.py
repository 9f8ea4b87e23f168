"""Ledger of quota windows: exact integer use per period, roll-over, and what the provider itself counts.

Period starts come with the records (`tidegate.events.quota` computes them); use counts by period, not by arrival.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray, IntColumns
from tidegate.estimator.rounds import scan

START_NS, USED, OUTSIDE, PREVIOUS_START_NS, PREVIOUS_USED, OLDER_USED, OBSERVED_NS = range(7)
_NEVER = -(1 << 62)
NO_ANCHOR = -1


class WindowState(NamedTuple):
    """Per window at a moment."""

    used: IntArray
    """Units used in the running period, outside use included; 0 after a roll-over."""
    remaining: IntArray
    start_ns: IntArray
    resets_at_ns: IntArray
    """Start and end of the running period; 0 when not known."""
    elapsed: FloatArray
    """Share of the period that has passed, 0 … 1; NaN when not known."""
    known: BoolArray
    """False: a period that opens with its first request, and nobody has used it yet."""


class WindowLedger(IntColumns):
    """Units per window and period, exact."""

    FIELDS = (
        "start_ns",
        "used",
        "outside",
        "previous_start_ns",
        "previous_used",
        "older_used",
        "observed_ns",
    )
    PRIOR = (_NEVER, 0, 0, _NEVER, 0, 0, _NEVER)

    def use(self, idx: IntArray, start_ns: IntArray, units: IntArray, overlap_ns: IntArray) -> None:
        """Add `units` to the period that began at `start_ns`; negative units are a correction. Windows may
        repeat and keep their order.

        A newer start rolls the window over. The previous period still takes late records; what is older yet is
        only totalled. `overlap_ns` is 0 for fixed periods and the duration for those that open with a first
        request: there two gateways may name different starts of one period, and the earliest is right.
        """
        scan(self, idx, (start_ns, units, overlap_ns), _use)

    def observe(
        self, idx: IntArray, ts_ns: IntArray, start_ns: IntArray, used: IntArray, overlap_ns: IntArray
    ) -> None:
        """The provider says `used` units are gone in the period of `start_ns`: a direct measurement.

        The difference to our own count is booked as use from outside; an older measurement than the last, or of
        a past period, is ignored.
        """
        fresh = self.enter(idx, ts_ns, start_ns, overlap_ns)
        self.data[OUTSIDE, idx] = np.where(fresh, used - self.data[USED, idx], self.data[OUTSIDE, idx])

    def enter(self, idx: IntArray, ts_ns: IntArray, start_ns: IntArray, overlap_ns: IntArray) -> BoolArray:
        """The provider tells at `ts_ns` of the period of `start_ns`; from now on only it says when the period began.

        False for reports that are older than the last or of a past period: they change nothing.
        """
        block = self.take(idx)
        fresh: BoolArray = _roll(block, start_ns, overlap_ns) & (ts_ns >= block[OBSERVED_NS])
        block[OBSERVED_NS] = np.where(fresh, ts_ns, block[OBSERVED_NS])
        self.put(idx, block)
        return fresh

    def state(
        self, idx: IntArray, now_ns: int, duration_ns: IntArray, limit: IntArray, anchor_ns: IntArray
    ) -> WindowState:
        """The windows at `now_ns`; use ends with its period, exactly at start + duration (half-open).

        `anchor_ns` is the anchor of a fixed period, NO_ANCHOR for one that opens with its first request.
        """
        block = self.take(idx)
        running = (block[START_NS] != _NEVER) & (now_ns < block[START_NS] + duration_ns)
        fixed = anchor_ns != NO_ANCHOR
        clock = fixed_start_ns(np.full(idx.size, now_ns, dtype=np.int64), anchor_ns, duration_ns)
        known = running | fixed
        start = np.where(running, block[START_NS], np.where(fixed, clock, 0))
        used = np.where(running, np.maximum(block[USED] + block[OUTSIDE], 0), 0)
        return WindowState(
            used=used,
            remaining=np.maximum(limit - used, 0),
            start_ns=start,
            resets_at_ns=np.where(known, start + duration_ns, 0),
            elapsed=np.where(known, np.clip((now_ns - start) / duration_ns, 0.0, 1.0), np.nan),
            known=known,
        )


def fixed_start_ns(now_ns: IntArray, anchor_ns: IntArray, duration_ns: IntArray) -> IntArray:
    """Start of the fixed period that contains `now_ns`, for many windows; as `events.quota.period_start_ns`."""
    into: IntArray = np.mod(now_ns - anchor_ns, duration_ns)
    return now_ns - into


def _use(block: IntArray, start_ns: IntArray, units: IntArray, overlap_ns: IntArray) -> None:
    """One use per window, in place."""
    current = _roll(block, start_ns, overlap_ns)
    previous = ~current & _same(block[PREVIOUS_START_NS], start_ns, overlap_ns)
    block[USED] += np.where(current, units, 0)
    block[PREVIOUS_USED] += np.where(previous, units, 0)
    block[OLDER_USED] += np.where(current | previous, 0, units)


def _same(known_ns: IntArray, start_ns: IntArray, overlap_ns: IntArray) -> BoolArray:
    same: BoolArray = (start_ns == known_ns) | (np.abs(start_ns - known_ns) < overlap_ns)
    return same


def _roll(block: IntArray, start_ns: IntArray, overlap_ns: IntArray) -> BoolArray:
    """Make room for the period of `start_ns`; True where it is the running one."""
    current = _same(block[START_NS], start_ns, overlap_ns)
    earlier = current & (block[OBSERVED_NS] == _NEVER)  # what a provider said of its own period stays
    block[START_NS] = np.where(earlier, np.minimum(block[START_NS], start_ns), block[START_NS])
    newer = ~current & (start_ns > block[START_NS])
    known = _same(block[PREVIOUS_START_NS], start_ns, overlap_ns)
    between = ~current & ~newer & ~known & (start_ns > block[PREVIOUS_START_NS])
    block[OLDER_USED] += np.where(newer | between, block[PREVIOUS_USED], 0)
    block[PREVIOUS_USED] = np.where(newer, block[USED], np.where(between, 0, block[PREVIOUS_USED]))
    previous_start = np.where(newer, block[START_NS], block[PREVIOUS_START_NS])
    block[PREVIOUS_START_NS] = np.where(between, start_ns, previous_start)
    block[USED] = np.where(newer, 0, block[USED])
    block[OUTSIDE] = np.where(newer, 0, block[OUTSIDE])
    block[OBSERVED_NS] = np.where(newer, _NEVER, block[OBSERVED_NS])
    block[START_NS] = np.where(newer, start_ns, block[START_NS])
    running: BoolArray = current | newer
    return running
