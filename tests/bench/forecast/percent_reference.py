"""What reports of whole percents tell of a capacity at all: its posterior on a grid, too large to be kept by a service.

Given a capacity, our use is known, so a report bounds what others have used until then to an interval of one percent.
Their use is a hidden Markov chain: at one of eight paces or idle, calm, changing or wild; what is used at a pace
between two reports is gamma distributed. Summed over all paths of it, on cells of a quarter percent, the reports have
a likelihood for each capacity. The capacities are points close to the true one and a few far from it, so this is a
bound for what can be done and no method; the kinds of strangers were chosen on the even accounts.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import gamma

from tidegate.estimator.columns import FloatArray, IntArray

COSTS: FloatArray = np.concatenate(
    (np.arange(0.05, 0.9, 0.05), np.arange(0.9, 1.1, 0.01), np.arange(1.1, 1.5, 0.05))
)
"""What our use costs, as a multiple of what it does: 1 is the truth."""
_CELLS = 4
"""Per percent; a report allows one more, each of the outermost for as much as it lies inside."""
_PACES: FloatArray = np.array([0.02 * 2.5**step for step in range(8)])
"""Percent between two reports."""
_STATES = len(_PACES) + 2
_IDLE, _NOBODY = len(_PACES), len(_PACES) + 1
_NOBODY_SHARE = 0.3
_SUBPACES = 2.5 ** np.linspace(-0.4, 0.4, 5)
_TRUST = 0.6
"""As in the service: the chain is not what strangers are, so that reports tell less than it believes."""


class Strangers(NamedTuple):
    """One kind of them, per report: shape of the gamma, chance to keep a pace but for its drift, that drift in its
    logarithm, chances to fall idle and to wake."""

    shape: float
    keep: float
    drift: float
    fall: float
    wake: float


KINDS = (
    Strangers(100.0, 0.995, 0.12, 0.005, 0.1),
    Strangers(8.0, 0.95, 0.4, 0.03, 0.2),
    Strangers(2.0, 0.8, 0.8, 0.1, 0.2),
)


def cost_quantiles(own: FloatArray, percent: FloatArray, levels: tuple[float, ...]) -> FloatArray:
    """Posterior quantiles (levels, accounts) of what our use costs; `own` in percent and as told, (accounts, reports)."""
    logs = np.stack([_log_likelihood(own, percent, kind) for kind in KINDS])
    likelihood = np.exp(logs - logs.max(axis=(0, 2))[None, :, None]).sum(axis=0)
    weight = likelihood**_TRUST * np.gradient(COSTS)
    weight /= weight.sum(axis=1, keepdims=True)
    middle = np.cumsum(weight, axis=1) - 0.5 * weight
    return np.array([[np.interp(level, row, COSTS) for row in middle] for level in levels])


def _chain(kind: Strangers) -> tuple[FloatArray, FloatArray]:
    """Chances of the first state, and of each state after each."""
    step = np.subtract.outer(np.arange(len(_PACES)), np.arange(len(_PACES))) * np.log(2.5)
    near = np.exp(-0.5 * (step / kind.drift) ** 2)
    moved = kind.keep * near / near.sum(axis=1, keepdims=True) + (1.0 - kind.keep) / len(_PACES)
    after = np.zeros((_STATES, _STATES))
    after[:_IDLE, :_IDLE], after[:_IDLE, _IDLE] = (1.0 - kind.fall) * moved, kind.fall
    after[_IDLE, _IDLE], after[_IDLE, :_IDLE] = 1.0 - kind.wake, kind.wake / len(_PACES)
    after[_NOBODY, _NOBODY] = 1.0
    idle = kind.fall / (kind.fall + kind.wake)
    some = 1.0 - _NOBODY_SHARE
    busy = np.full(len(_PACES), some * (1.0 - idle) / len(_PACES))
    return np.concatenate((busy, [some * idle, _NOBODY_SHARE])), after


def _increments(kind: Strangers) -> FloatArray:
    """Chance (cells, states) to use so many cells between two reports."""
    edges = np.maximum((np.arange(130 * _CELLS + 1) - 0.5) / _CELLS, 0.0)
    found = np.zeros((edges.size - 1, _STATES))
    found[0, _IDLE:] = 1.0
    for state, pace in enumerate(_PACES):
        parts = [np.diff(gamma.cdf(edges, kind.shape, scale=each / kind.shape)) for each in pace * _SUBPACES]
        found[:, state] = np.mean(parts, axis=0)
    return found


def _log_likelihood(own: FloatArray, percent: FloatArray, kind: Strangers) -> FloatArray:
    """(accounts, COSTS)."""
    first, after = _chain(kind)
    increments, cells = _increments(kind), np.arange(_CELLS + 1)
    alpha = np.zeros((len(own), COSTS.size, cells.size, _STATES))
    alpha[:, :, 0] = first
    lowest: IntArray = np.zeros((len(own), COSTS.size), dtype=np.int64)
    total = np.zeros((len(own), COSTS.size))
    for told, ours in zip(percent.T, own.T, strict=True):
        edge = (told[:, None] - COSTS * ours[:, None] - 0.5) * _CELLS
        now = np.floor(edge + 0.5).astype(np.int64)
        inside = np.ones((*edge.shape, cells.size))
        inside[..., 0], inside[..., -1] = now + 0.5 - edge, edge + 0.5 - now
        inside[now[..., None] + cells < 0] = 0.0
        moved = alpha @ after
        alpha = np.zeros_like(alpha)
        for before in cells:
            rise = now[..., None] + cells - lowest[..., None] - before
            chance = increments[np.clip(rise, 0, len(increments) - 1)] * (rise >= 0)[..., None]
            alpha += chance * moved[:, :, before, None, :]
        alpha *= inside[..., None]
        seen = np.maximum(alpha.sum(axis=(2, 3)), 1e-300)
        total += np.log(seen)
        alpha /= seen[..., None, None]
        lowest = now
    return total
