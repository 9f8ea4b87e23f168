"""Scores of probability forecasts: Brier, log score, calibration error, ranking, recall at a false-alarm rate, lead
time, CRPS, interval coverage; differences by a bootstrap that is paired over series."""

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray

UNCERTAIN = 1e-4
FALSE_ALARMS = 0.05


def brier(p: FloatArray, outcome: FloatArray, weight: FloatArray | None = None) -> float:
    """Mean squared error of the probabilities (Gneiting, Raftery 2007), weighted if asked."""
    return float(np.average((p - outcome) ** 2, weights=weight))


def log_score(p: FloatArray, outcome: FloatArray) -> float:
    """Mean negative log likelihood, clipped at 1e-4."""
    return float(-np.log(np.maximum(np.where(outcome > 0, p, 1.0 - p), UNCERTAIN)).mean())


def calibration_error(p: FloatArray, outcome: FloatArray, bins: int = 10) -> float:
    """Expected calibration error: |mean forecast - frequency| over equal bins of probability, weighted by count."""
    tenth = np.minimum((p * bins).astype(np.int64), bins - 1)
    return float(np.abs(np.bincount(tenth, p - outcome, minlength=bins)).sum() / p.size)


def auc(p: FloatArray, outcome: FloatArray) -> float:
    """Chance that an exhaustion was given a higher probability than none, ties counting half."""
    _, place, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    hits = outcome.sum()
    return float((rank[outcome > 0].sum() - hits * (hits + 1) / 2) / (hits * (p.size - hits)))


def crps(draws: FloatArray, value: FloatArray) -> FloatArray:
    """Continuous ranked probability score per forecast, in the unit of the value; `draws` (draws, n) ascending.

    mean |X - y| - mean |X - X'| / 2, the second part from the order statistics.
    """
    k = draws.shape[0]
    near = np.abs(draws - value).mean(axis=0)
    place = (2.0 * np.arange(k) - k + 1.0)[:, None]
    spread: FloatArray = (place * draws).sum(axis=0) / (k * k)
    return near - spread


def limit_at(quiet: FloatArray, false_alarms: float) -> float:
    """The lowest limit that at most `false_alarms` of the probabilities `quiet`, given where nothing came, reach."""
    ascending = np.sort(quiet)
    allowed = int(false_alarms * quiet.size)
    return float(np.nextafter(ascending[-1 - allowed], np.inf))


def announced(
    score: FloatArray, outcome: FloatArray, window: IntArray, lead_s: FloatArray, at_least_s: float
) -> tuple[float, FloatArray]:
    """Alarms go off where the score passes a limit that 5 % of the windows that do not exhaust pass anywhere.

    Recall: of the windows that exhaust `at_least_s` or more after some decision, those announced that early. And the
    lead of the first alarm of each announced window. `window` is each decision's, `lead_s` the time it has left.
    """
    hit = outcome > 0
    highest = np.full(int(window.max()) + 1, -np.inf)
    np.maximum.at(highest, window[~hit], score[~hit])
    limit = limit_at(highest[np.unique(window[~hit])], FALSE_ALARMS)
    mine, lead = window[hit], lead_s[hit]
    rung = score[hit] >= limit
    early = np.unique(mine[rung & (lead >= at_least_s)])
    could = np.unique(mine[lead >= at_least_s])
    return early.size / max(could.size, 1), first_leads(score[hit], limit, mine, lead)


def first_leads(p: FloatArray, limit: float, window: IntArray, lead_s: FloatArray) -> FloatArray:
    """Lead of the first alarm of each window that has one; arguments of those that exhaust, as of `announced`."""
    rung = p >= limit
    first = np.full(int(window.max(initial=0)) + 1, -np.inf)
    np.maximum.at(first, window[rung], lead_s[rung])
    leads: FloatArray = first[np.isfinite(first)]
    return leads


def gain_interval(loss: FloatArray, other: FloatArray, series: IntArray, draws: int = 2000) -> list[float]:
    """Other loss minus ours: mean and 95 % interval of a bootstrap over series, as decisions are near copies."""
    totals, counts = np.bincount(series, other - loss), np.bincount(series)
    totals, counts = totals[counts > 0], counts[counts > 0]
    pick = np.random.default_rng(2).integers(0, totals.size, (draws, totals.size))
    means = totals[pick].sum(axis=1) / counts[pick].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return [float(np.mean(other - loss)), float(low), float(high)]


def murphy(p: FloatArray, outcome: FloatArray, bins: int = 10) -> tuple[float, float, float]:
    """Reliability, resolution and uncertainty: Brier = reliability - resolution + uncertainty, up to bin width."""
    tenth = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.maximum(np.bincount(tenth, minlength=bins), 1)
    mean_p = np.bincount(tenth, p, minlength=bins) / count
    rate = np.bincount(tenth, outcome, minlength=bins) / count
    base = outcome.mean()
    share = np.bincount(tenth, minlength=bins) / p.size
    return (
        float((share * (mean_p - rate) ** 2).sum()),
        float((share * (rate - base) ** 2).sum()),
        float(base * (1 - base)),
    )
