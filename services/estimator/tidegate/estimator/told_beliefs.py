"""Windows whose provider tells of them, as they are believed at a moment: capacity, use of others, forecast of both.

Pure. Windows that nobody tells of stay as they are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tidegate.estimator.capacity import CapacityBelief
from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.draws import DRAWS, QUOTA_NORMALS
from tidegate.estimator.exhaustion import Forecast, Known, forecast
from tidegate.estimator.state import State
from tidegate.estimator.told import GUESS, HEARD_NS, LAST_SHARE, WHOLE
from tidegate.estimator.windows import OUTSIDE, START_NS, USED, WindowState
from tidegate.events.config import Window
from tidegate.events.snapshots import Belief, WindowBelief

_ENDLESS = 1e18


class ToldQuota(NamedTuple):
    """Per window asked for."""

    is_told: BoolArray
    places: IntArray
    """Columns among the told windows, of those that are."""
    own: IntArray
    """Units of ours."""
    ledger: WindowState
    """Use and rest with what others used."""
    limits: IntArray
    remaining: FloatArray
    """Equally likely values of what is left, (DRAWS, n)."""
    outside_demand: FloatArray
    """Expected further use of others until the reset; 0 where nobody tells."""
    capacities: list[Belief | None]
    outside: list[Belief | None]
    heard_ns: IntArray
    """When its provider last told of it; `now_ns` where nobody tells: our own count is never stale."""

    def added_to(self, belief: WindowBelief, k: int) -> WindowBelief:
        """The belief of window `k` with its capacity and the use of others."""
        if not self.is_told[k]:
            return belief
        return msgspec.structs.replace(
            belief,
            limit=int(self.limits[k]),
            capacity=self.capacities[k],
            outside=self.outside[k],
            outside_demand=float(self.outside_demand[k]),
            told_at_ns=int(self.heard_ns[k]),
        )

    def ages_s(self, now_ns: int) -> FloatArray:
        """Age of what is told of each window, in seconds; 0 where nobody tells."""
        return np.maximum(now_ns - self.heard_ns, 0) / 1e9


def told_quota(
    state: State, idx: IntArray, windows: Sequence[Window], ledger: WindowState, limits: IntArray, now_ns: int
) -> ToldQuota | None:
    """What providers tell of the windows `idx`, whose own use is in `ledger`; None where none was told of, as their
    config says now."""
    known = state.told.places
    pairs = zip(idx.tolist(), windows, strict=True)
    is_told: BoolArray = np.array(
        [_counts(state, series, window) for series, window in pairs], dtype=np.bool_
    )
    if not is_told.any():
        return None
    at = np.flatnonzero(is_told)
    places = np.array([known[series] for series in idx[at].tolist()], dtype=np.int64)
    found = ToldQuota(
        is_told=is_told,
        places=places,
        own=ledger.used.copy(),
        ledger=ledger._replace(used=ledger.used.copy(), remaining=ledger.remaining.copy()),
        limits=limits.copy(),
        remaining=np.repeat(ledger.remaining.astype(np.float64)[None, :], DRAWS, axis=0),
        outside_demand=np.zeros(idx.size),
        capacities=[None] * idx.size,
        outside=[None] * idx.size,
        heard_ns=np.full(idx.size, now_ns),
    )
    found.heard_ns[at] = state.told.last.data[HEARD_NS, places]
    _expect_others(state, found, at, now_ns)
    shares = state.told.last.data[GUESS, places] > 0
    for k in at[~shares]:
        booked = int(state.ledger.data[OUTSIDE, idx[k]]) if _is_running(state, ledger, idx, k) else 0
        found.outside[k] = Belief(float(max(booked, 0)), 0.0)
        found.own[k] -= booked
    if shares.any():
        _estimate(state, found, idx, at[shares], places[shares], now_ns)
    return found


def _counts(state: State, series: int, window: Window) -> bool:
    """Whether the reports there were are of the kind that the config expects."""
    place = None if window.scope is None or window.kind == "rolling" else state.told.places.get(series)
    return place is not None and window.percent_only == bool(state.told.last.data[GUESS, place] > 0)


def forecast_told(
    state: State, idx: IntArray, ledger: WindowState, told: ToldQuota, now_ns: int, known: Known
) -> Forecast:
    """The forecast of our use, and of that of others where it is told, against a quota that is not known exactly."""
    yes, no = np.flatnonzero(told.is_told), np.flatnonzero(~told.is_told)
    others = state.told.outside.rate, told.places
    resets, own = ledger.resets_at_ns, known.of(yes)
    theirs = forecast(
        state.use,
        idx[yes],
        now_ns,
        resets[yes],
        told.remaining[:, yes],
        others,
        pace=own.pace,
        peaks=own.peaks,
        taught=own.taught,
        opened=own.opened,
    )
    if no.size == 0:
        return theirs
    left, own = ledger.remaining[no].astype(np.float64), known.of(no)
    ours = forecast(state.use, idx[no], now_ns, resets[no], left, **own._asdict())
    order = np.argsort(np.concatenate((yes, no)))
    pairs = zip(theirs, ours, strict=True)
    return Forecast(*(np.concatenate(pair, axis=-1)[..., order] for pair in pairs))


def _is_running(state: State, ledger: WindowState, idx: IntArray, k: int) -> bool:
    return bool(ledger.known[k]) and int(ledger.start_ns[k]) == int(state.ledger.data[START_NS, idx[k]])


def _expect_others(state: State, found: ToldQuota, at: IntArray, now_ns: int) -> None:
    endless = np.full(at.size, _ENDLESS)
    ahead = forecast(state.told.outside.rate, found.places, now_ns, found.ledger.resets_at_ns[at], endless)
    found.outside_demand[at] = np.where(np.isfinite(ahead.demand_mean), ahead.demand_mean, 0.0)


def _estimate(
    state: State, found: ToldQuota, idx: IntArray, at: IntArray, places: IntArray, now_ns: int
) -> None:
    """Windows of which only shares are told: limit, use and rest as estimated."""
    running = np.array([_is_running(state, found.ledger, idx, k) for k in at], dtype=np.bool_)
    start = np.where(running, found.ledger.start_ns[at], now_ns)
    own = np.where(running, state.ledger.data[USED, idx[at]], 0).astype(np.float64)
    belief = state.told.capacity.belief(places, now_ns, start, own)
    guess = state.told.last.data[GUESS, places].astype(np.float64)
    left = np.maximum(100.0 - belief.level, 0.0) / 100.0 * guess
    gone = running & (state.told.last.data[LAST_SHARE, places] >= WHOLE)
    capacity = np.where(belief.prior, guess, belief.capacity)
    remaining = np.where(gone, 0.0, np.where(belief.prior, left, belief.remaining))
    sd = np.sqrt(np.where(belief.prior | gone, 0.0, belief.remaining_var))
    limits = np.maximum(np.floor(capacity + 0.5), 1.0).astype(np.int64)
    rest = np.minimum(np.floor(remaining + 0.5).astype(np.int64), limits)
    found.limits[at] = limits
    found.ledger.remaining[at], found.ledger.used[at] = rest, limits - rest
    found.remaining[:, at] = np.maximum(remaining + sd * QUOTA_NORMALS[:, None], 0.0)
    for k, window in enumerate(at):
        found.capacities[window] = _capacity(belief, guess, k)
        if not belief.prior[k]:
            found.outside[window] = Belief(float(belief.outside[k]), float(belief.outside_var[k]))


def _capacity(belief: CapacityBelief, guess: FloatArray, k: int) -> Belief:
    if belief.prior[k]:
        return Belief(float(guess[k]), float(guess[k]) ** 2, prior=True)
    return Belief(float(belief.capacity[k]), float(belief.capacity_var[k]))
