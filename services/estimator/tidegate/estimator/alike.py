"""Windows that are alike, of one unit, kind and length, teach a new one among them what to expect. Pure."""

from collections.abc import Sequence

import numpy as np

from tidegate.estimator import activity, bank
from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.pooling import TAUGHT_BINS, pooled
from tidegate.estimator.series_fields import BIN, CHAIN, FIELDS, LEVEL
from tidegate.estimator.state import State
from tidegate.events.config import Routing, Window

LEAST, MOST = 3, 256
"""So few windows teach nothing; more than so many teach no more."""
_CLOSED, _UPDATES = CHAIN.start + activity.CLOSED, LEVEL.start + bank.UPDATES
_Likeness = tuple[str, str, float]


def taught(state: State, idx: IntArray, windows: Sequence[Window], routing: Routing) -> FloatArray | None:
    """What others taught of each window of `idx`, (fields, n) as `pooling.shrunk` takes it; None where nobody did.

    Who teaches does not depend on which windows are asked about: all that the config names and the state holds.
    """
    data = state.use.data
    new = np.flatnonzero((data[_CLOSED, idx] < TAUGHT_BINS) & (data[BIN, idx] >= 0))
    if new.size == 0:
        return None
    asked = {_likeness(windows[k]) for k in new.tolist()}
    columns = {
        kind: pooled(teachers)
        for kind, series in _series_of(state, asked, routing).items()
        if (teachers := _teachers(state, series)).shape[1] >= LEAST
    }
    if not columns:
        return None
    found = np.full((len(FIELDS), idx.size), np.nan)
    for k in new.tolist():
        column = columns.get(_likeness(windows[k]))
        if column is not None:
            found[:, k] = column
    return found


def _likeness(window: Window) -> _Likeness:
    return window.unit, window.kind, window.duration_s


def _series_of(state: State, asked: set[_Likeness], routing: Routing) -> dict[_Likeness, list[int]]:
    found: dict[_Likeness, list[int]] = {}
    for pool in routing.pools:
        number = state.pools.get(pool.id)
        for window in pool.windows:
            kind = _likeness(window)
            series = None if number is None or kind not in asked else state.windows.get((number, window.id))
            if series is not None:
                found.setdefault(kind, []).append(series)
    return found


def _teachers(state: State, series: Sequence[int]) -> FloatArray:
    """Columns of those that have seen enough, at most MOST of them."""
    idx: IntArray = np.array(series, dtype=np.int64)
    data = state.use.data
    old = (data[_CLOSED, idx] >= TAUGHT_BINS) & (data[_UPDATES, idx] > 0)
    return state.use.take(idx[old][:MOST])
