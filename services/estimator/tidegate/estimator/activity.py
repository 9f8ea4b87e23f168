"""Hurdle of the consumption model: is a bin active? A two-state Markov chain with Beta counts that forget.

The chance to resume depends on how long the series has been idle, and both chances on the time of day.
"""

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.day_profile import HOUR_MS, KNOT_MS, KNOTS, hours_in_knots, knot_at

# Offsets into the block of this model. START/STAY_IDLE: one count per idle-age class.
ACTIVE, AGE, CLOSED = 0, 1, 2
START, STAY_IDLE = 3, 7
STOP, GO_ON = 11, 12
HOURS_ACTIVE = slice(13, 13 + KNOTS)
HOURS_SEEN = slice(13 + KNOTS, 13 + 2 * KNOTS)

AGE_FROM = (1.0, 2.0, 4.0, 8.0)
"""First idle bin of each age class; the last class is open."""
_AGE_TO = (2.0, 4.0, 8.0, np.inf)

FIELDS: tuple[str, ...] = (
    "active",
    "idle_age",
    "closed_bins",
    *(f"start_{int(age)}" for age in AGE_FROM),
    *(f"stay_idle_{int(age)}" for age in AGE_FROM),
    "stop",
    "go_on",
    *(f"hours_active_{k}" for k in range(KNOTS)),
    *(f"hours_seen_{k}" for k in range(KNOTS)),
)
PRIOR_START, PRIOR_STAY_IDLE, PRIOR_STOP, PRIOR_GO_ON = 0.5, 4.0, 1.0, 3.0
PRIOR: tuple[float, ...] = (
    *(0.0, 1.0, 0.0),
    *(PRIOR_START,) * 4,
    *(PRIOR_STAY_IDLE,) * 4,
    *(PRIOR_STOP, PRIOR_GO_ON),
    *(0.0,) * (2 * KNOTS),
)

_PRIOR = np.array(PRIOR)
_FORGET = 0.99
_LOG_FORGET = float(np.log(_FORGET))
_PROFILE_HOURS = 20.0
_SHRINK_HOURS = 4.0 / 3.0
_PSEUDO_HOURS = 1.0 / 6.0


def close_bin(chain: FloatArray, active: BoolArray, from_ms: FloatArray, to_ms: FloatArray) -> None:
    """Count one closed bin [from, to). The first bin of a series has no predecessor and counts no move."""
    known = chain[CLOSED] > 0
    was = chain[ACTIVE] > 0
    age_class = np.zeros(active.size, dtype=np.int64)
    for first in AGE_FROM[1:]:
        age_class += chain[AGE] >= first
    moved = active != was
    _count(chain, np.where(was, STOP, START + age_class), known, moved)
    _count(chain, np.where(was, GO_ON, STAY_IDLE + age_class), known, ~moved)
    chain[AGE] = np.where(active, 0.0, chain[AGE] + 1.0)
    chain[ACTIVE] = active
    chain[CLOSED] += 1.0
    short = to_ms - from_ms <= KNOT_MS
    _profile_at(chain, knot_at(0.5 * (from_ms + to_ms)), np.where(short, to_ms - from_ms, 0.0), active)
    if not short.all():
        _profile(chain, active, from_ms, np.where(short, from_ms, to_ms))


def close_idle(chain: FloatArray, bins: FloatArray, from_ms: FloatArray, to_ms: FloatArray) -> None:
    """Count `bins` ≥ 1 idle bins in a row over [from, to), in closed form: exact for any gap."""
    stopped = chain[ACTIVE] > 0
    idle = np.zeros(bins.shape, dtype=np.bool_)
    for field, prior, hit in ((STOP, PRIOR_STOP, 1.0), (GO_ON, PRIOR_GO_ON, 0.0)):
        chain[field] = np.where(stopped, _FORGET * (chain[field] - prior) + prior + hit, chain[field])
    age = np.where(stopped, 1.0, chain[AGE])
    last = age + bins - stopped
    for k, first in enumerate(AGE_FROM):
        moves = np.maximum(np.minimum(last, _AGE_TO[k]) - np.maximum(age, first), 0.0)
        keep = np.exp(_LOG_FORGET * moves)
        chain[START + k] = PRIOR_START + keep * (chain[START + k] - PRIOR_START)
        fresh = (1.0 - keep) / (1.0 - _FORGET)
        chain[STAY_IDLE + k] = PRIOR_STAY_IDLE + keep * (chain[STAY_IDLE + k] - PRIOR_STAY_IDLE) + fresh
    chain[AGE] = last
    chain[ACTIVE] = 0.0
    chain[CLOSED] += bins
    _profile(chain, idle, from_ms, to_ms)


def time_of_day_factor(chain: FloatArray) -> FloatArray:
    """Factor on the odds of being active, per knot (KNOTS, n): square root of the knot's odds over the mean's."""
    active, seen = chain[HOURS_ACTIVE], chain[HOURS_SEEN]
    total_active = np.full(chain.shape[1], 0.5 * _PSEUDO_HOURS)
    total_seen = np.full(chain.shape[1], _PSEUDO_HOURS)
    for k in range(KNOTS):
        total_active = total_active + active[k]
        total_seen = total_seen + seen[k]
    mean = total_active / total_seen
    share = (active + _SHRINK_HOURS * mean) / (seen + _SHRINK_HOURS)
    factor: FloatArray = np.sqrt(share * (1.0 - mean) / ((1.0 - share) * mean))
    return factor


def _count(chain: FloatArray, field: IntArray, here: BoolArray, hit: BoolArray) -> None:
    """Forget a little of one count per series and add `hit`."""
    series = np.arange(field.size)
    prior, old = _PRIOR[field], chain[field, series]
    chain[field, series] = np.where(here, _FORGET * (old - prior) + prior + hit, old)


def _profile(chain: FloatArray, active: BoolArray, from_ms: FloatArray, to_ms: FloatArray) -> None:
    """Hours seen and hours active per knot, both forgetting with the time spent in that knot."""
    keep = np.exp(hours_in_knots(from_ms, to_ms) / -_PROFILE_HOURS)
    fresh = _PROFILE_HOURS * (1.0 - keep)
    chain[HOURS_SEEN] = chain[HOURS_SEEN] * keep + fresh
    chain[HOURS_ACTIVE] = chain[HOURS_ACTIVE] * keep + fresh * active


def _profile_at(chain: FloatArray, knot: IntArray, spent_ms: FloatArray, active: BoolArray) -> None:
    """The same for a bin within a knot, far cheaper: all of it counts where its centre lies."""
    series = np.arange(knot.size)
    keep = np.exp(spent_ms / (-_PROFILE_HOURS * HOUR_MS))
    fresh = _PROFILE_HOURS * (1.0 - keep)
    seen, busy = chain[HOURS_SEEN], chain[HOURS_ACTIVE]
    seen[knot, series] = seen[knot, series] * keep + fresh
    busy[knot, series] = busy[knot, series] * keep + fresh * active
