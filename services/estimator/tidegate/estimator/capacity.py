"""Capacity of a window whose provider reports only a percentage, and what others use of the same account.

A bank of Kalman filters in percent, each with its own idea of strangers: that there are none, or at what pace they
use the account, how restless they are, and whether they are idle just now. A filter knows the true percentage, the
percent that one guessed capacity of our own use costs (`rate`, 100 when the guess is right), and the pace of outside
use. Between two reports

    level ← level + rate · own / guess + pace · fifths,     report = level + rounding (variance 1/12).

Time counts in fifths of the window (hours of one of five). Own use moves only the rate's column and time only the
pace's, so both are told apart when our use is uneven; when it is even, by the times at which strangers rest. Filters
are weighed by how well they foresaw the reports (multiple-model adaptive estimation), and a belief is that of their
mixture: the capacity its median, the bar what its quantiles say. A jump that a filter with strangers cannot explain is
use from outside: it is taken into the level, not into the rate. At a reset the level is exactly 0 again; rate, pace
and weights stay. Joseph form, so the covariance stays positive.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator import capacity_bank as bank
from tidegate.estimator.capacity_rows import ROWS_BEFORE, upcast
from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import HOUR_MS
from tidegate.estimator.rounds import scan

BANK = bank.GROUPS * bank.FILTERS
GUESS, AT_MS, START_MS, OWN, EVIDENCE, FIFTH_MS = range(BANK, BANK + 6)
_NEVER = -1.0

_RATE_PRIOR, _RATE_VAR = 100.0, 1_000.0**2
"""So wide that a guess which is wrong tenfold does not draw the capacity towards it."""
_LEAST_RATE = 1e-3
_FULL = 100.0
_TRUST = 0.6
"""Exponent of the weights in a belief: strangers are unlike any filter's idea of them in ways that last from report to
report, so that a window of reports tells less than as many independent ones. Chosen on every other account."""
_EQUAL = (
    *(-1.8339, -1.2816, -0.9674, -0.7279, -0.5244, -0.3407, -0.1679, 0.0),
    *(0.1679, 0.3407, 0.5244, 0.7279, 0.9674, 1.2816, 1.8339),
)
"""A normal number as equally likely values: its quantiles in the middles of 15 parts."""
_Z_90 = 1.6449


class CapacityBelief(NamedTuple):
    """Per window, in the window's unit; all but `level` is NaN while `prior` holds."""

    capacity: FloatArray
    """The median."""
    capacity_var: FloatArray
    """Such that the normal 90 % bar around the median holds the mixture's, which is wider on one side."""
    remaining: FloatArray
    remaining_var: FloatArray
    outside: FloatArray
    """Units that others used since the period began."""
    outside_var: FloatArray
    outside_per_hour: FloatArray
    level: FloatArray
    """Percent of the period that is used; also known while `prior` holds."""
    prior: BoolArray
    """True: no report has come with use of ours yet, so the capacity is the guess."""


class Capacity(Columns):
    """One column per window of a provider that reports percentages."""

    FIELDS = (
        *(f"{group}_{k}" for group in bank.NAMES for k in range(bank.FILTERS)),
        *("guess", "at_ms", "start_ms", "own", "evidence", "fifth_ms"),
    )
    PRIOR = (*bank.prior(_RATE_PRIOR, _RATE_VAR).ravel().tolist(), 1.0, _NEVER, _NEVER, 0.0, 0.0, HOUR_MS)

    def load(self, i: int, numbers: list[float]) -> None:
        """Restore what `row` gave, also what earlier versions did. Raises ValueError when it fits none."""
        super().load(i, upcast(numbers) if len(numbers) in ROWS_BEFORE else numbers)

    def open_window(self, idx: IntArray, window_ns: IntArray) -> None:
        """Give windows their length."""
        self.data[FIFTH_MS, idx] = np.maximum(milliseconds(window_ns) / 5.0, 1.0)

    def guess(self, idx: IntArray, units: FloatArray) -> None:
        """A capacity to begin with, units > 0: only its order of magnitude matters. It stays once evidence came."""
        fresh = self.data[EVIDENCE, idx] == 0
        self.data[GUESS, idx[fresh]] = np.maximum(units[fresh], 1e-9)

    def observe(
        self, idx: IntArray, ts_ns: IntArray, start_ns: IntArray, own: FloatArray, percent: FloatArray
    ) -> int:
        """A report: `percent` (0 … 100 and above) of the period that began at `start_ns`, of which we used `own`
        units so far. Windows may repeat and keep their order.

        Returns how many reports were left out: not finite, negative, or older than the last.
        """
        sound = np.isfinite(own) & np.isfinite(percent) & (own >= 0) & (percent >= 0)
        late = 0

        def step(
            block: FloatArray, at_ms: FloatArray, start_ms: FloatArray, ours: FloatArray, told: FloatArray
        ) -> None:
            nonlocal late
            old = (at_ms < block[AT_MS]) | (start_ms < block[START_MS])
            late += int(np.count_nonzero(old))
            part = block[:, ~old]
            _report(part, at_ms[~old], start_ms[~old], ours[~old], told[~old])
            block[:, ~old] = part

        at = milliseconds(ts_ns[sound]), milliseconds(start_ns[sound])
        scan(self, idx[sound], (*at, own[sound], percent[sound]), step)
        return late + int(np.count_nonzero(~sound))

    def belief(self, idx: IntArray, now_ns: int, start_ns: IntArray, own: FloatArray) -> CapacityBelief:
        """What is believed at `now_ns` of the period that began at `start_ns`, of which we used `own` units.

        Variances of rest and outside use to first order in the errors of level and rate.
        """
        block = self.take(idx)
        used, fifths = _let_pass(
            block, np.full(idx.size, float(now_ns // 1_000_000)), milliseconds(start_ns), own
        )
        filters = bank.passed(_filters(block), used, fifths)
        seen = block[EVIDENCE] > 0
        mixed = _mixture(filters)
        level, rate = mixed.level, mixed.rate
        unit = block[GUESS] / rate
        left = np.maximum(100.0 - level, 0.0)
        outside = np.maximum(level - rate * own / block[GUESS], 0.0)
        numbers = (
            100.0 * unit,
            (100.0 * block[GUESS] * mixed.sd_inverse) ** 2,
            left * unit,
            unit**2 * _spread(mixed, left / rate),
            outside * unit,
            unit**2 * _spread(mixed, -level / rate),
            np.maximum(mixed.pace, 0.0) * unit * HOUR_MS / block[FIFTH_MS],
        )
        return CapacityBelief._make((*(np.where(seen, number, np.nan) for number in numbers), level, ~seen))


class _Mixture(NamedTuple):
    """Over all filters, per window."""

    level: FloatArray
    rate: FloatArray
    """The median; others are means."""
    pace: FloatArray
    var_level: FloatArray
    cov_level_rate: FloatArray
    var_rate: FloatArray
    sd_inverse: FloatArray
    """Standard deviation of 1 / rate, as of `capacity_var`."""


def _mixture(filters: FloatArray) -> _Mixture:
    share = _shares(_TRUST * filters[bank.LOG_WEIGHT])
    low, middle, high = _quantiles(share, filters, (0.05, 0.5, 0.95))
    level = _mean(share, filters[bank.LEVEL])
    pace = _mean(share, np.where(bank.ACTIVE > 0, np.maximum(filters[bank.PACE], 0.0), 0.0))
    off_level, off_rate = filters[bank.LEVEL] - level, filters[bank.RATE] - middle
    return _Mixture(
        level,
        middle,
        pace,
        _mean(share, filters[bank.C00] + off_level * off_level),
        _mean(share, filters[bank.C01] + off_level * off_rate),
        _mean(share, filters[bank.C11] + off_rate * off_rate),
        np.maximum(1.0 / low - 1.0 / middle, 1.0 / middle - 1.0 / high) / _Z_90,
    )


def _quantiles(share: FloatArray, filters: FloatArray, levels: tuple[float, ...]) -> list[FloatArray]:
    """Quantiles of the rate in the mixture, at least `_LEAST_RATE`."""
    count, n = len(_EQUAL), filters.shape[2]
    z: FloatArray = np.array(_EQUAL)[None, :, None]
    rates = filters[bank.RATE][:, None] + np.sqrt(np.maximum(filters[bank.C11], 0.0))[:, None] * z
    rates, parts = rates.reshape(-1, n), np.repeat(share / count, count, axis=0)
    order = np.argsort(rates, axis=0, kind="stable")
    rates, parts = np.take_along_axis(rates, order, axis=0), np.take_along_axis(parts, order, axis=0)
    middles, everyone = np.cumsum(parts, axis=0) - 0.5 * parts, np.arange(n)
    found = list[FloatArray]()
    for level in levels:
        above = np.clip(np.count_nonzero(middles < level, axis=0), 1, len(rates) - 1)
        low, high = middles[above - 1, everyone], middles[above, everyone]
        way = np.clip((level - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
        between = rates[above - 1, everyone] * (1.0 - way) + rates[above, everyone] * way
        found.append(np.maximum(between, _LEAST_RATE))
    return found


def _shares(log_weight: FloatArray) -> FloatArray:
    raw = np.exp(log_weight - log_weight.max(axis=0))
    share: FloatArray = raw / _mean(np.ones(raw.shape), raw)
    return share


def _mean(share: FloatArray, values: FloatArray) -> FloatArray:
    """Sum over filters of share · value, added in their order."""
    total: FloatArray = np.cumsum(share * values, axis=0)[-1]
    return total


def _spread(mixed: _Mixture, by_rate: FloatArray) -> FloatArray:
    """Variance of level + by_rate · rate, percent²."""
    cross = 2.0 * by_rate * mixed.cov_level_rate
    found: FloatArray = np.maximum(mixed.var_level + cross + by_rate * by_rate * mixed.var_rate, 0.0)
    return found


def _report(
    block: FloatArray, at_ms: FloatArray, start_ms: FloatArray, own: FloatArray, percent: FloatArray
) -> None:
    moved = own > np.where(start_ms == block[START_MS], block[OWN], 0.0)
    used, fifths = _let_pass(block, at_ms, start_ms, own)
    filters = _filters(block)
    after = bank.passed(filters, used, fifths)
    # All used is all used: what was passed beyond says nothing.
    open_ = (percent < _FULL) | (percent > _mean(_shares(after[bank.LOG_WEIGHT]), after[bank.LEVEL]))
    after[:, :, open_] = bank.reported(filters[:, :, open_], used[open_], fifths[open_], percent[open_])
    block[:BANK] = after.reshape(BANK, -1)
    block[EVIDENCE] += moved


def _filters(block: FloatArray) -> FloatArray:
    return block[:BANK].reshape(bank.GROUPS, bank.FILTERS, -1)


def _let_pass(
    block: FloatArray, at_ms: FloatArray, start_ms: FloatArray, own: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Begin anew what began since, at exactly nothing, and return what was used and the fifths that passed since."""
    reset = start_ms > block[START_MS]
    since_ms = np.where(reset, start_ms, block[AT_MS])
    block[:BANK] = bank.begun_anew(_filters(block), reset).reshape(BANK, -1)
    block[OWN] = np.where(reset, 0.0, block[OWN])
    fifths = np.maximum(at_ms - since_ms, 0.0) / block[FIFTH_MS]
    used = np.maximum(own - block[OWN], 0.0) / block[GUESS]
    block[AT_MS] = np.maximum(at_ms, block[AT_MS])
    block[START_MS] = np.maximum(start_ms, block[START_MS])
    block[OWN] = np.maximum(own, block[OWN])
    return used, fifths
