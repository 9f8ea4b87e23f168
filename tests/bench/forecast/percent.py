"""Providers that tell only a percentage: ServeGen clients share accounts whose capacity nobody says.

One client's use is ours, another's of the same kind is a stranger's, of a tenth, a third or none of our size. The
capacity makes the busiest window of ours end near 90 %. After each bin the provider tells a whole percentage.

Not all of these accounts tell what they hold: where ours is used evenly, a steady stranger looks like a smaller
window. `determined` are those whose reports tell it within 5 % in nine of ten cases to whoever knows how restless the
strangers are, by the Cramér-Rao bound for reports rounded to whole percents and strangers of an unknown mean pace.
`cramer_rao_within` is the share that such an efficient estimate has within 5 %, over all accounts. It knows nothing of
strangers that rest: `reference_within` is what a posterior on a grid makes of them (see `percent_reference`), and so
about what the reports allow. The filters of the estimator's bank and its trust in them were chosen on the even
accounts; the odd ones are the second look.
"""

from math import erf

import numpy as np

from bench.forecast.percent_reference import cost_quantiles
from bench.forecast.traffic import Traffic
from tidegate.estimator.capacity import Capacity
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.series_fields import BINS_PER_WINDOW

NS = 1_000_000_000
SHARES = (0.0, 0.1, 0.33)
Z = {80: 1.2815515655446004, 90: 1.6448536269514722, 95: 1.959963984540054}
CLOSE = 0.05
WINDOWS = 4
_ROUNDING_VAR = 1.0 / 12.0


def settings(traffic: Traffic) -> dict[str, dict[str, float]]:
    """Per size of outside use, after the busiest window of each client: error of capacity and cover of its bars."""
    use = traffic.units.sum(axis=2)
    window = use.argmax(axis=1)
    active = (np.take_along_axis(traffic.units, window[:, None, None], axis=1)[:, 0] > 0).sum(axis=1)
    some = np.flatnonzero(active >= BINS_PER_WINDOW // 3)
    ours = np.stack([traffic.units[i, window[i]] for i in some])
    begin = np.minimum(window[some], traffic.units.shape[1] - WINDOWS)
    row = np.stack([traffic.units[i, k : k + WINDOWS] for i, k in zip(some, begin, strict=True)])
    return {
        f"outside {share:.0%}": _setting(ours, share, traffic.window_s) | _later(row, share, traffic.window_s)
        for share in SHARES
    }


def _later(ours: FloatArray, share: float, window_s: int) -> dict[str, float]:
    """The same after each of WINDOWS windows in a row but the first, which is the busiest if it can be; cover of the
    accounts that are known by then."""
    n, bin_ns = len(ours), window_s * NS // BINS_PER_WINDOW
    theirs = np.roll(ours, 1, axis=0)
    theirs = theirs / theirs.sum(axis=(1, 2), keepdims=True) * ours.sum(axis=(1, 2), keepdims=True) * share
    capacity = (ours + theirs).sum(axis=2).max(axis=1) / 0.9
    model, who = Capacity(n), np.arange(n)
    model.guess(who, capacity * np.exp(np.random.default_rng(3).normal(0.0, 1.0, n)))
    found: dict[str, float] = {}
    for window in range(WINDOWS):
        start = np.full(n, window * BINS_PER_WINDOW * bin_ns)
        own, others = ours[:, window].cumsum(axis=1), theirs[:, window].cumsum(axis=1)
        for k in range(BINS_PER_WINDOW):
            percent = np.round(100.0 * (own[:, k] + others[:, k]) / capacity)
            model.observe(who, start + (k + 1) * bin_ns - 1, start, own[:, k], percent)
        if window:
            belief = model.belief(who, (window + 1) * BINS_PER_WINDOW * bin_ns - 1, start, own[:, -1])
            error, sd = np.abs(belief.capacity / capacity - 1.0), np.sqrt(belief.capacity_var) / capacity
            held, odd, known = error <= Z[90] * sd, who % 2 == 1, ~belief.prior
            found[f"within_after_{window + 1}"] = float(np.mean(error <= CLOSE))
            found[f"cover_90_after_{window + 1}"] = float(np.mean(held[known]))
            found[f"cover_90_odd_after_{window + 1}"] = float(np.mean(held[known & odd]))
    return found


def _setting(ours: FloatArray, share: float, window_s: int) -> dict[str, float]:
    n = len(ours)
    theirs = np.roll(ours, 1, axis=0)
    theirs = theirs / theirs.sum(axis=1, keepdims=True) * ours.sum(axis=1, keepdims=True) * share
    capacity = (ours.sum(axis=1) + theirs.sum(axis=1)) / 0.9
    model, who, start = Capacity(n), np.arange(n), np.zeros(n, dtype=np.int64)
    model.guess(who, capacity * np.exp(np.random.default_rng(3).normal(0.0, 1.0, n)))
    own, others = ours.cumsum(axis=1), theirs.cumsum(axis=1)
    bin_ns = window_s * NS // BINS_PER_WINDOW
    for k in range(BINS_PER_WINDOW):
        percent = np.round(100.0 * (own[:, k] + others[:, k]) / capacity)
        model.observe(who, np.full(n, (k + 1) * bin_ns - 1), start, own[:, k], percent)
    belief = model.belief(who, BINS_PER_WINDOW * bin_ns - 1, start, own[:, -1])
    error = np.abs(belief.capacity - capacity) / capacity
    sd = np.sqrt(belief.capacity_var) / capacity
    least = least_sd(own / capacity[:, None], theirs / capacity[:, None])
    determined = Z[90] * least <= CLOSE
    near, odd = error <= CLOSE, who % 2 == 1
    return {
        "accounts": float(n),
        "median_error": float(np.median(error)),
        "median_sd": float(np.median(sd)),
        "within_5_percent": float(np.mean(near)),
        "within_even": float(np.mean(near[~odd])),
        "within_odd": float(np.mean(near[odd])),
        "cramer_rao_within": float(np.mean([erf(CLOSE / max(one, 1e-12) / 2.0**0.5) for one in least])),
        **_reference(100.0 * own / capacity[:, None], 100.0 * others / capacity[:, None]),
        "determined": float(np.count_nonzero(determined)),
        "within_where_determined": float(np.mean(near[determined])),
        **{f"cover_{share}": float(np.mean(error <= z * sd)) for share, z in Z.items()},
        **{
            f"cover_{share}_odd": float(np.mean((error <= z * sd)[odd]))
            for share, z in Z.items()
            if share < 95
        },
    }


def _reference(own: FloatArray, others: FloatArray) -> dict[str, float]:
    """Share within 5 % and cover of the posterior on a grid."""
    low, median, high = cost_quantiles(own, np.round(own + others), (0.05, 0.5, 0.95))
    return {
        "reference_within": float(np.mean(np.abs(1.0 / median - 1.0) <= CLOSE)),
        "reference_cover_90": float(np.mean((low <= 1.0) & (high >= 1.0))),
    }


def least_sd(own: FloatArray, theirs: FloatArray) -> FloatArray:
    """The least relative standard deviation that an unbiased estimate of each capacity can have (Cramér-Rao).

    `own` is our use up to each report and `theirs` that of others between reports, in windows, (accounts, reports).
    What others use is taken as a mean that nobody knows and normal noise of the variance it really has.
    """
    reports = np.arange(1.0, own.shape[1] + 1.0)
    walk = np.minimum.outer(reports, reports)
    found = np.empty(len(own))
    for i, (ours, other) in enumerate(zip(100.0 * own, 100.0 * theirs, strict=True)):
        noise = _ROUNDING_VAR * np.eye(reports.size) + other.var() * walk
        told_by = np.stack((ours, reports), axis=1)
        information = told_by.T @ np.linalg.solve(noise, told_by)
        found[i] = np.sqrt(np.linalg.inv(information)[0, 0])
    return found
