"""Capacity of a window whose provider reports only a percentage, and what others use of the same account.

A bank of Kalman filters in percent, each with its own idea of strangers: that there are none, or that their pace
drifts and jitters little or much. A member knows the true percentage, the percent that one guessed capacity of our
own use costs (`rate`, 100 when the guess is right), and the pace of outside use. Between two reports

    level ← level + rate · own / guess + pace · fifths,     report = level + rounding (variance 1/12).

Time counts in fifths of the window (hours of one of five). Own use moves only the rate's column and time only the
pace's, so both are told apart when our use is uneven; when it is even, only the member without strangers is sure.
Members are weighed by how well they foresaw the reports (multiple-model adaptive estimation), and a belief is that
of their mixture. A jump that a member with strangers cannot explain is use from outside: it is taken into the level,
not into the rate. At a reset the level is exactly 0 again; rate, pace and weights stay. Joseph form, so the
covariance stays positive.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import HOUR_MS
from tidegate.estimator.rounds import scan

MEMBERS = 4
"""The first believes that nobody else uses the account."""
_GROUPS = (
    *("level", "rate", "pace"),
    *("cov_00", "cov_01", "cov_02", "cov_11", "cov_12", "cov_22"),
    "log_weight",
)
_ROWS = tuple(slice(k * MEMBERS, (k + 1) * MEMBERS) for k in range(len(_GROUPS)))
# A group holds one row per member.
STATE = LEVEL, RATE, PACE = _ROWS[:3]
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
COV = {pair: _ROWS[3 + k] for k, pair in enumerate(_PAIRS)} | {
    (b, a): _ROWS[3 + k] for k, (a, b) in enumerate(_PAIRS)
}
LOG_WEIGHT = _ROWS[9]
GUESS, AT_MS, START_MS, OWN, EVIDENCE, FIFTH_MS = range(LOG_WEIGHT.stop, LOG_WEIGHT.stop + 6)
_NEVER = -1.0

_RATE_PRIOR, _RATE_VAR = 100.0, 1_000.0**2
"""So wide that a guess which is wrong tenfold does not draw the capacity towards it."""
_STRANGERS: FloatArray = np.array([0.0, 1.0, 1.0, 1.0])[:, None]
_PACE_VAR: FloatArray = 5.0**2 * _STRANGERS
_PACE_NOISE_PER_FIFTH: FloatArray = np.array([0.0, 1.0, 5.0, 30.0])[:, None]
_LEVEL_NOISE_PER_FIFTH: FloatArray = np.array([0.0, 0.05, 0.05, 5.0])[:, None]
"""From steady strangers to restless ones: chosen on every other account of the bench, see tests/bench/forecast."""
_RATE_NOISE_PER_FIFTH = 1e-3
_ROUNDING_VAR = 1.0 / 12.0
_JUMP = 9.0
"""Squared surprise from which a rise is a jump of outside use."""
_LEAST_RATE = 1e-3
_WEIGHT_FORGET = 0.98
_MOST_SURPRISE: FloatArray = np.array([50.0, 25.0, 25.0, 25.0])[:, None]
"""Squared surprise at which a report's say against a member ends: no single one decides for ever. Use that no
stranger can have made says more than a stranger's burst."""
_MAX_VAR = 1e10
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
        *(f"{group}_{k}" for group in _GROUPS for k in range(MEMBERS)),
        *("guess", "at_ms", "start_ms", "own", "evidence", "fifth_ms"),
    )
    PRIOR = (
        *(prior for prior in (0.0, _RATE_PRIOR, 0.0) for _ in range(MEMBERS)),
        *(prior for prior in (0.0, 0.0, 0.0, _RATE_VAR, 0.0) for _ in range(MEMBERS)),
        *_PACE_VAR[:, 0].tolist(),
        *(0.0,) * MEMBERS,
        *(1.0, _NEVER, _NEVER, 0.0, 0.0, HOUR_MS),
    )

    def load(self, i: int, numbers: list[float]) -> None:
        """Restore what `row` gave, also of the time before the bank. Raises ValueError when it fits neither."""
        super().load(i, _upcast(numbers) if len(numbers) == _ONE_FILTER_FIELDS else numbers)

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

        Mean and variance of the mixture; variances to first order in the errors of level and rate.
        """
        block = self.take(idx)
        _advance(block, np.full(idx.size, float(now_ns // 1_000_000)), milliseconds(start_ns), own)
        seen = block[EVIDENCE] > 0
        mixed = _mixture(block)
        level, rate = mixed.level, np.maximum(mixed.rate, _LEAST_RATE)
        unit = block[GUESS] / rate
        left = np.maximum(100.0 - level, 0.0)
        outside = np.maximum(level - rate * own / block[GUESS], 0.0)
        numbers = (
            100.0 * unit,
            (100.0 * unit / rate) ** 2 * mixed.var_rate,
            left * unit,
            unit**2 * _spread(mixed, left / rate),
            outside * unit,
            unit**2 * _spread(mixed, -level / rate),
            np.maximum(mixed.pace, 0.0) * unit * HOUR_MS / block[FIFTH_MS],
        )
        return CapacityBelief._make((*(np.where(seen, number, np.nan) for number in numbers), level, ~seen))


class _Mixture(NamedTuple):
    """Moments over all members, per window."""

    level: FloatArray
    rate: FloatArray
    pace: FloatArray
    var_level: FloatArray
    cov_level_rate: FloatArray
    var_rate: FloatArray


def _mixture(block: FloatArray) -> _Mixture:
    share = _shares(block[LOG_WEIGHT])
    level, rate, pace = (_mean(share, block[rows]) for rows in STATE)
    off_level, off_rate = block[LEVEL] - level, block[RATE] - rate
    return _Mixture(
        level,
        rate,
        pace,
        _mean(share, block[COV[0, 0]] + off_level * off_level),
        _mean(share, block[COV[0, 1]] + off_level * off_rate),
        _mean(share, block[COV[1, 1]] + off_rate * off_rate),
    )


def _shares(log_weight: FloatArray) -> FloatArray:
    raw = np.exp(log_weight - log_weight.max(axis=0))
    share: FloatArray = raw / _mean(np.ones(raw.shape), raw)
    return share


def _mean(share: FloatArray, values: FloatArray) -> FloatArray:
    """Sum over members of share · value, added in a fixed order."""
    total: FloatArray = share[0] * values[0]
    for k in range(1, MEMBERS):
        total = total + share[k] * values[k]
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
    _advance(block, at_ms, start_ms, own)
    # All used is all used: what was passed beyond says nothing.
    open_ = (percent < _FULL) | (percent > _mean(_shares(block[LOG_WEIGHT]), block[LEVEL]))
    part = block[:, open_]
    _take(part, percent[open_] - part[LEVEL])
    block[:, open_] = part
    block[EVIDENCE] += moved


def _take(block: FloatArray, error: FloatArray) -> None:
    """Weigh the members by how well they foresaw a report, and correct them; `error` (MEMBERS, n) in percent."""
    expected = _expected_var(block[COV[0, 0]])
    surprise = error * error / expected
    weight = _WEIGHT_FORGET * block[LOG_WEIGHT]
    weight -= 0.5 * (np.log(expected) + np.minimum(surprise, _MOST_SURPRISE))
    block[LOG_WEIGHT] = weight - weight.max(axis=0)
    # What surprises upwards is outside use: doubt about the level grows until it is no surprise any more.
    # A surprise downwards is a period begun anew, or a report of the old one mistaken for the new one's.
    jump = (surprise > _JUMP) & (_STRANGERS > 0)
    block[COV[0, 0]] += np.where(jump, error * error, 0.0)
    _correct(block, error)
    block[RATE] = np.maximum(block[RATE], _LEAST_RATE)


def _advance(block: FloatArray, at_ms: FloatArray, start_ms: FloatArray, own: FloatArray) -> None:
    """Let use and time pass; a period that began since starts at exactly nothing."""
    reset = start_ms > block[START_MS]
    since_ms = np.where(reset, start_ms, block[AT_MS])
    for a, b in ((0, 0), (0, 1), (0, 2)):
        block[COV[a, b]] = np.where(reset, 0.0, block[COV[a, b]])
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
        block[COV[a, b]] = np.minimum(block[COV[a, b]] + noise * fifths, _MAX_VAR)
    block[AT_MS] = np.maximum(at_ms, block[AT_MS])
    block[START_MS] = np.maximum(start_ms, block[START_MS])
    block[OWN] = np.maximum(own, block[OWN])


def _transport(block: FloatArray, used: FloatArray, fifths: FloatArray) -> None:
    """P ← F P F' with F = [[1, used, fifths], [0, 1, 0], [0, 0, 1]]."""
    p = {pair: block[COV[pair]].copy() for pair in _PAIRS}
    to_rate = p[0, 1] + used * p[1, 1] + fifths * p[1, 2]
    to_pace = p[0, 2] + used * p[1, 2] + fifths * p[2, 2]
    block[COV[0, 0]] = p[0, 0] + used * (p[0, 1] + to_rate) + fifths * (p[0, 2] + to_pace)
    block[COV[0, 1]], block[COV[0, 2]] = to_rate, to_pace


def _expected_var(var_level: FloatArray) -> FloatArray:
    """Variance of a report: of the level and of rounding. Numbers beyond all reason can make the first one's last
    digits negative, and the logarithm of that would stay in the state for good."""
    found: FloatArray = np.maximum(var_level, 0.0) + _ROUNDING_VAR
    return found


def _correct(block: FloatArray, error: FloatArray) -> None:
    """P ← (I-Kh) P (I-Kh)' + K R K' with h = [1, 0, 0]."""
    p = {pair: block[COV[pair]].copy() for pair in COV}
    gain = [p[0, k] / _expected_var(p[0, 0]) for k in range(3)]
    for k in range(3):
        block[STATE[k]] += gain[k] * error
    for a, b in _PAIRS:
        block[COV[a, b]] = (
            p[a, b] - gain[a] * p[0, b] - gain[b] * p[a, 0] + gain[a] * gain[b] * (p[0, 0] + _ROUNDING_VAR)
        )


_ONE_FILTER_FIELDS = 16


def _upcast(numbers: list[float]) -> list[float]:
    """A column as it was while one filter stood where now is the bank: every member begins there, equally trusted.

    The one without strangers knows no pace. What strangers did unevenly was a number of its own, which is left out.
    """
    state, cov, rest = numbers[:3], numbers[3:9], numbers[9:]
    alone = [0.0 if 2 in pair else var for pair, var in zip(_PAIRS, cov, strict=True)]
    first = [*state[:2], 0.0, *alone]
    members = zip(first, [*state, *cov], strict=True)
    return [
        *(number for one, other in members for number in (one, *(other,) * (MEMBERS - 1))),
        *(0.0,) * MEMBERS,
        *rest[:5],
        rest[6],
    ]
