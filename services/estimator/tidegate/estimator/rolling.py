"""Ledger of rolling windows: exact units per slice of time, and what of them ages out when. Pure.

A use counts until the last moment of its slice is a window's length ago: up to a sixtieth longer than the provider
counts it, never shorter.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray, IntColumns
from tidegate.estimator.rounds import scan
from tidegate.events.quota import SLICES, slice_ns

CELLS = 64
"""Slices held: those that count, and a few that are late or ahead."""
NEWEST, OLDER_USED = range(2)
RING = slice(2, 2 + CELLS)
_NEVER = -(1 << 62)
_CELL: IntArray = np.arange(CELLS, dtype=np.int64)[:, None]


class Rolled(NamedTuple):
    """Rolling windows at a moment, arrays (n,) or (CELLS, n)."""

    used: IntArray
    newer: IntArray
    """Units of the newer half of the window."""
    ends_ns: IntArray
    """When each cell's units count no longer, ascending."""
    units: IntArray


class _Slices(IntColumns):
    """Units by slice: cell k holds the newest slice whose number is k modulo CELLS."""

    FIELDS = ("newest", "older_used", *(f"slice_{k}" for k in range(CELLS)))
    PRIOR = (_NEVER, 0, *(0,) * CELLS)


class Rolling:
    """One column per rolling window, found by the window's series in `places`."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.slices = _Slices()
        self._width_ns: list[int] = []

    def place(self, series: int, length_ns: int) -> int:
        """The column of a window, made at its first use; its width of slices stays for life."""
        place = self.places.get(series)
        if place is None:
            place = self.places[series] = len(self.places)
            self.slices.ensure(place + 1)
            self._width_ns.append(slice_ns(length_ns))
        return place

    def use(self, places: IntArray, start_ns: IntArray, units: IntArray) -> None:
        """Add `units` to the slices in which `start_ns` lie; negative units are a correction. Windows may repeat
        and keep their order; what is older than all that is held is only totalled."""
        scan(self.slices, places, (start_ns // self._widths(places), units), _use)

    def at(self, places: IntArray, now_ns: int) -> Rolled:
        """The windows at `now_ns`."""
        block, width = self.slices.take(places), self._widths(places)
        numbers = _numbers(np.where(block[NEWEST] == _NEVER, now_ns // width, block[NEWEST]))
        order = np.argsort(numbers, axis=0, kind="stable")
        ends = (np.take_along_axis(numbers, order, axis=0) + SLICES + 1) * width
        units = np.take_along_axis(block[RING], order, axis=0)
        units = np.where(ends > now_ns, units, 0)
        newer = np.where(ends - now_ns > (SLICES // 2) * width, units, 0)
        return Rolled(np.maximum(units.sum(axis=0), 0), np.maximum(newer.sum(axis=0), 0), ends, units)

    def row(self, series: int) -> list[int] | None:
        """The stored state of a window, None where none of its uses was of a rolling one."""
        place = self.places.get(series)
        return None if place is None else self.slices.row(place)

    def load(self, series: int, length_ns: int, row: list[int]) -> None:
        """Restore what `row` gave."""
        self.slices.load(self.place(series, length_ns), row)

    def _widths(self, places: IntArray) -> IntArray:
        return np.array(self._width_ns, dtype=np.int64)[places]


class Ageing(NamedTuple):
    """What of the use of windows ages out when: seconds from now, ascending, and units; arrays (CELLS, n). Windows
    that do not roll have no units here."""

    at_s: FloatArray
    units: FloatArray

    def of(self, windows: IntArray | slice) -> "Ageing":
        """That of some of the windows."""
        return Ageing(self.at_s[:, windows], self.units[:, windows])

    def total(self) -> FloatArray:
        """All that ages out, (n,)."""
        found = np.zeros(self.units.shape[1])
        for units in self.units:
            found = found + units
        return found

    def until(self, to_s: FloatArray) -> FloatArray:
        """Units that count no longer `to_s` (steps, n) seconds from now, added in order of time."""
        found = np.zeros(to_s.shape)
        for at_s, units in zip(self.at_s, self.units, strict=True):
            found = found + np.where(at_s <= to_s, units, 0.0)
        return found


def _use(block: IntArray, number: IntArray, units: IntArray) -> None:
    """One use per window, in place."""
    newest = np.maximum(block[NEWEST], number)
    gone = _numbers(block[NEWEST]) != _numbers(newest)
    block[OLDER_USED] += np.where(gone, block[RING], 0).sum(axis=0)
    block[RING] = np.where(gone, 0, block[RING])
    block[NEWEST] = newest
    held = number > newest - CELLS
    everyone = np.arange(number.size)
    block[RING.start + number % CELLS, everyone] += np.where(held, units, 0)
    block[OLDER_USED] += np.where(held, 0, units)


def _numbers(newest: IntArray) -> IntArray:
    """The slice that each cell holds."""
    numbers: IntArray = newest - np.mod(newest - _CELL, CELLS)
    return numbers
