"""Rolls the consumption model forward to a reset on the fixed draws. Arrays are (DRAWS, windows)."""

import numpy as np

from tidegate.estimator import activity, level
from tidegate.estimator.columns import BoolArray, FloatArray
from tidegate.estimator.consumption import BIN_MS, CHAIN, LEVEL, LEVEL_BIN, OPEN_UNITS
from tidegate.estimator.day_profile import knot_at
from tidegate.estimator.draws import (
    ACTIVE_UNIFORMS,
    DRAWS,
    DRIFT_NORMALS,
    MAX_STEPS,
    NOISE_NORMALS,
    SERIES_NORMALS,
)

_MAX_LOG = 60.0
_NOISE_SHARE = 0.75
"""Standard deviation of a bin's own noise in forecasts, in learned ones: the learned scale also holds bursts and
level errors that the draws already carry. Measured: with 1, mid-range probabilities came out 0.1 too high."""
_PHI = float(np.exp(-1.0 / level.REVERSION_BINS))
_DRIFT_SD = float(np.sqrt(level.FAST_VAR * (1.0 - _PHI * _PHI)))


def roll(
    block: FloatArray, now_ms: float, horizon_ms: FloatArray, remaining: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Consumption in (now, now + horizon] and seconds until it passes `remaining` (inf when it does not).

    `block` holds Consumption columns closed at `now_ms`. A horizon over 32 bins is cut there.
    """
    width = np.maximum(block[BIN_MS], 1.0)
    first_bin = np.floor(now_ms / width)
    end_ms = np.minimum(now_ms + horizon_ms, (first_bin + MAX_STEPS) * width)
    state = _level_at(block, first_bin, width)
    factor = activity.time_of_day_factor(block[CHAIN])
    mind = _Mind(block, state)
    total = np.zeros((DRAWS, width.size))
    passage_s = np.where(remaining <= 0, 0.0, np.full(total.shape, np.inf))
    everyone = np.arange(width.size)
    steps = int(np.max(np.ceil(end_ms / width) - first_bin, initial=0.0))
    for j in range(min(steps, MAX_STEPS)):
        from_ms = np.maximum((first_bin + j) * width, now_ms)
        to_ms = np.maximum(np.minimum((first_bin + j + 1.0) * width, end_ms), from_ms)
        share = (to_ms - from_ms) / width
        centre_ms = (first_bin + j + 0.5) * width
        active = mind.next_activity(j, factor[knot_at(centre_ms), everyone], share)
        shape, shape_var = level.shape_at(state, centre_ms)
        amount = np.where(active, mind.next_amount(j, shape, shape_var) * share, 0.0)
        after = total + amount
        passes = np.isinf(passage_s) & (after >= remaining)
        inside = (remaining - total) / np.where(amount > 0, amount, 1.0)
        when_s = (from_ms - now_ms + (to_ms - from_ms) * inside) / 1e3
        passage_s = np.where(passes, when_s, passage_s)
        total = after
    return total, passage_s


class _Mind:
    """What each draw believes of one window: its state, and its own guess of the unknown parameters."""

    def __init__(self, block: FloatArray, state: FloatArray) -> None:
        z_slow, z_fast, z_shape, z_start, z_stop = SERIES_NORMALS[:, :, None]
        self._sd = np.sqrt(state[level.SCALE])
        root00 = np.sqrt(state[level.P00])
        root10 = state[level.P01] / root00
        root11 = np.sqrt(np.maximum(state[level.P11] - root10 * root10, 0.0))
        self._slow = state[level.SLOW] + self._sd * root00 * z_slow
        self._fast = state[level.FAST] + self._sd * (root10 * z_slow + root11 * z_fast)
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
            self._fast = _PHI * self._fast + _DRIFT_SD * self._sd * DRIFT_NORMALS[j][:, None]
        noise: FloatArray = _NOISE_SHARE * NOISE_NORMALS[j][:, None] + np.sqrt(shape_var) * self._z_shape
        log_units: FloatArray = self._slow + self._fast + shape + self._sd * noise
        return np.exp(np.minimum(log_units, _MAX_LOG))


def _level_at(block: FloatArray, first_bin: FloatArray, width: FloatArray) -> FloatArray:
    """The level predicted to the first bin; before any closed bin, the open one is all there is to go by."""
    state = block[LEVEL].copy()
    bins = np.where(block[LEVEL_BIN] < 0, 0.0, np.maximum(first_bin - block[LEVEL_BIN], 0.0))
    level.predict(state, bins, bins * width)
    guess = np.log(np.maximum(block[OPEN_UNITS], 1.0))
    state[level.SLOW] = np.where(state[level.UPDATES] == 0, guess, state[level.SLOW])
    return state


def _beta_draw(hits: FloatArray, misses: FloatArray, z: FloatArray) -> FloatArray:
    """A draw of a Beta(hits, misses) probability: its normal approximation, kept inside (0, 1)."""
    count = hits + misses
    mean = hits / count
    sd = np.sqrt(mean * (1.0 - mean) / (count + 1.0))
    return np.clip(mean + sd * z, 0.05 * mean, 1.0 - 0.05 * (1.0 - mean))
