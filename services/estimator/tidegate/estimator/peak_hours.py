"""Peak hours in beliefs: what a window's use will count for in each step to come, and how much of its period is gone.

A step of the clock that is known beforehand: it multiplies the forecast of plain use, and no filter has to learn it.
Pure.
"""

from collections.abc import Sequence

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.paths import Paths
from tidegate.estimator.windows import WindowState
from tidegate.events.config import Peak, Window
from tidegate.events.peak import peak_steps

Peaks = Sequence[tuple[Peak, ...]]
"""Of each window; empty where every hour counts alike."""


def peaks_of(windows: Sequence[Window]) -> Peaks | None:
    """The peak hours of windows; None where none has any."""
    found = [window.peaks for window in windows]
    return found if any(found) else None


def weighed_paths(paths: Paths, peaks: Peaks, now_ns: int) -> Paths:
    """The paths in the units that the provider will count: plain use at the mean weight of each step."""
    weights = np.ones(paths.to_s.shape)
    if weights.size == 0:
        return paths
    for k, hours in enumerate(peaks):
        if hours:
            edges_s = np.concatenate((paths.from_s[:1, k], paths.to_s[:, k]))
            gone = _weighed_s(hours, now_ns, edges_s)
            width = np.diff(edges_s)
            weights[:, k] = np.where(width > 0, np.diff(gone) / np.where(width > 0, width, 1.0), 1.0)
    return paths._replace(units=paths.units * weights[:, None, :])


def weighed_elapsed(ledger: WindowState, peaks: Peaks, now_ns: int) -> WindowState:
    """The ledger with elapsed shares as the provider counts the hours: even use is on schedule at any of them."""
    elapsed = ledger.elapsed.copy()
    for k, hours in enumerate(peaks):
        if hours and ledger.known[k]:
            start_ns = int(ledger.start_ns[k])
            edges_s = np.array([now_ns - start_ns, int(ledger.resets_at_ns[k]) - start_ns]) / 1e9
            gone, whole = _weighed_s(hours, start_ns, edges_s)
            elapsed[k] = min(max(gone / whole, 0.0), 1.0)
    return ledger._replace(elapsed=elapsed)


def of_windows(peaks: Peaks | None, at: IntArray) -> Peaks | None:
    """Those of some of the windows."""
    return None if peaks is None else [peaks[k] for k in at.tolist()]


def _weighed_s(hours: tuple[Peak, ...], from_ns: int, edges_s: FloatArray) -> FloatArray:
    """Seconds from `from_ns` to each edge (ascending), each counted by the weight of its hour."""
    steps = peak_steps(hours, from_ns, from_ns + int(edges_s[-1] * 1e9) + 1)
    ends_s = np.array([(until_ns - from_ns) / 1e9 for until_ns, _ in steps])
    weights = np.array([weight for _, weight in steps])
    known_s = np.concatenate(([0.0], ends_s))
    total = np.concatenate(([0.0], np.cumsum(np.diff(known_s) * weights)))
    found: FloatArray = np.interp(edges_s, known_s, total)
    return found
