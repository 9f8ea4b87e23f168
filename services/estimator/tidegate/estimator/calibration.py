"""How good were the forecasts of a series? Where truth fell among the draws, learned online, corrects the next ones.

Once a window length a forecast is put aside and later compared with what came: the 33 cells between, below and
above its 32 ascending draws count where the truth fell (its probability integral transform; Gneiting, Balabdaoui,
Raftery 2007). A forecast is read through these counts, shrunk to a declared prior; how often the truth lay inside
the corrected 80 % and 90 % intervals is tracked.
"""

import numpy as np

from tidegate.estimator.columns import FloatArray
from tidegate.estimator.draws import DRAWS

CELLS = DRAWS + 1
# Offsets into the block of this model.
DRAW = slice(0, DRAWS)
CELL = slice(DRAWS, DRAWS + CELLS)
SETTLED, INSIDE_80, INSIDE_90 = range(CELL.stop, CELL.stop + 3)
FIELDS: tuple[str, ...] = (
    *(f"draw_{k}" for k in range(DRAWS)),
    *(f"cell_{k}" for k in range(CELLS)),
    *("settled", "inside_80", "inside_90"),
)
PRIOR: tuple[float, ...] = (0.0,) * len(FIELDS)

# Where the truth fell among the draws in the first week of ServeGen, in 1,000 of all clients: a little too often
# at the ends, because the draws know nothing of a change of regime.
_PRIOR_CELLS: FloatArray = np.array(
    (
        *(36, 39, 31, 24, 26, 25, 27, 26, 28, 30, 30, 36, 40, 34, 30, 30, 30),
        *(28, 26, 26, 26, 29, 28, 30, 26, 26, 26, 25, 22, 22, 21, 24, 96),
    ),
    dtype=np.float64,
)[:, None]
_PRIOR_WINDOWS = 10.0
_FORGET = 0.9
_COVERAGE_FORGET = 0.98
_TAIL_FLOOR = 0.1
LEVELS = (0.05, 0.1, 0.5, 0.9, 0.95)
"""Points of the use still to come that are published: the 80 % and the 90 % interval around the median."""
_FARTHEST = 4.0
"""No point lies further beyond the last draw, in spreads of the draws: where so few futures lie, nobody knows."""


def ask(record: FloatArray, draws: FloatArray) -> None:
    """Put a forecast aside: ascending draws (DRAWS, n) of what will be used. One that waits is replaced."""
    record[DRAW] = draws


def settle(record: FloatArray, used: FloatArray) -> None:
    """The time of the forecast that waits is over and `used` units were used in it."""
    draws = record[DRAW]
    below = np.count_nonzero(draws < used, axis=0)
    upto = np.count_nonzero(draws <= used, axis=0)
    cumulative = _cumulative(record)
    everyone = np.arange(used.size)
    place = 0.5 * (cumulative[below, everyone] + cumulative[upto + 1, everyone])
    away = np.abs(place - 0.5)
    for field, half in ((INSIDE_80, 0.4), (INSIDE_90, 0.45)):
        record[field] = _COVERAGE_FORGET * record[field] + (away <= half)
    record[SETTLED] = _COVERAGE_FORGET * record[SETTLED] + 1.0
    cell = np.arange(CELLS)[:, None]
    inside = (cell >= below) & (cell <= upto)
    record[CELL] = _FORGET * record[CELL] + inside / (upto + 1.0 - below)


def chance(record: FloatArray, surplus: FloatArray) -> FloatArray:
    """P(surplus ≥ 0) from ascending draws (DRAWS, n) of what is used less what remains, read through the record."""
    cumulative = _cumulative(record)
    everyone = np.arange(surplus.shape[1])
    below = np.count_nonzero(surplus < 0, axis=0)
    low = surplus[np.maximum(below - 1, 0), everyone]
    high = surplus[np.minimum(below, DRAWS - 1), everyone]
    between = (below > 0) & (below < DRAWS)
    share = np.where(between, -low / np.where(between, high - low, 1.0), 0.5)
    # Beyond the last draw the chance falls with the distance, measured in the spread of the draws.
    spread = surplus[-1] - surplus[0]
    tail = _TAIL_FLOOR + (1.0 - _TAIL_FLOOR) * spread / np.where(spread > 0, spread - low, 1.0)
    share = np.where(below == DRAWS, 1.0 - np.where(spread > 0, tail, _TAIL_FLOOR), share)
    at, after = cumulative[below, everyone], cumulative[below + 1, everyone]
    p: FloatArray = 1.0 - at - share * (after - at)
    return p


def points(record: FloatArray, draws: FloatArray) -> FloatArray:
    """Use that is passed with chance 1 - level, ascending (LEVELS, n): `chance` solved for what remains.

    So what is said of an interval and of a quota is the same, the tail beyond the last draw included.
    """
    cumulative = _cumulative(record)
    everyone = np.arange(draws.shape[1])
    ends = np.concatenate((draws[:1], draws, draws[-1:]))
    spread = draws[-1] - draws[0]
    found = np.empty((len(LEVELS), draws.shape[1]))
    for k, level in enumerate(LEVELS):
        cell = np.minimum(np.count_nonzero(cumulative[1:] <= level, axis=0), DRAWS)
        at, after = cumulative[cell, everyone], cumulative[cell + 1, everyone]
        share = np.clip((level - at) / np.maximum(after - at, 1e-12), 0.0, 1.0)
        inside = ends[cell, everyone] + share * (ends[cell + 1, everyone] - ends[cell, everyone])
        least = (1.0 - _TAIL_FLOOR) / (1.0 + _FARTHEST)
        beyond = (1.0 - _TAIL_FLOOR) / np.maximum(1.0 - share - _TAIL_FLOOR, least) - 1.0
        found[k] = np.where(cell == DRAWS, draws[-1] + spread * beyond, inside)
        # Below the first draw the chance knows two values: half of that cell needs no use at all.
        found[k] = np.where((cell == 0) & (share <= 0.5), 0.0, found[k])
    return found


def corrected(record: FloatArray, draws: FloatArray) -> FloatArray:
    """Equally likely values by the record, ascending (DRAWS, n), from ascending draws.

    Linear between neighbouring draws; above the last one there is no more than the last.
    """
    cumulative = _cumulative(record)
    n = draws.shape[1]
    everyone = np.arange(n)
    ends = np.concatenate((draws[:1], draws, draws[-1:]))
    found = np.empty_like(draws)
    for k in range(DRAWS):
        level = (k + 0.5) / DRAWS
        cell = np.minimum(np.count_nonzero(cumulative[1:] <= level, axis=0), CELLS - 1)
        at, after = cumulative[cell, everyone], cumulative[cell + 1, everyone]
        share = np.clip((level - at) / np.maximum(after - at, 1e-12), 0.0, 1.0)
        low, high = ends[cell, everyone], ends[cell + 1, everyone]
        found[k] = low + share * (high - low)
    return found


def coverage(record: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of settled forecasts inside the 80 % and the 90 % interval (NaN before any), and their weight."""
    settled = record[SETTLED]
    seen = np.where(settled > 0, settled, np.nan)
    return record[INSIDE_80] / seen, record[INSIDE_90] / seen, settled


def _cumulative(record: FloatArray) -> FloatArray:
    """Cumulated shares of the cells, shape (CELLS + 1, n), from 0 to 1; added in a fixed order."""
    counts = record[CELL] + _PRIOR_CELLS * (_PRIOR_WINDOWS / 1003.0)
    found = np.zeros((CELLS + 1, record.shape[1]))
    for k in range(CELLS):
        found[k + 1] = found[k] + counts[k]
    found[1:] /= found[-1].copy()
    return found
