"""Will a quota window run dry before its reset, when, and how much demand is left?

Consumption never decreases inside a window, so first passage is terminal exceedance: the chain and the level are
rolled forward over the remaining bins on fixed draws, and the draws that pass the remaining quota are counted.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.consumption import BIN_MS, LEVEL_BIN, OPEN_UNITS, Consumption
from tidegate.estimator.draws import DRAWS
from tidegate.estimator.paths import roll

_CHUNK = 256
"""Windows forecast at a time: keeps the draws in cache. Does not change a result."""


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


def forecast(
    series: Consumption, idx: IntArray, now_ns: int, resets_at_ns: IntArray, remaining: FloatArray
) -> Forecast:
    """Forecast the windows `idx` at `now_ns`. `remaining` quota in units; a series never seen is unknown (NaN)."""
    parts: list[Forecast] = []
    for begin in range(0, max(idx.size, 1), _CHUNK):
        cut = slice(begin, begin + _CHUNK)
        block = series.closed_at(idx[cut], now_ns)
        parts.append(_forecast(block, now_ns, resets_at_ns[cut], remaining[cut]))
    return Forecast(*(np.concatenate(field, axis=-1) for field in zip(*parts, strict=True)))


def _forecast(block: FloatArray, now_ns: int, resets_at_ns: IntArray, remaining: FloatArray) -> Forecast:
    horizon_ms = np.maximum((resets_at_ns - now_ns) / 1e6, 0.0)
    seen = (block[BIN_MS] > 0) & ((block[LEVEL_BIN] >= 0) | (block[OPEN_UNITS] > 0))
    demand, passage_s = roll(block, now_ns / 1e6, horizon_ms, remaining)
    passes = np.isfinite(passage_s)
    count = np.count_nonzero(passes, axis=0).astype(np.float64)
    # A draw is worth 1/32; half a draw of doubt at either end keeps a probability from being exactly 0 or 1.
    p = (count + 0.25) / (DRAWS + 0.5)
    mean_s, var_s2 = _moments(np.where(passes, passage_s, 0.0), passes)
    everyone = np.ones(demand.shape, dtype=np.bool_)
    demand_mean, demand_var = _moments(demand, everyone)
    passage_s = np.sort(passage_s, axis=0)
    dry = remaining <= 0
    return Forecast(
        p_exhaust=np.where(seen, np.where(dry, 1.0, p), np.nan),
        exhaust_mean_s=np.where(seen, mean_s, np.nan),
        exhaust_var_s2=np.where(seen, var_s2, np.nan),
        exhaust_p10_s=_quantile(passage_s, seen, DRAWS // 10),
        exhaust_p50_s=_quantile(passage_s, seen, DRAWS // 2),
        exhaust_p90_s=_quantile(passage_s, seen, (9 * DRAWS) // 10),
        demand_mean=np.where(seen, demand_mean, np.nan),
        demand_var=np.where(seen, demand_var, np.nan),
        demand=np.where(seen, np.sort(demand, axis=0), np.nan),
    )


def _quantile(passage_s: FloatArray, seen: BoolArray, place: int) -> FloatArray:
    return np.where(seen & np.isfinite(passage_s[place]), passage_s[place], np.nan)


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
