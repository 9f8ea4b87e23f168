"""One fixed table of quasi-random numbers: a Latin hypercube of 32 points, the same for every forecast.

The permutations come from a small integer generator (SplitMix64, public domain), so the table is a constant:
equal beliefs give equal forecasts, for ever.
"""

from statistics import NormalDist

import numpy as np

from tidegate.estimator.columns import FloatArray

DRAWS = 32
MAX_STEPS = 32
_MASK = (1 << 64) - 1
_SEED = 20240607


def _permutations(count: int) -> list[list[int]]:
    state, tables = _SEED, list[list[int]]()
    for _ in range(count):
        order = list(range(DRAWS))
        for i in range(DRAWS - 1, 0, -1):
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
            j = (mixed ^ (mixed >> 31)) % (i + 1)
            order[i], order[j] = order[j], order[i]
        tables.append(order)
    return tables


def _build() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    grid = [(k + 0.5) / DRAWS for k in range(DRAWS)]
    normal = [NormalDist().inv_cdf(u) for u in grid]
    tables = _permutations(7 + 3 * MAX_STEPS)
    series = np.array([[normal[k] for k in table] for table in tables[:5]])
    uniform = np.array([[grid[k] for k in table] for table in tables[5 : 5 + MAX_STEPS]])
    steps = np.array([[normal[k] for k in table] for table in tables[5 + MAX_STEPS : -2]])
    member = np.array([grid[k] for k in tables[-2]])
    quota = np.array([normal[k] for k in tables[-1]])
    return series, uniform, steps[:MAX_STEPS], steps[MAX_STEPS:], member, quota


SERIES_NORMALS, ACTIVE_UNIFORMS, DRIFT_NORMALS, NOISE_NORMALS, MEMBER_UNIFORMS, QUOTA_NORMALS = _build()
"""Shapes (5, DRAWS): slow, fast, shape, start, stop; then (MAX_STEPS, DRAWS) each, one row per bin; twice (DRAWS,)."""
