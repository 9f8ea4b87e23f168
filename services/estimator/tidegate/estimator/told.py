"""Windows whose provider tells of them: counts or shares, and by difference what others of the account used. Pure.

A share moves the estimate of capacity (`capacity`), a count is a measurement of the ledger; both book the use of
others in a series of its own (`outside_use`).
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.capacity import Capacity
from tidegate.estimator.columns import IntColumns
from tidegate.estimator.outside_use import OutsideUse
from tidegate.estimator.windows import OUTSIDE, START_NS, USED, WindowLedger

LAST_NS, LAST_SHARE, LAST_START_NS, GUESS, HEARD_NS = range(5)
WHOLE = 10_000
_STEP = 50
"""Half a percent, in ten-thousandths: a report that moved less is taken a 120th of the window after the last."""
_PER_WINDOW = 120
_JITTER_NS = 5_000_000_000
_NEVER = -(1 << 62)


class Report(NamedTuple):
    """One report of a window: `limit` and `remaining` as told, in the window's units without a `guess`, of which
    `counted` units are ours that the ledger does not hold yet."""

    series: int
    ts_ns: int
    start_ns: int
    duration_ns: int
    first_request: bool
    limit: int
    remaining: int
    counted: int
    guess: int | None


class ToldRow(NamedTuple):
    """What is stored of a window that its provider tells of."""

    last: list[int]
    capacity: list[float]
    outside: list[int]
    outside_use: list[float]


class _Last(IntColumns):
    """The last report that was taken: when, its share and period, and the capacity as guessed (0: counts are told).

    `heard_ns`: when the newest one of its period came, taken or not.
    """

    FIELDS = ("last_ns", "last_share", "last_start_ns", "guess", "heard_ns")
    PRIOR = (_NEVER, -1, _NEVER, 0, _NEVER)


class Told:
    """One column per window that was ever told of, found by the window's series in `places`."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.last = _Last()
        self.capacity = Capacity()
        self.outside = OutsideUse()

    def place(self, series: int, duration_ns: int) -> int:
        """The column of a window, made at its first report."""
        place = self.places.get(series)
        if place is None:
            place = self.places[series] = len(self.places)
            for table in (self.last, self.capacity, self.outside):
                table.ensure(place + 1)
            one = np.array([place], dtype=np.int64)
            length = np.array([duration_ns], dtype=np.int64)
            self.capacity.open_window(one, length)
            self.outside.rate.open_series(one, length)
        return place

    def is_due(self, report: Report) -> bool:
        """Whether a report says enough to be taken: a step of the share, a new period, or time has passed.

        Depends on the reports alone, so it does not matter how they are cut into batches.
        """
        place = self.places.get(report.series)
        if place is None:
            return True
        last_ns, last_share, last_start_ns, *_ = self.last.row(place)
        share = _share(report)
        return (
            abs(share - last_share) >= _STEP
            or (share >= WHOLE) != (last_share >= WHOLE)
            or report.ts_ns - last_ns >= report.duration_ns // _PER_WINDOW
            or abs(report.start_ns - last_start_ns) > _JITTER_NS
        )

    def hear(self, report: Report) -> None:
        """Note a report that says too little to be taken: what it confirms is as old as it, not as the last taken."""
        self._heard(self.places[report.series], report.ts_ns)

    def _heard(self, place: int, ts_ns: int) -> None:
        self.last.data[HEARD_NS, place] = max(int(self.last.data[HEARD_NS, place]), ts_ns)

    def observe(self, ledger: WindowLedger, report: Report) -> None:
        """Take a report; the ledger holds every use that was settled before it."""
        place = self.place(report.series, report.duration_ns)
        row, one = np.array([report.series]), np.array([place])
        at, start = np.array([report.ts_ns]), np.array([report.start_ns])
        known_ns = int(ledger.data[START_NS, report.series])
        # A period that the provider began anew before the old one ended is told only by its later start.
        overlap = report.duration_ns if report.start_ns <= known_ns else _JITTER_NS
        fresh = ledger.enter(row, at, start, np.array([overlap if report.first_request else 0]))
        if not fresh[0]:
            return
        self.last.data[:HEARD_NS, place] = report.ts_ns, _share(report), report.start_ns, report.guess or 0
        self._heard(place, report.ts_ns)
        start, own = ledger.data[START_NS, row], ledger.data[USED, row] + report.counted
        if report.guess is None:
            total = np.maximum(report.limit - report.remaining - own, 0)
            ledger.data[OUTSIDE, row] = total
            self.outside.observe(one, at, start, total.astype(np.float64))
            return
        ours, percent = own.astype(np.float64), np.array([_share(report) * 100.0 / WHOLE])
        self.capacity.guess(one, np.array([float(report.guess)]))
        self.capacity.observe(one, at, start, ours, percent)
        known = self.capacity.belief(one, report.ts_ns, start, ours)
        # Booked is what is surely theirs: rounding and doubt about the capacity are nobody's use.
        self.outside.observe(one, at, start, known.outside - np.sqrt(known.outside_var))

    def row(self, series: int) -> ToldRow | None:
        """The stored state of a window, None where its provider never told of it."""
        place = self.places.get(series)
        if place is None:
            return None
        return ToldRow(
            self.last.row(place),
            self.capacity.row(place),
            self.outside.row(place),
            self.outside.rate.row(place),
        )

    def load(self, series: int, duration_ns: int, row: ToldRow) -> None:
        """Restore what `row` gave."""
        place = self.place(series, duration_ns)
        # Before it was noted when a report was heard, the last one taken was the newest known.
        self.last.load(place, row.last if len(row.last) > HEARD_NS else [*row.last, row.last[LAST_NS]])
        self.capacity.load(place, row.capacity)
        self.outside.load(place, row.outside)
        self.outside.rate.load(place, row.outside_use)


def _share(report: Report) -> int:
    """Used share in ten-thousandths, 0 … 10,000."""
    used = max(report.limit - report.remaining, 0)
    return min(used * WHOLE // report.limit, WHOLE)
