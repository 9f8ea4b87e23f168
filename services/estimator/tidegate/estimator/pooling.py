"""What many series taught, as the column a new series begins with: its chance to stop and resume, its level, its doubt.

Counts are shrunk to a few, so a series that behaves otherwise soon shows it; the spread between the series is the
doubt about the level of a new one. Time of day is left out: it belongs to each series.
"""

import numpy as np

from tidegate.estimator import activity, bank, calibration
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.series_fields import CHAIN, LEVEL, PRIOR, RECORD

COUNTS = 20.0
"""Weight of what the pool taught, in moves of the chain per kind."""
WINDOWS = 5.0
"""Weight of the pool's record of forecasts, in windows."""
_PAIRS = (
    *((activity.START + k, activity.STAY_IDLE + k) for k in range(len(activity.AGE_FROM))),
    (activity.STOP, activity.GO_ON),
)
_LEAST = 1e-3


def pooled(block: FloatArray) -> FloatArray:
    """The column (fields,) of a new series from the columns (fields, n) of others that have seen something.

    Give it to `Consumption.begin`. Raises ValueError when none of them has closed an active bin.
    """
    taught = block[:, block[LEVEL][bank.UPDATES] > 0]
    if taught.shape[1] == 0:
        raise ValueError("no series of the pool has seen an active bin")
    column = np.array(PRIOR)
    _pool_chain(column[CHAIN], taught[CHAIN])
    _pool_level(column[LEVEL], taught[LEVEL])
    cells = taught[RECORD][calibration.CELL].sum(axis=1)
    column[RECORD][calibration.CELL] = WINDOWS * cells / max(float(cells.sum()), WINDOWS)
    return column


def _pool_chain(column: FloatArray, chains: FloatArray) -> None:
    prior = np.array(activity.PRIOR)
    for hit, miss in _PAIRS:
        hits = float((chains[hit] - prior[hit]).sum()) + prior[hit]
        misses = float((chains[miss] - prior[miss]).sum()) + prior[miss]
        share = min(COUNTS / (hits + misses), 1.0)
        column[hit], column[miss] = max(share * hits, _LEAST), max(share * misses, _LEAST)


def _pool_level(column: FloatArray, levels: FloatArray) -> None:
    """The members' mean level; the variance between the series joins that within."""
    column[bank.UPDATES] = 1.0
    scale = np.exp(np.log(levels[bank.SCALE]).mean(axis=1))
    column[bank.SCALE] = scale
    column[bank.SLOW] = (levels[bank.SLOW] + levels[bank.FAST]).mean(axis=1)
    between = (levels[bank.SLOW] + levels[bank.FAST]).var(axis=1)
    column[bank.P00] = np.maximum(between / scale, _LEAST)
    column[bank.LOG_WEIGHT] = levels[bank.LOG_WEIGHT].mean(axis=1)
    column[bank.LOG_WEIGHT] -= column[bank.LOG_WEIGHT].max()
