"""Will a quota window run dry before its reset, when, and how much demand is left?

Consumption never decreases inside a window, so first passage is terminal exceedance: the chain and the level are
rolled forward over the remaining bins on fixed draws, and the draws that pass the remaining quota are counted and
read through the record of the series' own forecasts. A rolling window gives back meanwhile what was used a window's
length before: there the largest shortfall of a path counts.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator import activity, calibration, first_request
from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.pace import Pace, weighed
from tidegate.estimator.paths import Paths, most_short, passage_s, pressing, roll
from tidegate.estimator.peak_hours import Peaks, of_windows, weighed_paths
from tidegate.estimator.pooling import shrunk
from tidegate.estimator.rolling import Ageing
from tidegate.estimator.series_fields import BIN_MS, CHAIN, LEVEL_BIN, OPEN_UNITS, RECORD

_CHUNK = 256
"""Windows forecast at a time: keeps the draws in cache. Does not change a result."""
_ACTIVE = CHAIN.start + activity.ACTIVE
_AGE = CHAIN.start + activity.AGE
_ANOTHER = 11
"""Draws of outside use are taken this many places on, so that they do not move with our own."""


class Known(NamedTuple):
    """What is known of windows beside their series; None: of none of them. See `forecast`."""

    pace: Pace
    ageing: Ageing | None
    peaks: Peaks | None
    taught: FloatArray | None
    opened: BoolArray | None

    def of(self, windows: IntArray) -> "Known":
        """That of some of the windows."""
        return Known(
            self.pace.of(windows),
            None if self.ageing is None else self.ageing.of(windows),
            of_windows(self.peaks, windows),
            None if self.taught is None else self.taught[:, windows],
            None if self.opened is None else self.opened[windows],
        )


class Forecast(NamedTuple):
    """Per window; NaN where unknown. Times are seconds from now, demand is in the window's unit."""

    p_exhaust: FloatArray
    """P(remaining consumption ≥ remaining quota before the reset); 1 when nothing remains."""
    exhaust_mean_s: FloatArray
    exhaust_var_s2: FloatArray
    """Mean and variance of the exhaustion time, given that it comes before the reset."""
    exhaust_p10_s: FloatArray
    exhaust_p50_s: FloatArray
    exhaust_p90_s: FloatArray
    """Quantiles of the exhaustion time; NaN when that quantile is not before the reset."""
    demand_mean: FloatArray
    demand_var: FloatArray
    demand: FloatArray
    """Equally likely values of the remaining consumption until the reset, ascending, shape (DRAWS, n)."""
    points: FloatArray
    """The use that is passed with chance 1 - level, at `calibration.LEVELS`, (LEVELS, n): as `p_exhaust` is read,
    the tail beyond the last draw included."""
    draws: FloatArray
    """The draws as rolled, not corrected by the record, (DRAWS, n): what λ is worked out from. Corrected ones end in
    a wider tail and kept plans idle after a busy period. Of a rolling window, what is asked where it presses most, as
    if it were asked of all that is left and will be given back."""
    coverage_80: FloatArray
    coverage_90: FloatArray
    settled: FloatArray
    """Share of past forecasts that the corrected intervals held, and how many count (old ones fade)."""
    passage_s: FloatArray
    """Exhaustion time of each draw, not corrected, inf for none before the reset, (DRAWS, n): see `joint`."""


class _Reading(NamedTuple):
    """What the draws of a block of windows are read with."""

    pace: Pace | None
    ageing: Ageing | None
    opened: BoolArray


def forecast(
    series: Consumption,
    idx: IntArray,
    now_ns: int,
    resets_at_ns: IntArray,
    remaining: FloatArray,
    outside: tuple[Consumption, IntArray] | None = None,
    *,
    pace: Pace | None = None,
    ageing: Ageing | None = None,
    peaks: Peaks | None = None,
    taught: FloatArray | None = None,
    opened: BoolArray | None = None,
) -> Forecast:
    """Forecast the windows `idx` at `now_ns`; a series never seen is unknown (NaN).

    `remaining` is the quota left in units, shape (n,), or (DRAWS, n) where it is not known exactly. `outside` names
    the series of what others use of the same quota, in the same unit and bin width: it is added. `pace` is weighed
    into the chance to run dry, see `pace`. `ageing`: some of the windows roll and give units back. `peaks`: some count
    more at some hours. `taught` (fields, n) is what other series taught of new ones, see `pooling.shrunk`.
    `opened` (n,) are windows that open with a first request: their chance is read so, see `first_request`.
    """
    parts: list[Forecast] = []
    for begin in range(0, max(idx.size, 1), _CHUNK):
        cut = slice(begin, begin + _CHUNK)
        block = series.closed_at(idx[cut], now_ns)
        if taught is not None:
            block = shrunk(block, taught[:, cut])
        horizon_ms = np.maximum((resets_at_ns[cut] - now_ns) / 1e6, 0.0)
        paths = roll(block, now_ns / 1e6, horizon_ms)
        if peaks is not None:
            paths = weighed_paths(paths, peaks[cut], now_ns)
        if outside is not None:
            others, places = outside
            theirs = others.closed_at(places[cut], now_ns)
            paths = _added(paths, roll(theirs, now_ns / 1e6, horizon_ms), _seen(theirs))
        own = None if pace is None else pace.of(cut)
        back = None if ageing is None else ageing.of(cut)
        rests = np.zeros(horizon_ms.size, dtype=np.bool_) if opened is None else opened[cut]
        parts.append(_forecast(block, paths, horizon_ms, remaining[..., cut], _Reading(own, back, rests)))
    return Forecast(*(np.concatenate(field, axis=-1) for field in zip(*parts, strict=True)))


def will_exhaust(p_exhaust: FloatArray, cost_false: FloatArray, cost_miss: FloatArray) -> BoolArray:
    """Act as if the quota runs dry? Where P ≥ C_false / (C_false + C_miss), the cost-loss rule; not where unknown.

    Costs are > 0, for each window.
    """
    act: BoolArray = p_exhaust >= cost_false / (cost_false + cost_miss)
    return act


def _added(ours: Paths, theirs: Paths, seen: BoolArray) -> Paths:
    return ours._replace(units=ours.units + np.roll(np.where(seen, theirs.units, 0.0), _ANOTHER, axis=1))


def _seen(block: FloatArray) -> BoolArray:
    seen: BoolArray = (block[BIN_MS] > 0) & ((block[LEVEL_BIN] >= 0) | (block[OPEN_UNITS] > 0))
    return seen


def _forecast(
    block: FloatArray,
    paths: Paths,
    horizon_ms: FloatArray,
    remaining: FloatArray,
    reading: _Reading,
) -> Forecast:
    pace, ageing, opened = reading
    seen = _seen(block)
    record, total = block[RECORD], paths.total()
    aged = None if ageing is None else ageing.until(paths.to_s)
    passage = passage_s(paths, remaining, aged)
    passes = np.isfinite(passage)
    dry = np.all(np.broadcast_to(remaining, total.shape) <= 0, axis=0)
    short = total if aged is None else most_short(paths, aged)
    p = calibration.chance(record, np.sort(short - remaining, axis=0))
    if pace is not None:
        left = remaining if remaining.ndim == 1 else np.sort(remaining, axis=0)[DRAWS // 2]
        p = weighed(p, pace, left, (block[_ACTIVE] > 0) | (block[OPEN_UNITS] > 0))
    p = first_request.read(p, np.where(block[OPEN_UNITS] > 0, 0.0, block[_AGE]), opened)
    p = np.where(dry, 1.0, np.where(horizon_ms > 0, p, 0.0))
    mean_s, var_s2 = _moments(np.where(passes, passage, 0.0), passes)
    draws = np.sort(total, axis=0)
    demand, points = calibration.corrected(record, draws), calibration.points(record, draws)
    if ageing is not None and aged is not None:
        draws = _asked_at_worst(paths, draws, remaining, aged, ageing)
    demand_mean, demand_var = _moments(demand, np.ones(demand.shape, dtype=np.bool_))
    in_order = np.sort(passage, axis=0)
    count = np.count_nonzero(passes, axis=0)
    covered_80, covered_90, settled = calibration.coverage(record)
    return Forecast(
        p_exhaust=np.where(seen, p, np.nan),
        exhaust_mean_s=np.where(seen, mean_s, np.nan),
        exhaust_var_s2=np.where(seen, var_s2, np.nan),
        exhaust_p10_s=np.where(seen, _quantile(in_order, count, p, 0.1), np.nan),
        exhaust_p50_s=np.where(seen, _quantile(in_order, count, p, 0.5), np.nan),
        exhaust_p90_s=np.where(seen, _quantile(in_order, count, p, 0.9), np.nan),
        demand_mean=np.where(seen, demand_mean, np.nan),
        demand_var=np.where(seen, demand_var, np.nan),
        demand=np.where(seen, demand, np.nan),
        points=np.where(seen, points, np.nan),
        draws=np.where(seen, draws, np.nan),
        coverage_80=np.where(seen, covered_80, np.nan),
        coverage_90=np.where(seen, covered_90, np.nan),
        settled=np.where(seen, settled, np.nan),
        passage_s=np.where(seen, passage, np.nan),
    )


def _asked_at_worst(
    paths: Paths, draws: FloatArray, remaining: FloatArray, aged: FloatArray, ageing: Ageing
) -> FloatArray:
    """The draws with those of rolling windows as `Forecast.draws` says."""
    back = ageing.total()
    room = np.where(back > 0, remaining + back, 1.0)
    worst = np.sort(pressing(paths, remaining, aged), axis=0) * room
    return np.where(back > 0, worst, draws)


def _quantile(ascending_s: FloatArray, count: IntArray, p: FloatArray, share: float) -> FloatArray:
    """Time by which a `share` of all futures has run dry: the draws that do are given the corrected chance p."""
    place = np.floor(share / np.maximum(p, share) * count).astype(np.int64)
    place = np.minimum(place, np.maximum(count - 1, 0))
    found = ascending_s[place, np.arange(count.size)]
    return np.where((p >= share) & (count > 0), found, np.nan)


def _moments(values: FloatArray, counted: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance over the draws, added in a fixed order; NaN when nothing counts."""
    n = np.count_nonzero(counted, axis=0).astype(np.float64)
    safe = np.maximum(n, 1.0)
    total = np.zeros(n.shape)
    for k in range(DRAWS):
        total = total + values[k]
    mean = total / safe
    square = np.zeros(n.shape)
    for k in range(DRAWS):
        square = square + np.where(counted[k], (values[k] - mean) * (values[k] - mean), 0.0)
    return np.where(n > 0, mean, np.nan), np.where(n > 0, square / safe, np.nan)
