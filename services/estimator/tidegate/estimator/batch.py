"""Signals of a batch as columns, in the order of each subject: what the models observe in one call. Pure."""

import numpy as np

from tidegate.estimator.columns import NS_PER_MS, IntArray
from tidegate.estimator.rate_filter import prompt_feature
from tidegate.estimator.state import RATES, State

HALF_LIFE_WINDOWS = 6
"""Values of demand are remembered over six windows."""


class Batch:
    """Observations waiting for the models, as flat rows of integers. `apply` hands them over, once.

    Flat lists instead of tuples: thousands of small objects less to make and to look through for garbage.
    """

    __slots__ = ("demands", "health", "lengths", "prices", "speeds", "ttfts", "uses")

    def __init__(self) -> None:
        self.health: list[int] = []
        """target, ts, error, quota"""
        self.ttfts: list[int] = []
        """target, ts, ttft ns, input tokens"""
        self.speeds: list[int] = []
        """target, ts, output tokens, ns"""
        self.lengths: list[int] = []
        """target, ts, output tokens"""
        self.prices: list[int] = []
        """price series, ts, nano-dollars, tokens"""
        self.uses: list[int] = []
        """window, ts, period start, units, overlap"""
        self.demands: list[int] = []
        """window, ts, units, alternative (0: none), units of the next longer window, duration"""

    def apply(self, state: State) -> None:
        """Let every model observe what was collected."""
        if self.health:
            who, at, error, quota = _columns(self.health, 4)
            state.health.observe(who, at, error != 0, quota != 0)
        _observe_rates(state, self)
        self.apply_prices(state)
        if self.uses:
            who, at, start, units, overlap = _columns(self.uses, 5)
            state.use.observe(who, at, units)
            state.ledger.use(*_same_periods(who, start, units, overlap))
        if self.demands:
            _observe_demands(state, *_columns(self.demands, 6))

    def apply_prices(self, state: State) -> None:
        """Let the price filter observe what was collected: a price event must come after it."""
        if self.prices:
            state.prices.observe(*_columns(self.prices, 4))
            self.prices.clear()


def _columns(flat: list[int], width: int) -> IntArray:
    """Columns of flat rows, shape (width, rows)."""
    rows: IntArray = np.fromiter(flat, np.int64, len(flat))
    return np.ascontiguousarray(rows.reshape(-1, width).T)


def _observe_rates(state: State, batch: Batch) -> None:
    """The three rates are series of one table: one call costs less than three."""
    ttft, ttft_at, ttft_ns, prompt = _columns(batch.ttfts, 4)
    speed, speed_at, tokens, took_ns = _columns(batch.speeds, 4)
    length, length_at, output = _columns(batch.lengths, 3)
    feature = np.zeros(ttft.size + speed.size + length.size)
    feature[: ttft.size] = prompt_feature(prompt)
    places = [RATES.index(name) for name in ("ttft", "speed", "length")]
    who = [target * len(RATES) + place for target, place in zip((ttft, speed, length), places, strict=True)]
    state.rates.observe(
        np.concatenate(who),
        np.concatenate((ttft_at, speed_at, length_at)),
        np.concatenate((ttft_ns / 1e6, tokens * 1e9 / took_ns, output.astype(np.float64))),
        feature,
    )


def _same_periods(
    who: IntArray, start: IntArray, units: IntArray, overlap: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Neighbouring uses of one window in one period as one use: integer sums are exact."""
    order = np.argsort(who, kind="stable")
    who, start, units, overlap = who[order], start[order], units[order], overlap[order]
    fresh = np.ones(who.size, dtype=np.bool_)
    fresh[1:] = (who[1:] != who[:-1]) | (start[1:] != start[:-1])
    first = np.flatnonzero(fresh)
    return who[first], start[first], np.add.reduceat(units, first), overlap[first]


def _observe_demands(
    state: State,
    who: IntArray,
    at: IntArray,
    units: IntArray,
    alternative: IntArray,
    longer: IntArray,
    duration: IntArray,
) -> None:
    state.demand.observe(who, at, units)
    whole, rest = np.divmod(duration, NS_PER_MS)
    half_life_ms = HALF_LIFE_WINDOWS * whole + HALF_LIFE_WINDOWS * rest // NS_PER_MS
    numbers = (alternative, units, longer, np.maximum(half_life_ms, 1))
    state.sketch.observe(who, at, *(column.astype(np.float64) for column in numbers))
