"""Rolling windows as they are believed at a moment: use, what ages out when, and the pace they are judged by. Pure.

Windows of other kinds stay as they are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.rolling import CELLS, Ageing, Rolled
from tidegate.estimator.state import State
from tidegate.estimator.windows import WindowState
from tidegate.events.config import Window
from tidegate.events.quota import duration_ns
from tidegate.events.snapshots import WindowBelief

_HALF = 0.5


class RollingQuota(NamedTuple):
    """Of all windows asked for, those that roll among them."""

    rolls: BoolArray
    ledger: WindowState
    judged_used: IntArray
    """Use of rolling windows as `judged` has it."""
    ageing: Ageing
    ages_out: dict[int, tuple[tuple[int, int], ...]]
    """By window, as published."""

    def judged(self, ledger: WindowState) -> WindowState:
        """`ledger` with rolling windows as if each were a period half over, in which its newer half was used; or all
        of it once it is dry. Index and price go by the pace of a period, which they do not have."""
        return ledger._replace(
            used=np.where(self.rolls, self.judged_used, ledger.used),
            elapsed=np.where(self.rolls, _HALF, ledger.elapsed),
        )

    def added_to(self, belief: WindowBelief, k: int, window: Window) -> WindowBelief:
        """The belief of window `k` without a period, and with what ages out of it."""
        if not self.rolls[k]:
            return belief
        return msgspec.structs.replace(
            belief, rolls_ns=duration_ns(window), ages_out=self.ages_out.get(k, ())
        )


def rolling_quota(
    state: State, idx: IntArray, windows: Sequence[Window], ledger: WindowState, limits: IntArray, now_ns: int
) -> RollingQuota | None:
    """The windows `idx` with those that roll, as their config says now; None where none does."""
    rolls: BoolArray = np.array([window.kind == "rolling" for window in windows], dtype=np.bool_)
    if not rolls.any():
        return None
    at_s, units = np.zeros((CELLS, idx.size)), np.zeros((CELLS, idx.size))
    used, newer = np.where(rolls, 0, ledger.used), np.zeros(idx.size, dtype=np.int64)
    known = state.rolling.places
    seen = np.array([k for k in np.flatnonzero(rolls) if int(idx[k]) in known], dtype=np.int64)
    ages_out: dict[int, tuple[tuple[int, int], ...]] = {}
    if seen.size:
        found = state.rolling.at(np.array([known[series] for series in idx[seen].tolist()]), now_ns)
        used[seen], newer[seen] = found.used, found.newer
        at_s[:, seen], units[:, seen] = (found.ends_ns - now_ns) / 1e9, found.units
        ages_out = {int(k): _ages_out(found, place) for place, k in enumerate(seen)}
    lengths = np.array([duration_ns(window) for window in windows], dtype=np.int64)
    rolled = ledger._replace(
        used=used,
        remaining=np.where(rolls, np.maximum(limits - used, 0), ledger.remaining),
        start_ns=np.where(rolls, 0, ledger.start_ns),
        resets_at_ns=np.where(rolls, now_ns + lengths, ledger.resets_at_ns),
        elapsed=np.where(rolls, np.nan, ledger.elapsed),
        known=ledger.known & ~rolls,
    )
    judged_used = np.where(used >= limits, used, newer)
    return RollingQuota(rolls, rolled, judged_used, Ageing(at_s, units), ages_out)


def given_back(rolling: RollingQuota | None, remaining: FloatArray) -> FloatArray:
    """What is left and will be given back over the length of a rolling window; of others, what is left."""
    return remaining if rolling is None else remaining + rolling.ageing.total()


def _ages_out(found: Rolled, place: int) -> tuple[tuple[int, int], ...]:
    pairs = zip(found.ends_ns[:, place].tolist(), found.units[:, place].tolist(), strict=True)
    return tuple([(at_ns, units) for at_ns, units in pairs if units])
