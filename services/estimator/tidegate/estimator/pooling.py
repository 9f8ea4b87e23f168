"""What many series taught, as what is expected of a new one: its chance to stop and resume, its level, its doubt.

Counts are shrunk to a few, so a series that behaves otherwise soon shows it; the spread between the series is the
doubt about the level of a new one. Time of day is left out: it belongs to each series. Series are read so where they
are forecast; what is stored of each is its own.
"""

import numpy as np

from tidegate.estimator import activity, bank, calibration
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.series_fields import CHAIN, LEVEL, PRIOR, RECORD

COUNTS = 20.0
"""Weight of what the pool taught, in moves of the chain per kind."""
WINDOWS = 5.0
"""Weight of the pool's record of forecasts, in windows."""
TAUGHT_BINS = 150.0
"""Closed bins, five windows of them, after which a series goes by itself, and may teach others."""
_PRIOR_CHAIN: FloatArray = np.array(activity.PRIOR)[:, None]
_PAIRS = (
    *((activity.START + k, activity.STAY_IDLE + k) for k in range(len(activity.AGE_FROM))),
    (activity.STOP, activity.GO_ON),
)
_LEAST = 1e-3


def pooled(block: FloatArray) -> FloatArray:
    """The column (fields,) of a new series from the columns (fields, n) of others that have seen something.

    Give it to `shrunk`. Raises ValueError when none of them has closed an active bin.
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


def shrunk(block: FloatArray, columns: FloatArray) -> FloatArray:
    """Columns of series (fields, n), new ones as they would be had they begun with `columns` (fields, n) of `pooled`,
    NaN where there is none; that fades with what a series has seen itself."""
    taught = ~np.isnan(columns[CHAIN][activity.STOP])
    closed = block[CHAIN][activity.CLOSED]
    weight = np.where(taught, np.maximum(1.0 - closed / TAUGHT_BINS, 0.0), 0.0)
    known = np.where(taught, columns, 0.0)
    found = block.copy()
    for counts in (count for pair in _PAIRS for count in pair):
        found[CHAIN][counts] += weight * (known[CHAIN][counts] - _PRIOR_CHAIN[counts])
    found[RECORD][calibration.CELL] += weight * known[RECORD][calibration.CELL]
    blank = taught & (block[LEVEL][bank.UPDATES] == 0)
    found[LEVEL] = np.where(blank, known[LEVEL], found[LEVEL])
    return found


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
