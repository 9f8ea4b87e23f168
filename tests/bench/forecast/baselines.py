"""Plain forecasters of what the rest of a window will use, and what makes them probabilities.

A point forecast becomes a probability by its own past errors: the empirical log-ratios of truth to forecast, by
place in the window and by whether the last bin was idle. Every parameter is chosen from a grid by how the forecaster
scores inside the fit windows, so that a win over one of these is not a win over a bad setting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bench.forecast.questions import PLACES, Asked, Task, asked, relative
from bench.forecast.scores import brier
from bench.forecast.traffic import Traffic
from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.series_fields import BINS_PER_WINDOW

Points = FloatArray
"""Forecast of the rest at each decision, (windows, places, series)."""
_MAX_LOG = 40.0


def uvi(traffic: Traffic, facts: Asked) -> Points:
    """What is used so far goes on at its mean pace."""
    elapsed = np.array(PLACES)[None, :, None] / BINS_PER_WINDOW
    found: Points = facts.used * (1.0 - elapsed) / elapsed
    return found


def ewma(traffic: Traffic, half_life_bins: float) -> Points:
    """Exponential mean of the units of a bin, idle ones too."""
    keep = 0.5 ** (1.0 / half_life_bins)
    level = np.zeros(traffic.units.shape[0])

    def step(units: FloatArray) -> FloatArray:
        nonlocal level
        level = keep * level + (1.0 - keep) * units
        return level

    return _walk(traffic, step, lambda level, bins: level * bins)


def holt(traffic: Traffic, alpha: float, beta: float, phi: float) -> Points:
    """Damped trend (Gardner, McKenzie) of the units of a bin."""
    state = np.zeros((2, traffic.units.shape[0]))

    def step(units: FloatArray) -> FloatArray:
        nonlocal state
        level, trend = state
        fresh = alpha * units + (1.0 - alpha) * (level + phi * trend)
        state = np.stack((fresh, beta * (fresh - level) + (1.0 - beta) * phi * trend))
        return state

    def rest(state: FloatArray, bins: int) -> FloatArray:
        steps = np.cumsum(phi ** np.arange(1, bins + 1))
        return np.maximum(state[0] + steps[:, None] * state[1], 0.0).sum(axis=0)

    return _walk(traffic, step, rest)


def kalman_linear(traffic: Traffic, ratio: float) -> Points:
    """Random walk of the units of a bin seen in noise; `ratio` of step to noise variance."""
    level, var = np.zeros(traffic.units.shape[0]), 1e6

    def step(units: FloatArray) -> FloatArray:
        nonlocal level, var
        var += ratio
        gain = var / (var + 1.0)
        level = level + gain * (units - level)
        var *= 1.0 - gain
        return level

    return _walk(traffic, step, lambda level, bins: np.maximum(level, 0.0) * bins)


def kalman_log_trend(traffic: Traffic, level_ratio: float, slope_ratio: float) -> Points:
    """Local linear trend of log(1 + units), extrapolated."""
    n = traffic.units.shape[0]
    state, cov = np.zeros((2, n)), np.eye(2) * 1e3
    move, drift = np.array([[1.0, 1.0], [0.0, 1.0]]), np.diag([level_ratio, slope_ratio])

    def step(units: FloatArray) -> FloatArray:
        nonlocal state, cov
        cov = move @ cov @ move.T + drift
        state = move @ state
        gain = cov[:, 0] / (cov[0, 0] + 1.0)
        state = state + gain[:, None] * (np.log1p(units) - state[0])
        cov = cov - np.outer(gain, cov[0])
        return state

    def rest(state: FloatArray, bins: int) -> FloatArray:
        ahead = np.arange(1, bins + 1)[:, None]
        found: FloatArray = np.expm1(np.clip(state[0] + ahead * state[1], 0.0, _MAX_LOG)).sum(axis=0)
        return found

    return _walk(traffic, step, rest)


def seasonal(traffic: Traffic, lag_bins: int) -> Points:
    """The same time one season ago; nothing before that."""
    n, windows, _ = traffic.units.shape
    flat = traffic.units.reshape(n, -1)
    so_far = np.concatenate((np.zeros((n, 1)), flat.cumsum(axis=1)), axis=1)
    found = np.zeros((windows, len(PLACES), n))
    for window in range(windows):
        for k, place in enumerate(PLACES):
            begin = max(window * BINS_PER_WINDOW + place - lag_bins, 0)
            end = max((window + 1) * BINS_PER_WINDOW - lag_bins, 0)
            found[window, k] = so_far[:, end] - so_far[:, begin]
    return found


def _walk(
    traffic: Traffic,
    step: Callable[[FloatArray], FloatArray],
    rest: Callable[[FloatArray, int], FloatArray],
) -> Points:
    n, windows, _ = traffic.units.shape
    found = np.zeros((windows, len(PLACES), n))
    for window in range(windows):
        for bin_ in range(BINS_PER_WINDOW):
            state = step(traffic.units[:, window, bin_])
            if bin_ + 1 in PLACES:
                found[window, PLACES.index(bin_ + 1)] = rest(state, BINS_PER_WINDOW - 1 - bin_)
    return found


@dataclass(frozen=True, slots=True)
class Residuals:
    """Past log-ratios of truth to forecast by class, ascending."""

    by_class: list[FloatArray]
    least: FloatArray
    """Added to truth and forecast before the ratio, per series: one percent of a mean window."""

    def chance(self, points: Points, facts: Asked, task: Task) -> FloatArray:
        """P(rest ≥ left)."""
        at = task.window, task.place, task.series
        least = self.least[task.series]
        need = np.log((task.left + least) / (points[at] + least))
        group = _classes(facts)[at]
        found = np.empty(need.size)
        for k, past in enumerate(self.by_class):
            mine = group == k
            above = past.size - np.searchsorted(past, need[mine], side="left")
            found[mine] = (above + 0.5) / (past.size + 1.0)
        return found


def _classes(facts: Asked) -> IntArray:
    return np.arange(len(PLACES))[None, :, None] * 2 + facts.idle


def residuals(points: Points, facts: Asked, windows: range) -> Residuals:
    """Of the fit `windows` that used something."""
    cut = slice(windows.start, windows.stop)
    total = (facts.used + facts.rest)[cut]
    least = 0.01 * total.mean(axis=(0, 1)) + 1.0
    ratio = np.log((facts.rest[cut] + least) / (points[cut] + least))
    group, some = _classes(facts)[cut], total > 0
    by_class = [np.sort(ratio[some & (group == k)]) for k in range(2 * len(PLACES))]
    return Residuals(by_class, least)


def candidates(traffic: Traffic, facts: Asked, season_bins: int) -> dict[str, list[Points]]:
    """Each forecaster with the settings it may choose from."""
    return {
        "uvi": [uvi(traffic, facts)],
        "ewma": [ewma(traffic, half_life) for half_life in (1.5, 3.0, 6.0, 12.0, 24.0, 48.0)],
        "holt": [
            holt(traffic, alpha, beta, phi)
            for alpha in (0.1, 0.2, 0.4)
            for beta in (0.02, 0.1)
            for phi in (0.8, 0.95)
        ],
        "seasonal naive": [seasonal(traffic, season_bins)],
        "kalman linear": [kalman_linear(traffic, ratio) for ratio in (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3)],
        "kalman log trend": [
            kalman_log_trend(traffic, level, slope)
            for level in (1e-3, 1e-2, 1e-1)
            for slope in (1e-7, 1e-5, 1e-3)
        ],
    }


def tuned(traffic: Traffic, fit: range, season_bins: int) -> Iterator[tuple[str, Points, Residuals]]:
    """Each forecaster at its best setting: errors of the first half of the fit windows, judged on the second half."""
    facts = asked(traffic)
    half = (fit.start + fit.stop) // 2
    task = relative(facts, range(half, fit.stop))
    for name, settings in candidates(traffic, facts, season_bins).items():
        losses = [
            brier(
                residuals(p, facts, range(fit.start, half)).chance(p, facts, task), task.outcome, task.weight
            )
            for p in settings
        ]
        best = settings[int(np.argmin(losses))]
        yield name, best, residuals(best, facts, fit)
