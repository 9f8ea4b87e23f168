"""Capacity of a window whose provider reports only a percentage, and what others use of the same account.

A three-state Kalman filter in percent: the true percentage, the percent that one guessed capacity of our own use
costs (`rate`, 100 when the guess is right), and the pace of outside use. Between two reports

    level ← level + rate · own / guess + pace · fifths,     report = level + rounding (variance 1/12).

Time counts in fifths of the window (hours of one of five). Own use moves only the rate's column and time only the
pace's, so both are told apart when our use is uneven. A jump that neither explains is use from outside: it is taken
into the level, not into the rate. At a reset the level is exactly 0 again; rate and pace stay. Joseph form, so the
covariance stays positive.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import HOUR_MS
from tidegate.estimator.rounds import scan

LEVEL, RATE, PACE = 0, 1, 2
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
_COV = {pair: 3 + k for k, pair in enumerate(_PAIRS)} | {(b, a): 3 + k for k, (a, b) in enumerate(_PAIRS)}
GUESS, AT_MS, START_MS, OWN, EVIDENCE, UNREST, FIFTH_MS = range(9, 16)
_NEVER = -1.0

_RATE_PRIOR, _RATE_VAR = 100.0, 300.0**2
_PACE_VAR = 5.0**2
_PACE_NOISE_PER_FIFTH = 1.0
_LEVEL_NOISE_PER_FIFTH = 0.05
_RATE_NOISE_PER_FIFTH = 1e-3
_ROUNDING_VAR = 1.0 / 12.0
_JUMP = 9.0
"""Squared surprise from which a rise is a jump of outside use."""
_LEAST_RATE = 1e-3
_UNREST_GAIN = 0.05
"""What strangers do unevenly is learned as variance of the level per report, percent²."""
_MAX_VAR = 1e8
_FULL = 100.0


class CapacityBelief(NamedTuple):
    """Per window, in the window's unit; all but `level` is NaN while `prior` holds."""

    capacity: FloatArray
    capacity_var: FloatArray
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
        *("level", "rate", "pace"),
        *(f"cov_{a}{b}" for a, b in _PAIRS),
        *("guess", "at_ms", "start_ms", "own", "evidence", "unrest", "fifth_ms"),
    )
    PRIOR = (
        *(0.0, _RATE_PRIOR, 0.0),
        *(0.0, 0.0, 0.0, _RATE_VAR, 0.0, _PACE_VAR),
        *(1.0, _NEVER, _NEVER, 0.0, 0.0, 0.0, HOUR_MS),
    )

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

        Variances to first order in the errors of level and rate.
        """
        block = self.take(idx)
        _advance(block, np.full(idx.size, float(now_ns // 1_000_000)), milliseconds(start_ns), own)
        seen = block[EVIDENCE] > 0
        level, rate = block[LEVEL], np.maximum(block[RATE], _LEAST_RATE)
        unit = block[GUESS] / rate
        left = np.maximum(100.0 - level, 0.0)
        outside = np.maximum(level - rate * own / block[GUESS], 0.0)
        numbers = (
            100.0 * unit,
            (100.0 * unit / rate) ** 2 * block[_COV[1, 1]],
            left * unit,
            unit**2 * _spread(block, left / rate),
            outside * unit,
            unit**2 * _spread(block, -level / rate),
            np.maximum(block[PACE], 0.0) * unit * HOUR_MS / block[FIFTH_MS],
        )
        return CapacityBelief._make((*(np.where(seen, number, np.nan) for number in numbers), level, ~seen))


def _spread(block: FloatArray, by_rate: FloatArray) -> FloatArray:
    """Variance of level + by_rate · rate, percent²."""
    cross = 2.0 * by_rate * block[_COV[0, 1]]
    found: FloatArray = np.maximum(block[_COV[0, 0]] + cross + by_rate * by_rate * block[_COV[1, 1]], 0.0)
    return found


def _report(
    block: FloatArray, at_ms: FloatArray, start_ms: FloatArray, own: FloatArray, percent: FloatArray
) -> None:
    moved = own > np.where(start_ms == block[START_MS], block[OWN], 0.0)
    _advance(block, at_ms, start_ms, own)
    error = percent - block[LEVEL]
    block[_COV[0, 0]] += block[UNREST]
    expected = block[_COV[0, 0]] + _ROUNDING_VAR
    # What surprises upwards is outside use: doubt about the level grows until it is no surprise any more.
    # A surprise downwards is a period begun anew, or a report of the old one mistaken for the new one's.
    jump = error * error > _JUMP * expected
    block[_COV[0, 0]] += np.where(jump, error * error, 0.0)
    surplus = np.maximum(np.minimum(error * error, _JUMP * expected) - expected, -block[UNREST])
    block[UNREST] += _UNREST_GAIN * surplus
    # All used is all used: what was passed beyond says nothing.
    open_ = (percent < _FULL) | (error > 0)
    part = block[:, open_]
    _correct(part, error[open_])
    block[:, open_] = part
    block[RATE] = np.maximum(block[RATE], _LEAST_RATE)
    block[EVIDENCE] += moved


def _advance(block: FloatArray, at_ms: FloatArray, start_ms: FloatArray, own: FloatArray) -> None:
    """Let use and time pass; a period that began since starts at exactly nothing."""
    reset = start_ms > block[START_MS]
    since_ms = np.where(reset, start_ms, block[AT_MS])
    for a, b in ((0, 0), (0, 1), (0, 2)):
        block[_COV[a, b]] = np.where(reset, 0.0, block[_COV[a, b]])
    block[LEVEL] = np.where(reset, 0.0, block[LEVEL])
    block[OWN] = np.where(reset, 0.0, block[OWN])
    fifths = np.maximum(at_ms - since_ms, 0.0) / block[FIFTH_MS]
    used = np.maximum(own - block[OWN], 0.0) / block[GUESS]
    block[LEVEL] += block[RATE] * used + np.maximum(block[PACE], 0.0) * fifths
    _transport(block, used, fifths)
    for a, b, noise in (
        (0, 0, _LEVEL_NOISE_PER_FIFTH),
        (1, 1, _RATE_NOISE_PER_FIFTH),
        (2, 2, _PACE_NOISE_PER_FIFTH),
    ):
        block[_COV[a, b]] = np.minimum(block[_COV[a, b]] + noise * fifths, _MAX_VAR)
    block[AT_MS] = np.maximum(at_ms, block[AT_MS])
    block[START_MS] = np.maximum(start_ms, block[START_MS])
    block[OWN] = np.maximum(own, block[OWN])


def _transport(block: FloatArray, used: FloatArray, fifths: FloatArray) -> None:
    """P ← F P F' with F = [[1, used, fifths], [0, 1, 0], [0, 0, 1]]."""
    p = {pair: block[_COV[pair]].copy() for pair in _PAIRS}
    to_rate = p[0, 1] + used * p[1, 1] + fifths * p[1, 2]
    to_pace = p[0, 2] + used * p[1, 2] + fifths * p[2, 2]
    block[_COV[0, 0]] = p[0, 0] + used * (p[0, 1] + to_rate) + fifths * (p[0, 2] + to_pace)
    block[_COV[0, 1]], block[_COV[0, 2]] = to_rate, to_pace


def _correct(block: FloatArray, error: FloatArray) -> None:
    """P ← (I-Kh) P (I-Kh)' + K R K' with h = [1, 0, 0]."""
    p = {pair: block[_COV[pair]].copy() for pair in _COV}
    gain = [p[0, k] / (p[0, 0] + _ROUNDING_VAR) for k in range(3)]
    for k in range(3):
        block[k] += gain[k] * error
    for a, b in _PAIRS:
        block[_COV[a, b]] = (
            p[a, b] - gain[a] * p[0, b] - gain[b] * p[a, 0] + gain[a] * gain[b] * (p[0, 0] + _ROUNDING_VAR)
        )
