"""Rolls the consumption model forward on the fixed draws: what is used in each bin to come. Arrays (DRAWS, windows).

Draw k of one series and draw k of another belong to the same thought of the future: limits on one series are
judged on the same paths, whatever their ends.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator import activity, bank
from tidegate.estimator.columns import BoolArray, FloatArray
from tidegate.estimator.day_profile import knot_at
from tidegate.estimator.draws import (
    ACTIVE_UNIFORMS,
    DRAWS,
    DRIFT_NORMALS,
    MAX_STEPS,
    MEMBER_UNIFORMS,
    NOISE_NORMALS,
    SERIES_NORMALS,
)
from tidegate.estimator.series_fields import BIN_MS, CHAIN, LEVEL, LEVEL_BIN, OPEN_UNITS

_MAX_LOG = 60.0
_NOISE_SHARE = 0.75
"""Standard deviation of a bin's own noise in forecasts, in learned ones: the learned scale also holds bursts and
level errors that the draws already carry. Measured: with 1, mid-range probabilities came out 0.1 too high."""
_PHI: FloatArray = np.exp(-1.0 / bank.REVERSION_BINS)[:, 0]
_DRIFT_SD: FloatArray = np.sqrt(bank.FAST_VAR[:, 0] * (1.0 - _PHI * _PHI))


class Paths(NamedTuple):
    """Use per step of each draw. Steps are the bins from now on; the first and the last may be parts of a bin."""

    units: FloatArray
    """(steps, DRAWS, n)"""
    from_s: FloatArray
    to_s: FloatArray
    """Begin and end of each step in seconds from now, (steps, n)."""

    def total(self) -> FloatArray:
        """What each draw uses in all, (DRAWS, n), added in step order."""
        found = np.zeros(self.units.shape[1:])
        for units in self.units:
            found = found + units
        return found


def roll(block: FloatArray, now_ms: float | FloatArray, horizon_ms: FloatArray) -> Paths:
    """Consumption in (now, now + horizon] of columns closed at `now_ms`. A horizon over 32 bins is cut there."""
    width = np.maximum(block[BIN_MS], 1.0)
    first_bin = np.floor(now_ms / width)
    end_ms = np.minimum(now_ms + horizon_ms, (first_bin + MAX_STEPS) * width)
    state = _level_at(block, first_bin, width)
    factor = activity.time_of_day_factor(block[CHAIN])
    mind = _Mind(block, state)
    everyone = np.arange(width.size)
    steps = min(int(np.max(np.ceil(end_ms / width) - first_bin, initial=0.0)), MAX_STEPS)
    units = np.zeros((steps, DRAWS, width.size))
    from_s, to_s = np.zeros((steps, width.size)), np.zeros((steps, width.size))
    for j in range(steps):
        from_ms = np.maximum((first_bin + j) * width, now_ms)
        to_ms = np.maximum(np.minimum((first_bin + j + 1.0) * width, end_ms), from_ms)
        share = (to_ms - from_ms) / width
        centre_ms = (first_bin + j + 0.5) * width
        active = mind.next_activity(j, factor[knot_at(centre_ms), everyone], share)
        shape, shape_var = bank.shape_at(state, centre_ms)
        units[j] = np.where(active, mind.next_amount(j, shape, shape_var) * share, 0.0)
        from_s[j], to_s[j] = (from_ms - now_ms) / 1e3, (to_ms - now_ms) / 1e3
    return Paths(units, from_s, to_s)


def passage_s(paths: Paths, remaining: FloatArray, aged: FloatArray | None = None) -> FloatArray:
    """Seconds until each draw has used `remaining` (n,) or (DRAWS, n); inf when it does not within the paths.

    `aged` (steps, n) is what a rolling window has given back by the end of each step, evenly within it.
    """
    total = np.zeros(paths.units.shape[1:])
    when = np.where(remaining <= 0, 0.0, np.full(total.shape, np.inf))
    room = remaining
    for step, (units, from_s, to_s) in enumerate(zip(*paths, strict=True)):
        after, wider, net = total + units, room, units
        if aged is not None:
            wider = remaining + aged[step]
            net = units - (wider - room)
        passes = np.isinf(when) & (after >= wider) & (net > 0)
        inside = (room - total) / np.where(net > 0, net, 1.0)
        when = np.where(passes, from_s + (to_s - from_s) * inside, when)
        total, room = after, wider
    return when


def most_short(paths: Paths, aged: FloatArray) -> FloatArray:
    """The largest use of each draw beyond what a rolling window has given back by then, (DRAWS, n): where that
    passes what is left, it runs dry. `aged` as in `passage_s`."""
    total = np.zeros(paths.units.shape[1:])
    most = total
    for units, back in zip(paths.units, aged, strict=True):
        total = total + units
        most = np.maximum(most, total - back)
    return most


def pressing(paths: Paths, remaining: FloatArray, aged: FloatArray) -> FloatArray:
    """What each draw asks for, (DRAWS, n), as a multiple of what there is by then: where it presses most."""
    total = np.zeros(paths.units.shape[1:])
    most = total
    for units, back in zip(paths.units, aged, strict=True):
        total = total + units
        room = remaining + back
        ratio = np.where(room > 0, total / np.where(room > 0, room, 1.0), np.where(total > 0, np.inf, 0.0))
        most = np.maximum(most, ratio)
    return most


class _Mind:
    """What each draw believes of one window: its state, and its own guess of the unknown parameters."""

    def __init__(self, block: FloatArray, state: FloatArray) -> None:
        z_slow, z_fast, z_shape, z_start, z_stop = SERIES_NORMALS[:, :, None]
        self._begin_level(state, z_slow, z_fast)
        self._z_shape = z_shape
        chain = block[CHAIN]
        self._starts = [
            _beta_draw(chain[activity.START + k], chain[activity.STAY_IDLE + k], z_start)
            for k in range(len(activity.AGE_FROM))
        ]
        self._go_on = 1.0 - _beta_draw(chain[activity.STOP], chain[activity.GO_ON], z_stop)
        self._open = block[OPEN_UNITS] > 0
        self._active = np.broadcast_to(chain[activity.ACTIVE] > 0, self._slow.shape)
        self._age = np.broadcast_to(chain[activity.AGE], self._slow.shape)

    def _begin_level(self, state: FloatArray, z_slow: FloatArray, z_fast: FloatArray) -> None:
        """Each draw takes a member of the bank by its weight, and a level from that member's belief."""
        share = bank.weights(state)
        bound, member = share[0], np.zeros((DRAWS, share.shape[1]), dtype=np.int64)
        for k in range(1, bank.MEMBERS):
            member += MEMBER_UNIFORMS[:, None] >= bound
            bound = bound + share[k]
        who = np.arange(share.shape[1])
        root00 = np.sqrt(state[bank.P00])
        root10 = state[bank.P01] / root00
        root11 = np.sqrt(np.maximum(state[bank.P11] - root10 * root10, 0.0))
        self._sd = np.sqrt(state[bank.SCALE])[member, who]
        self._slow = state[bank.SLOW][member, who] + self._sd * root00[member, who] * z_slow
        away = root10[member, who] * z_slow + root11[member, who] * z_fast
        self._fast = state[bank.FAST][member, who] + self._sd * away
        self._phi, self._drift = _PHI[member], _DRIFT_SD[member] * self._sd

    def next_activity(self, j: int, factor: FloatArray, share: FloatArray) -> BoolArray:
        start = self._starts[-1]
        for k in range(len(self._starts) - 2, -1, -1):
            start = np.where(self._age < activity.AGE_FROM[k + 1], self._starts[k], start)
        p = np.where(self._active, self._go_on, start)
        p = p * factor / (1.0 - p + p * factor)
        if j == 0:  # the open bin: active already, or still idle after a part of it
            p = np.where(self._open, 1.0, p * share)
        active: BoolArray = ACTIVE_UNIFORMS[j][:, None] < p
        self._age = np.where(active, 0.0, self._age + 1.0)
        self._active = active
        return active

    def next_amount(self, j: int, shape: FloatArray, shape_var: FloatArray) -> FloatArray:
        """Units of an active full bin."""
        if j > 0:
            self._fast = self._phi * self._fast + self._drift * DRIFT_NORMALS[j][:, None]
        noise: FloatArray = _NOISE_SHARE * NOISE_NORMALS[j][:, None] + np.sqrt(shape_var) * self._z_shape
        log_units: FloatArray = self._slow + self._fast + shape + self._sd * noise
        return np.exp(np.minimum(log_units, _MAX_LOG))


def _level_at(block: FloatArray, first_bin: FloatArray, width: FloatArray) -> FloatArray:
    """The level predicted to the first bin; before any closed bin, the open one is all there is to go by."""
    state = block[LEVEL].copy()
    bins = np.where(block[LEVEL_BIN] < 0, 0.0, np.maximum(first_bin - block[LEVEL_BIN], 0.0))
    bank.predict(state, bins, bins * width)
    guess = np.log(np.maximum(block[OPEN_UNITS], 1.0))
    state[bank.SLOW] = np.where(state[bank.UPDATES] == 0, guess, state[bank.SLOW])
    return state


def _beta_draw(hits: FloatArray, misses: FloatArray, z: FloatArray) -> FloatArray:
    """A draw of a Beta(hits, misses) probability: its normal approximation, kept inside (0, 1)."""
    count = hits + misses
    mean = hits / count
    sd = np.sqrt(mean * (1.0 - mean) / (count + 1.0))
    return np.clip(mean + sd * z, 0.05 * mean, 1.0 - 0.05 * (1.0 - mean))
