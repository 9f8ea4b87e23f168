"""Beliefs about quota windows: use, UVI with status, exhaustion forecast, shadow price longest window first. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tidegate.estimator import activity, uvi
from tidegate.estimator.alike import taught
from tidegate.estimator.amortised import amortised_nanousd
from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.exhaustion import Forecast, Known, forecast, will_exhaust
from tidegate.estimator.joint import joint
from tidegate.estimator.nested import Dry, nested_prices
from tidegate.estimator.pace import Pace
from tidegate.estimator.peak_hours import Peaks, peaks_of, weighed_elapsed
from tidegate.estimator.rolling_beliefs import RollingQuota, given_back, rolling_quota
from tidegate.estimator.series_fields import CHAIN
from tidegate.estimator.shadow_price import dual_price, mean_value
from tidegate.estimator.state import State, indexes
from tidegate.estimator.told_beliefs import forecast_told, told_quota
from tidegate.estimator.windows import NO_ANCHOR, WindowState
from tidegate.events.config import Pool, Routing, UviLimits, Window
from tidegate.events.quota import NS_PER_S, duration_ns, reference_nanousd
from tidegate.events.snapshots import Belief, WindowBelief
from tidegate.events.types import PoolId

_CLOSED_BINS = CHAIN.start + activity.FIELDS.index("closed_bins")


class _Place(NamedTuple):
    """A window to publish: its pool, its config, its series in the tables, its rank by duration. Those of a pool follow
    each other, the longest first."""

    pool: PoolId
    window: Window
    series: int
    rank: int


class WindowBeliefs(NamedTuple):
    """What is believed of the windows of pools."""

    windows: dict[PoolId, list[WindowBelief]]
    together: dict[PoolId, tuple[float | None, int | None]]
    """P(some window is gone before its reset) and when the first is, of pools with several windows."""
    statuses: dict[int, int]
    """UVI status codes by window series."""


class _Quota(NamedTuple):
    """Use of the windows as their pace is judged, their limits, and what is left of them for us."""

    ledger: WindowState
    limits: IntArray
    free: FloatArray
    rolling: RollingQuota | None
    peaks: Peaks | None
    ages_s: FloatArray
    """Of what providers told; 0 where only our own count is known, which is never stale: every use of ours is in it."""


def window_beliefs(state: State, now_ns: int, routing: Routing, pools: Sequence[PoolId]) -> WindowBeliefs:
    """Per pool its windows, the longest first, what they do together, and the UVI status codes by window series.

    Windows that the state does not hold are left out: `State.window_of` opens them when a config comes.
    """
    places = _places(state, routing, pools)
    if not places:
        return WindowBeliefs({}, {}, {})
    idx = indexes(place.series for place in places)
    limits = np.array([place.window.limit for place in places], dtype=np.int64)
    windows = [place.window for place in places]
    ledger = _ledger(state, idx, places, limits, now_ns)
    peaks = peaks_of(windows)
    if peaks is not None:
        ledger = weighed_elapsed(ledger, peaks, now_ns)
    rolling = rolling_quota(state, idx, windows, ledger, limits, now_ns)
    ledger = ledger if rolling is None else rolling.ledger
    told = told_quota(state, idx, windows, ledger, limits, now_ns)
    if told is not None:
        ledger, limits = told.ledger, told.limits
    known = Known(
        _pace(places, ledger),
        None if rolling is None else rolling.ageing,
        peaks,
        taught(state, idx, windows, routing),
        np.array([window.kind == "first_request" for window in windows]),
    )
    free = ledger.remaining.astype(np.float64)
    if told is None:
        ahead = forecast(state.use, idx, now_ns, ledger.resets_at_ns, free, **known._asdict())
    else:
        ahead = forecast_told(state, idx, ledger, told, now_ns, known)
        free = np.maximum(ledger.remaining - told.outside_demand, 0.0)
    ages_s = np.zeros(idx.size) if told is None else told.ages_s(now_ns)
    judged = ledger if rolling is None else rolling.judged(ledger)
    quota = _Quota(judged, limits, free, rolling, peaks, ages_s)
    prices = _shadow_prices(state, idx, places, quota, now_ns, routing)
    bounds = {pool.id: pool.uvi for pool in routing.pools}
    index = _uvi(state, places, quota, bounds)
    alarms = _alarms(places, ahead, routing)
    fees = {pool.id: pool for pool in routing.pools if pool.fee_nanousd is not None}
    found: dict[PoolId, list[WindowBelief]] = {}
    for k, place in enumerate(places):
        belief = _belief(place, ledger, ahead, index, float(prices[k]), k, now_ns)
        belief = msgspec.structs.replace(belief, will_exhaust=alarms[k])
        if told is not None:
            belief = told.added_to(belief, k)
        if rolling is not None:
            belief = rolling.added_to(belief, k, place.window)
        if place.rank == 0 and place.pool in fees:
            used = ledger.used[k] if told is None else told.own[k]
            used = (
                0 if place.window.kind == "rolling" else used
            )  # what comes in a whole length is in the demand
            price = _amortised(fees[place.pool], place.window, float(used), ahead.demand[:, k])
            belief = msgspec.structs.replace(belief, amortised_nanousd=price)
        found.setdefault(place.pool, []).append(belief)
    statuses = {place.series: int(index.status[k]) for k, place in enumerate(places)}
    return WindowBeliefs(found, _together(places, ahead, now_ns), statuses)


def _alarms(places: Sequence[_Place], ahead: Forecast, routing: Routing) -> list[bool | None]:
    """By window, whether it is said to run dry; None where nothing is known."""
    costs = {pool.id: pool.alarm for pool in routing.pools}
    false_alarm = np.array([costs[place.pool].false_alarm for place in places])
    miss = np.array([costs[place.pool].miss for place in places])
    said = will_exhaust(ahead.p_exhaust, false_alarm, miss)
    return [bool(act) if math.isfinite(p) else None for act, p in zip(said, ahead.p_exhaust, strict=True)]


def _amortised(pool: Pool, window: Window, used: float, draws: FloatArray) -> float | None:
    share = duration_ns(window) / (pool.fee_period_s * NS_PER_S)
    return amortised_nanousd((pool.fee_nanousd or 0) * share, used, draws)


def _together(
    places: Sequence[_Place], ahead: Forecast, now_ns: int
) -> dict[PoolId, tuple[float | None, int | None]]:
    """P(any window is gone) and when the first is, of pools with several windows."""
    several = dict.fromkeys(place.pool for place in places if place.rank > 0)
    if not several:
        return {}
    number = {pool: k for k, pool in enumerate(several)}
    at = indexes(k for k, place in enumerate(places) if place.pool in number)
    pools = indexes(number[places[k].pool] for k in at)
    both = joint(ahead.passage_s[:, at], ahead.p_exhaust[at], pools, len(number))
    return {
        pool: (_finite(both.p_any[k]), _moment(now_ns, both.first_mean_s[k])) for pool, k in number.items()
    }


def _places(state: State, routing: Routing, pools: Sequence[PoolId]) -> list[_Place]:
    declared: dict[PoolId, Pool] = {pool.id: pool for pool in routing.pools}
    places: list[_Place] = []
    for name in pools:
        windows = declared[name].windows
        number = state.pools.get(name)
        rank = 0
        for window in sorted(windows, key=_longest_first):
            series = None if number is None else state.windows.get((number, window.id))
            if series is not None:
                places.append(_Place(name, window, series, rank))
                rank += 1
    return places


def _longest_first(window: Window) -> float:
    """Of equally long ones the order of the config, in which demand tells them too."""
    return -window.duration_s


def _ledger(
    state: State, idx: IntArray, places: Sequence[_Place], limits: IntArray, now_ns: int
) -> WindowState:
    lengths = indexes(duration_ns(place.window) for place in places)
    anchors = indexes(
        place.window.anchor_ns if place.window.kind == "fixed" else NO_ANCHOR for place in places
    )
    return state.ledger.state(idx, now_ns, lengths, limits, anchors)


def _pace(places: Sequence[_Place], ledger: WindowState) -> Pace:
    fixed = np.array([place.window.kind == "fixed" for place in places])
    return Pace(ledger.used.astype(np.float64), np.where(fixed, ledger.elapsed, np.nan))


def _uvi(
    state: State,
    places: Sequence[_Place],
    quota: _Quota,
    bounds: Mapping[PoolId, UviLimits],
) -> uvi.Uvi:
    thresholds = uvi.thresholds_of([bounds[place.pool] for place in places])
    ledger = quota.ledger
    previous = indexes(state.window[place.series].status for place in places)
    return uvi.uvi(ledger.used / quota.limits, ledger.elapsed, quota.ages_s, previous, thresholds)


def _shadow_prices(
    state: State,
    idx: IntArray,
    places: Sequence[_Place],
    quota: _Quota,
    now_ns: int,
    routing: Routing,
) -> FloatArray:
    ledger, limits, remaining, rolling, peaks, _ = quota
    sketch = state.sketch.take(idx)
    ageing = None if rolling is None else rolling.ageing
    resets = ledger.resets_at_ns
    demand = forecast(state.demand, idx, now_ns, resets, remaining, ageing=ageing, peaks=peaks).draws
    remaining = given_back(rolling, remaining)
    bins = state.demand.closed_at(idx, now_ns)[_CLOSED_BINS]
    prior = np.array([_reference(place, routing) for place in places])
    elapsed = np.where(np.isfinite(ledger.elapsed), ledger.elapsed, 0.0)
    worth = mean_value(sketch, prior)
    dual = dual_price(worth, ledger.used / limits, elapsed)
    ranks = indexes(place.rank for place in places)
    return nested_prices(sketch, ranks, Dry(remaining, demand, bins), dual, worth)


def _reference(place: _Place, routing: Routing) -> float:
    return reference_nanousd(
        place.window, [target for target in routing.targets if target.pool_id == place.pool]
    )


def _belief(
    place: _Place, ledger: WindowState, ahead: Forecast, index: uvi.Uvi, price: float, k: int, now_ns: int
) -> WindowBelief:
    var_s2, settled = ahead.exhaust_var_s2[k], float(ahead.settled[k])
    known = bool(ledger.known[k])
    return WindowBelief(
        window=place.window.id,
        period_start_ns=int(ledger.start_ns[k]) if known else None,
        resets_at_ns=int(ledger.resets_at_ns[k]) if known else None,
        used=int(ledger.used[k]),
        limit=place.window.limit,
        uvi=_finite(index.value[k]),
        status=uvi.STATUSES[int(index.status[k])],
        p_exhaust=_finite(ahead.p_exhaust[k]),
        exhausts_at_ns=_moment(now_ns, ahead.exhaust_mean_s[k]),
        exhausts_sd_s=math.sqrt(var_s2) if math.isfinite(var_s2) else None,
        exhausts_p10_ns=_moment(now_ns, ahead.exhaust_p10_s[k]),
        exhausts_p50_ns=_moment(now_ns, ahead.exhaust_p50_s[k]),
        exhausts_p90_ns=_moment(now_ns, ahead.exhaust_p90_s[k]),
        coverage_80=_finite(ahead.coverage_80[k]),
        coverage_90=_finite(ahead.coverage_90[k]),
        forecasts_settled=settled if math.isfinite(settled) else 0.0,
        remaining_demand=_demand(ahead, k),
        remaining_quantiles=tuple(ahead.points[:, k].tolist()) if math.isfinite(ahead.points[0, k]) else (),
        shadow_nanousd=price,
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _moment(now_ns: int, in_s: float) -> int | None:
    return now_ns + int(in_s * 1e9) if math.isfinite(in_s) else None


def _demand(ahead: Forecast, k: int) -> Belief | None:
    mean = float(ahead.demand_mean[k])
    return Belief(mean, float(ahead.demand_var[k])) if math.isfinite(mean) else None
