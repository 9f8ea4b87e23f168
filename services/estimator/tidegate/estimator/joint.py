"""Several limits at once: they are judged on the same draws, for P(any) is not 1 - Π(1 - P)."""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.draws import DRAWS

_HALF = 0.25


class Joint(NamedTuple):
    """Per pool; NaN where a limit of it is unknown."""

    p_any: FloatArray
    """P(some limit is reached before its own reset)."""
    first_mean_s: FloatArray
    """Mean time of the first one that is reached, given that one is; NaN when none is."""


def joint(passage_s: FloatArray, p_exhaust: FloatArray, pool: IntArray, pools: int) -> Joint:
    """Limits of several pools: `passage_s` (DRAWS, n) and `p_exhaust` (n,) of `Forecast`, `pool` (n,) of each.

    The draws say how the limits go together; their marginal chances are the corrected ones, so the result lies
    between the largest and the sum of them.
    """
    first = np.full((DRAWS, pools), np.inf)
    largest, total = np.zeros(pools), np.zeros(pools)
    raw_largest = np.zeros(pools)
    raw = np.count_nonzero(np.isfinite(passage_s), axis=0) + _HALF
    for k in range(pool.size):
        first[:, pool[k]] = np.minimum(first[:, pool[k]], passage_s[:, k])
        largest[pool[k]] = np.maximum(largest[pool[k]], p_exhaust[k])
        total[pool[k]] += p_exhaust[k]
        raw_largest[pool[k]] = np.maximum(raw_largest[pool[k]], raw[k])
    some = np.isfinite(first)
    count = np.count_nonzero(some, axis=0)
    grown = largest * (count + _HALF) / np.maximum(raw_largest, _HALF)
    p_any = np.clip(grown, largest, np.minimum(total, 1.0))
    sum_s = np.where(some, first, 0.0)[0]
    for k in range(1, DRAWS):
        sum_s = sum_s + np.where(some[k], first[k], 0.0)
    mean_s = np.where(count > 0, sum_s / np.maximum(count, 1), np.nan)
    return Joint(p_any, np.where(np.isnan(total), np.nan, mean_s))
