"""Our forecaster on recorded traffic: the models of the estimator, fed bin by bin, asked at the places of a window."""

from dataclasses import dataclass

import numpy as np

from bench.forecast.questions import PLACES, Asked, Task, asked
from bench.forecast.traffic import Traffic
from tidegate.estimator import activity, calibration, first_request
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.pace import Pace, weighed
from tidegate.estimator.paths import roll
from tidegate.estimator.pooling import shrunk
from tidegate.estimator.series_fields import BINS_PER_WINDOW, CHAIN, RECORD

NS = 1_000_000_000
_CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class Answers:
    """At each decision of `windows`: ascending draws of the rest (windows, places, DRAWS, series), the record, and for
    how many bins nothing was used (windows, places, series); `facts` of all windows where their pace counts."""

    windows: range
    draws: FloatArray
    record: FloatArray
    idle_bins: FloatArray
    facts: Asked | None
    places: tuple[int, ...] = PLACES

    def chance(self, task: Task) -> FloatArray:
        """P(rest ≥ left) as the estimator says it."""
        return self._weighed(task, self._read(task, raw=False))

    def recorded_chance(self, task: Task) -> FloatArray:
        """The same without the pace of the window, and not as one that opened with a first request."""
        return self._read(task, raw=False)

    def raw_chance(self, task: Task) -> FloatArray:
        """The same by counting draws, without the record of past forecasts."""
        return self._read(task, raw=True)

    def _weighed(self, task: Task, p: FloatArray) -> FloatArray:
        if self.facts is None:
            idle = self.idle_bins[task.window - self.windows.start, task.place, task.series]
            return first_request.read(p, idle, np.ones(p.size, dtype=np.bool_))
        at = task.window, task.place, task.series
        elapsed = np.array(self.places)[task.place] / BINS_PER_WINDOW
        return weighed(p, Pace(self.facts.used[at], elapsed), task.left, ~self.facts.idle[at])

    def _read(self, task: Task, *, raw: bool) -> FloatArray:
        found = np.empty(task.left.size)
        for begin in range(0, task.left.size, _CHUNK):
            cut = slice(begin, begin + _CHUNK)
            window = task.window[cut] - self.windows.start
            surplus = self.draws[window, task.place[cut], :, task.series[cut]].T - task.left[cut]
            if raw:
                found[cut] = (np.count_nonzero(surplus >= 0, axis=0) + 0.25) / (DRAWS + 0.5)
            else:
                record = self.record[window, task.place[cut], :, task.series[cut]].T
                found[cut] = calibration.chance(np.ascontiguousarray(record), surplus)
        return found

    def place_of(self, window: int, place: int, rest: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Where truth `rest` (series,) fell in the predicted distribution, 0 … 1: uniform if that is right.

        Nothing more used is a value of its own weight: there the place is drawn.
        """
        at = window - self.windows.start
        draws, record = self.draws[at, place], self.record[at, place]
        below = np.where(rest > 0, 1.0 - calibration.chance(record, draws - rest), 0.0)
        upto = 1.0 - calibration.chance(record, draws - np.maximum(rest, 0.5))
        found: FloatArray = np.where(rest > 0, below, upto * rng.random(rest.size))
        return found

    def points(self, window: int, place: int) -> FloatArray:
        """The published points of the rest, (calibration.LEVELS, series)."""
        at = window - self.windows.start
        return calibration.points(self.record[at, place], self.draws[at, place])

    def corrected(self, window: int, place: int) -> FloatArray:
        """Equally likely values of the rest, ascending (DRAWS, series)."""
        at = window - self.windows.start
        return calibration.corrected(self.record[at, place], self.draws[at, place])


def answers(
    traffic: Traffic,
    windows: range,
    column: FloatArray | None = None,
    *,
    fixed_clock: bool = True,
    places: tuple[int, ...] = PLACES,
) -> Answers:
    """Feed all bins in time order; a forecast sees only what ended before it is asked.

    `column` is what others taught of each series (`pooling.pooled`), as the estimator reads it in; without, nobody did. Windows that open with a
    first request have no `fixed_clock`, and their pace does not count.
    """
    n = traffic.units.shape[0]
    window_ns = traffic.window_s * NS
    bin_ns = window_ns // BINS_PER_WINDOW
    series, everyone = Consumption(n), np.arange(n)
    series.open_series(everyone, np.full(n, window_ns))
    taught = None if column is None else np.repeat(column[:, None], n, axis=1)
    draws = np.zeros((len(windows), len(places), DRAWS, n))
    record = np.zeros((len(windows), len(places), len(calibration.FIELDS), n))
    idle_bins = np.zeros((len(windows), len(places), n))
    for window in range(windows.stop):
        for bin_ in range(BINS_PER_WINDOW):
            units = traffic.units[:, window, bin_]
            busy = np.flatnonzero(units)
            begin_ns = (window * BINS_PER_WINDOW + bin_) * bin_ns
            series.observe(busy, np.full(busy.size, begin_ns + bin_ns // 2), units[busy].astype(np.int64))
            if window in windows and bin_ + 1 in places:
                at = window - windows.start, places.index(bin_ + 1)
                draws[at], record[at], idle_bins[at] = _ask(
                    series, begin_ns + bin_ns, (window + 1) * window_ns, taught
                )
    return Answers(windows, draws, record, idle_bins, asked(traffic, places) if fixed_clock else None, places)


def _ask(
    series: Consumption, now_ns: int, reset_ns: int, taught: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    block = series.closed_at(np.arange(series.size), now_ns)
    if taught is not None:
        block = shrunk(block, taught)
    horizon_ms = np.full(series.size, (reset_ns - now_ns) / 1e6)
    draws = np.sort(roll(block, now_ns / 1e6, horizon_ms).total(), axis=0)
    return draws, block[RECORD], block[CHAIN][activity.AGE]


def taught(traffic: Traffic) -> FloatArray:
    """The estimator's columns of all series after all windows."""
    n, windows, _ = traffic.units.shape
    window_ns = traffic.window_s * NS
    bin_ns = window_ns // BINS_PER_WINDOW
    series, everyone = Consumption(n), np.arange(n)
    series.open_series(everyone, np.full(n, window_ns))
    flat = traffic.units.reshape(n, -1)
    for bin_ in range(flat.shape[1]):
        busy = np.flatnonzero(flat[:, bin_])
        at_ns = np.full(busy.size, bin_ * bin_ns + bin_ns // 2)
        series.observe(busy, at_ns, flat[busy, bin_].astype(np.int64))
    return series.closed_at(everyone, windows * window_ns)
