"""The filters behind `capacity`: what one of them does between two reports and at a report. Pure.

The bank of a window is an array (GROUPS, FILTERS, n). Its first filter believes that nobody else uses the account. The
others come in pairs, one pair per idea of strangers: at what pace they use it, and how restless they are. Of a pair
the first filter believes that they are idle now, the second that they are not; at every report either may have become
the other, and what both say of a state is merged (interacting multiple models; Blom, Bar-Shalom 1988).
"""

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray

LEVEL, RATE, PACE, C00, C01, C02, C11, C12, C22, LOG_WEIGHT = range(10)
NAMES = ("level", "rate", "pace", "cov_00", "cov_01", "cov_02", "cov_11", "cov_12", "cov_22", "log_weight")
GROUPS = len(NAMES)
_STATE = (LEVEL, RATE, PACE)
COV = ((C00, C01, C02), (C01, C11, C12), (C02, C12, C22))

_PACES: FloatArray = np.array([0.3 * 2.5**step for step in range(6)])
"""Percent per fifth of the window: from strangers hardly seen to some who use it up."""
_PACE_SD = 0.75
"""Relative: so that neighbours among the paces meet."""
_RESTLESSNESS: FloatArray = np.array([(0.01, 0.002, 0.0, 0.01), (0.02, 0.1, 0.0, 0.5), (0.5, 1.0, 0.5, 2.0)])
"""Variance per fifth of the level and of the pace, each in percent² and in squares of the pace. Chosen with the paces
on every other account of the bench, see tests/bench/forecast."""
PAIRS = len(_PACES) * len(_RESTLESSNESS)
FILTERS = 1 + 2 * PAIRS
_ALONE, _IDLE, _BUSY = slice(0, 1), slice(1, 1 + PAIRS), slice(1 + PAIRS, FILTERS)


def _all(alone: float, idle: FloatArray, busy: FloatArray) -> FloatArray:
    column: FloatArray = np.concatenate(([alone], idle, busy))[:, None]
    return column


_NONE: FloatArray = np.zeros(PAIRS)
_ONES: FloatArray = np.ones(PAIRS)
_PACE: FloatArray = np.repeat(_PACES, len(_RESTLESSNESS))
_LEVEL_NOISE, _LEVEL_SHARE, _PACE_NOISE, _PACE_SHARE = np.tile(_RESTLESSNESS, (len(_PACES), 1)).T
ACTIVE = _all(0.0, _NONE, _ONES)
_PACE_PRIOR = _all(0.0, _PACE, _PACE)
_PACE_VAR = _all(0.0, (_PACE_SD * _PACE) ** 2, (_PACE_SD * _PACE) ** 2)
_WEIGHT_PRIOR = _all(float(np.log(2.0 * PAIRS)), _NONE, _NONE)
"""As likely alone as not."""
_NOISE = (
    _all(0.0, _NONE, _LEVEL_NOISE),
    _all(0.0, _NONE, _LEVEL_SHARE),
    _all(0.0, _PACE_NOISE, _PACE_NOISE),
    _all(0.0, _PACE_SHARE, _PACE_SHARE),
)
_RATE_NOISE_PER_FIFTH = 1e-3
_FALL_IDLE_PER_FIFTH, _WAKE_PER_FIFTH = 0.018, 0.632
_ROUNDING_VAR = 1.0 / 12.0
_JUMP = 9.0
"""Squared surprise from which a rise is a jump of outside use."""
_LEAST_RATE = 1e-3
_WEIGHT_FORGET = 0.98
_MOST_SURPRISE = _all(50.0, _ONES * 50.0, _ONES * 25.0)
"""Squared surprise at which a report's say against a filter ends: no single one decides for ever. Use that no
stranger can have made says more than a stranger's burst."""
_MAX_VAR = 1e10
_LEAST_CHANCE = 1e-12
# From whom to whom the filters go at a report: alone stays so, then idle and busy turn idle, then both turn busy.
_FROM = np.r_[0, 1 : 1 + PAIRS, 1 + PAIRS : FILTERS, 1 : 1 + PAIRS, 1 + PAIRS : FILTERS]
_TO = np.r_[0, np.tile(np.arange(1, 1 + PAIRS), 2), np.tile(np.arange(1 + PAIRS, FILTERS), 2)]


def prior(rate: float, rate_var: float) -> FloatArray:
    """A bank (GROUPS, FILTERS) that knows nothing but how far the rate may be."""
    found = np.zeros((GROUPS, FILTERS))
    found[RATE], found[C11] = rate, rate_var
    found[PACE], found[C22], found[LOG_WEIGHT] = _PACE_PRIOR[:, 0], _PACE_VAR[:, 0], _WEIGHT_PRIOR[:, 0]
    return found


def begun_anew(bank: FloatArray, reset: BoolArray) -> FloatArray:
    """The bank with levels at exactly 0 where a new period began (n,)."""
    after = bank.copy()
    for group in (LEVEL, C00, C01, C02):
        after[group] = np.where(reset, 0.0, bank[group])
    return after


def passed(bank: FloatArray, used: FloatArray, fifths: FloatArray) -> FloatArray:
    """The bank after `used` guessed capacities of our own use (n,) and so many fifths of the window, unseen."""
    return _passed(bank, np.arange(FILTERS), used, fifths)


def reported(bank: FloatArray, used: FloatArray, fifths: FloatArray, percent: FloatArray) -> FloatArray:
    """The bank after the same and a report of `percent` (n,)."""
    bank = bank.copy()
    _forget(bank)
    routes = _passed(bank[:, _FROM], _TO, used, fifths)
    _turn(routes[LOG_WEIGHT], fifths)
    _take(routes, percent)
    after = np.empty_like(bank)
    after[:, _ALONE] = routes[:, _ALONE]
    for place, which in enumerate((_IDLE, _BUSY)):
        at = 1 + 2 * PAIRS * place
        after[:, which] = merged(routes[:, at : at + PAIRS], routes[:, at + PAIRS : at + 2 * PAIRS])
    after[LOG_WEIGHT] -= after[LOG_WEIGHT].max(axis=0)
    return after


def _passed(bank: FloatArray, who: IntArray, used: FloatArray, fifths: FloatArray) -> FloatArray:
    """Rows of `bank` as the filters `who`. P ← F P F' + noise, F = [[1, used, fifths], [0, 1, 0], [0, 0, 1]]."""
    active = ACTIVE[who]
    level_noise, level_share, pace_noise, pace_share = (noise[who] for noise in _NOISE)
    pace, busy = np.maximum(bank[PACE], 0.0), active * fifths
    after = bank.copy()
    after[LEVEL] += bank[RATE] * used + pace * busy
    to_rate = bank[C01] + used * bank[C11] + busy * bank[C12]
    to_pace = bank[C02] + used * bank[C12] + busy * bank[C22]
    after[C00] += used * (bank[C01] + to_rate) + busy * (bank[C02] + to_pace)
    after[C01], after[C02] = to_rate, to_pace
    after[C00] += (level_noise + level_share * pace * pace) * fifths
    after[C11] += _RATE_NOISE_PER_FIFTH * fifths
    after[C22] += (pace_noise + pace_share * pace * pace) * fifths
    for group in (C00, C11, C22):
        after[group] = np.minimum(after[group], _MAX_VAR)
    return after


def _forget(bank: FloatArray) -> None:
    """What spoke for or against a pair long ago fades; idle or busy is not an idea of strangers but a state."""
    alone, idle, busy = (bank[LOG_WEIGHT, which] for which in (_ALONE, _IDLE, _BUSY))
    fades = (1.0 - _WEIGHT_FORGET) * np.logaddexp(idle, busy)
    bank[LOG_WEIGHT, _ALONE] = _WEIGHT_FORGET * alone
    bank[LOG_WEIGHT, _IDLE] = idle - fades
    bank[LOG_WEIGHT, _BUSY] = busy - fades


def _turn(log_weight: FloatArray, fifths: FloatArray) -> None:
    """Add the chances that strangers fell idle, woke, or stayed as they were since the last report."""
    stay_idle, stay_busy = -_WAKE_PER_FIFTH * fifths, -_FALL_IDLE_PER_FIFTH * fifths
    wake = np.log(np.maximum(-np.expm1(stay_idle), _LEAST_CHANCE))
    fall = np.log(np.maximum(-np.expm1(stay_busy), _LEAST_CHANCE))
    for place, chance in enumerate((stay_idle, fall, wake, stay_busy)):
        log_weight[1 + place * PAIRS : 1 + (place + 1) * PAIRS] += chance


def _take(routes: FloatArray, percent: FloatArray) -> None:
    """Weigh filters by how well they foresaw the report, and correct them: P ← (I-Kh) P (I-Kh)' + K R K'."""
    error = percent - routes[LEVEL]
    expected = _expected_var(routes[C00])
    surprise = error * error / expected
    routes[LOG_WEIGHT] -= 0.5 * (np.log(expected) + np.minimum(surprise, _MOST_SURPRISE[_TO]))
    # What surprises upwards is outside use: doubt about the level grows until it is no surprise any more.
    # A surprise downwards is a period begun anew, or a report of the old one mistaken for the new one's.
    jump = (surprise > _JUMP) & (ACTIVE[_TO] > 0)
    routes[C00] += np.where(jump, error * error, 0.0)
    before = [routes[group].copy() for group in (C00, C01, C02)]
    expected = _expected_var(before[0])
    gain = [each / expected for each in before]
    for k, group in enumerate(_STATE):
        routes[group] += gain[k] * error
    for a in range(3):
        for b in range(a, 3):
            told = gain[a] * gain[b] * (before[0] + _ROUNDING_VAR)
            routes[COV[a][b]] += told - gain[a] * before[b] - gain[b] * before[a]
    routes[RATE] = np.maximum(routes[RATE], _LEAST_RATE)


def _expected_var(var_level: FloatArray) -> FloatArray:
    """Variance of a report: of the level and of rounding. Numbers beyond all reason can make the first one's last
    digits negative, and the logarithm of that would stay in the state for good."""
    found: FloatArray = np.maximum(var_level, 0.0) + _ROUNDING_VAR
    return found


def merged(one: FloatArray, other: FloatArray) -> FloatArray:
    """Two filters as one with the moments of their mixture."""
    total = np.logaddexp(one[LOG_WEIGHT], other[LOG_WEIGHT])
    share = np.exp(one[LOG_WEIGHT] - total)
    merged: FloatArray = share * one + (1.0 - share) * other
    off = [one[group] - other[group] for group in _STATE]
    for a in range(3):
        for b in range(a, 3):
            merged[COV[a][b]] += share * (1.0 - share) * off[a] * off[b]
    merged[LOG_WEIGHT] = total
    return merged
