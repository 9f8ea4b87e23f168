"""Signals of a batch as columns, in the order of each subject: what the models observe in one call. Pure."""

from struct import Struct

import numpy as np

from tidegate.estimator.columns import NS_PER_MS, IntArray
from tidegate.estimator.rate_filter import prompt_feature
from tidegate.estimator.rounds import in_order
from tidegate.estimator.state import RATES, State

two, four, six = Struct("=2q").pack, Struct("=4q").pack, Struct("=6q").pack
"""Pack a row. Raise struct.error for what is no integer of 64 bits."""
DEMAND_BYTES = 48
"""Of a row of `Batch.demands`."""
ROLLING = -1
"""Instead of an overlap: the use is of a rolling window."""
CORRECTION = -(1 << 62)
"""Instead of plain units: what is booked only corrects what was counted, and says nothing of the rate."""
HALF_LIFE_WINDOWS = 6
"""Values of demand are remembered over six windows."""


class Batch:
    """Observations waiting for the models, as rows of packed integers. `apply` hands them over, once.

    Packed rows instead of tuples: thousands of small objects less to keep, to turn into columns, and to look
    through for garbage.
    """

    __slots__ = ("demands", "outcomes", "peaked", "prices", "ttfts", "uses")

    def __init__(self) -> None:
        self.outcomes = bytearray()
        """`six`: target, ts, error, quota, output tokens (0: none known), ns they took (0: not measured)"""
        self.ttfts = bytearray()
        """`four`: target, ts, ttft ns, input tokens"""
        self.prices = bytearray()
        """`six`: price series, ts, nano-dollars billed and listed of the whole, tokens and list price of the class"""
        self.uses = bytearray()
        """`six`: window, ts, period start, units, overlap or ROLLING, plain units or CORRECTION

        Plain units are without the weight of the hour: the rate of use does not know the hours at which a provider
        counts more.
        """
        self.demands = bytearray()
        """`six`: window, ts, units, alternative (0: none), units of the next longer window, duration"""
        self.peaked = bytearray()
        """`two`: of demands in peak hours, which are few, the row and its plain units"""

    def holds_uses_of(self, windows: list[int]) -> bool:
        """True when a use of one of these windows waits."""
        return not set(windows).isdisjoint(_columns(self.uses, 6)[0].tolist())

    def apply(self, state: State) -> None:
        """Let every model observe what was collected."""
        if self.outcomes or self.ttfts:
            _observe_outcomes(state, _columns(self.outcomes, 6), _columns(self.ttfts, 4))
        if self.prices:
            state.prices.observe(*_columns(self.prices, 6))
        self.apply_uses(state)
        if self.demands:
            demands = _columns(self.demands, 6)
            plain = demands[2].copy()
            row, units = _columns(self.peaked, 2)
            plain[row] = units
            _observe_demands(state, demands, plain)

    def apply_uses(self, state: State) -> None:
        """Let the windows observe what was collected: time without quota left is skipped after it."""
        if self.uses:
            who, at, start, units, overlap, plain = _columns(self.uses, 6)
            seen = plain != CORRECTION
            state.use.observe(who[seen], at[seen], plain[seen])
            rolling = overlap == ROLLING
            if rolling.any():
                _roll(state, who[rolling], start[rolling], units[rolling])
                who, start, units, overlap = (column[~rolling] for column in (who, start, units, overlap))
            state.ledger.use(*_same_periods(who, start, units, overlap))
            self.uses.clear()


def _columns(packed: bytearray, width: int) -> IntArray:
    """Columns of packed rows, shape (width, rows). A copy: what is packed can be cleared."""
    rows: IntArray = np.frombuffer(packed, np.int64)
    return rows.reshape(-1, width).T.copy()


def _observe_outcomes(state: State, outcomes: IntArray, ttfts: IntArray) -> None:
    """Health, and the three rates: series of one table, because one call costs less than three."""
    who, at, error, quota, output, _ = outcomes
    state.health.observe(who, at, error != 0, quota != 0)
    length, length_at, _, _, lengths, _ = outcomes[:, output > 0]
    speed, speed_at, _, _, tokens, took_ns = outcomes[:, outcomes[5] > 0]
    ttft, ttft_at, ttft_ns, prompt = ttfts
    feature = np.zeros(ttft.size + speed.size + length.size)
    feature[: ttft.size] = prompt_feature(prompt)
    places = [RATES.index(name) for name in ("ttft", "speed", "length")]
    series = [
        target * len(RATES) + place for target, place in zip((ttft, speed, length), places, strict=True)
    ]
    state.rates.observe(
        np.concatenate(series),
        np.concatenate((ttft_at, speed_at, length_at)),
        np.concatenate((ttft_ns / 1e6, tokens * 1e9 / took_ns, lengths.astype(np.float64))),
        feature,
    )


def _roll(state: State, who: IntArray, start: IntArray, units: IntArray) -> None:
    rolling, windows = state.rolling, state.window
    places = [rolling.place(series, windows[series].duration_ns) for series in who.tolist()]
    rolling.use(np.array(places, dtype=np.int64), start, units)


def _same_periods(
    who: IntArray, start: IntArray, units: IntArray, overlap: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Neighbouring uses of one window in one period as one use: integer sums are exact."""
    order = in_order(who)
    who, start, units, overlap = who[order], start[order], units[order], overlap[order]
    fresh = np.ones(who.size, dtype=np.bool_)
    fresh[1:] = (who[1:] != who[:-1]) | (start[1:] != start[:-1])
    first = np.flatnonzero(fresh)
    return who[first], start[first], np.add.reduceat(units, first), overlap[first]


def _observe_demands(state: State, demands: IntArray, plain: IntArray) -> None:
    who, at, units, alternative, longer, duration = demands
    state.demand.observe(who, at, plain)
    whole, rest = np.divmod(duration, NS_PER_MS)
    half_life_ms = HALF_LIFE_WINDOWS * whole + HALF_LIFE_WINDOWS * rest // NS_PER_MS
    numbers = (alternative, units, longer, np.maximum(half_life_ms, 1))
    state.sketch.observe(who, at, *(column.astype(np.float64) for column in numbers))
