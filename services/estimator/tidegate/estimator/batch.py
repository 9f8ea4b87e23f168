"""Signals of a batch as columns, in the order of each subject: what the models observe in one call. Pure."""

from collections.abc import Sequence

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.rate_filter import RateFilter, prompt_feature
from tidegate.estimator.rounds import rounds
from tidegate.estimator.state import State, indexes

HALF_LIFE_WINDOWS = 6
"""Values of demand are remembered over six windows."""


class Batch:
    """Observations waiting for the models. `apply` hands them over and empties the batch."""

    __slots__ = ("demands", "health", "lengths", "prices", "sketches", "speeds", "ttfts", "uses")

    def __init__(self) -> None:
        self.health: list[tuple[int, int, bool, bool]] = []
        """target, ts, error, quota"""
        self.ttfts: list[tuple[int, int, int, int]] = []
        """target, ts, ttft ns, input tokens"""
        self.speeds: list[tuple[int, int, int, int]] = []
        """target, ts, output tokens, ns"""
        self.lengths: list[tuple[int, int, int]] = []
        """target, ts, output tokens"""
        self.prices: list[tuple[int, int, int, int]] = []
        """price series, ts, nano-dollars, tokens"""
        self.uses: list[tuple[int, int, int, int, int]] = []
        """window, ts, period start, units, overlap"""
        self.demands: list[tuple[int, int, int]] = []
        """window, ts, units"""
        self.sketches: list[tuple[int, int, int, int, int, int]] = []
        """window, ts, alternative, units, units of the next longer window, half-life ms"""

    def apply(self, state: State) -> None:
        """Let every model observe what was collected."""
        _observe_health(state, self.health)
        _observe_rates(state, self)
        self.apply_prices(state)
        _observe_uses(state, self.uses)
        if self.demands:
            state.demand.observe(*_columns(self.demands))
        _observe_values(state, self.sketches)
        for waiting in (
            self.health,
            self.ttfts,
            self.speeds,
            self.lengths,
            self.uses,
            self.demands,
            self.sketches,
        ):
            waiting.clear()

    def apply_prices(self, state: State) -> None:
        """Let the price filter observe what was collected: a price event must come after it."""
        if self.prices:
            columns = _columns(self.prices)
            for part in rounds(columns[0]):
                state.prices.observe(*(column[part] for column in columns))
            self.prices.clear()


def _columns(rows: Sequence[tuple[int, ...]]) -> list[IntArray]:
    return [indexes(column) for column in zip(*rows, strict=True)]


def _observe_health(state: State, rows: list[tuple[int, int, bool, bool]]) -> None:
    if not rows:
        return
    idx, ts, error, quota = zip(*rows, strict=True)
    who, at = indexes(idx), indexes(ts)
    failed, throttled = np.array(error, dtype=np.bool_), np.array(quota, dtype=np.bool_)
    for part in rounds(who):
        state.health.observe(who[part], at[part], failed[part], throttled[part])


def _observe_rates(state: State, batch: Batch) -> None:
    if batch.ttfts:
        who, at, took_ns, prompt = _columns(batch.ttfts)
        _observe_rate(state.ttft, who, at, took_ns / 1e6, prompt_feature(prompt))
    if batch.speeds:
        who, at, tokens, took_ns = _columns(batch.speeds)
        _observe_rate(state.speed, who, at, tokens * 1e9 / took_ns, np.zeros(who.size))
    if batch.lengths:
        who, at, tokens = _columns(batch.lengths)
        _observe_rate(state.length, who, at, tokens.astype(np.float64), np.zeros(who.size))


def _observe_rate(
    model: RateFilter, who: IntArray, at: IntArray, value: FloatArray, feature: FloatArray
) -> None:
    exact = np.zeros(who.size, dtype=np.bool_)
    for part in rounds(who):
        model.observe(who[part], at[part], value[part], feature[part], exact[part])


def _observe_uses(state: State, rows: list[tuple[int, int, int, int, int]]) -> None:
    if not rows:
        return
    who, at, start, units, overlap = _columns(rows)
    state.use.observe(who, at, units)
    who, start, units, overlap = _same_periods(who, start, units, overlap)
    for part in rounds(who):
        state.ledger.use(who[part], start[part], units[part], overlap[part])


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


def _observe_values(state: State, rows: list[tuple[int, int, int, int, int, int]]) -> None:
    if not rows:
        return
    who, at, *numbers = _columns(rows)
    alternative, units, longer, half_life = (column.astype(np.float64) for column in numbers)
    for part in rounds(who):
        state.sketch.observe(
            who[part], at[part], alternative[part], units[part], longer[part], half_life[part]
        )
