"""What the bench scores is what an estimator publishes, bit for bit: through its state, on made traffic."""

from typing import Literal

import numpy as np
import pytest

from bench.forecast.hurdle import NS, answers
from bench.forecast.questions import PLACES, Task, asked, fixed
from bench.forecast.traffic import Traffic
from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.snapshots import WindowBelief
from tidegate.events.types import PoolId, WindowId

SERIES, WINDOWS, WINDOW_S = 9, 5, 18_000
BIN_NS = WINDOW_S * NS // 30
LAST = range(WINDOWS - 1, WINDOWS)
Kind = Literal["fixed", "first_request"]


def _traffic() -> Traffic:
    rng = np.random.default_rng(6)
    units = np.ceil(rng.lognormal(3.0, 0.6, (SERIES, WINDOWS, 30))) * (
        rng.random((SERIES, WINDOWS, 30)) < 0.6
    )
    units[:, :, 0] += 1.0  # a period that opens with its first request begins at once
    return Traffic([f"p{k}" for k in range(SERIES)], units, WINDOW_S)


def _published(traffic: Traffic, quota: FloatArray, kind: Kind) -> dict[tuple[int, int], WindowBelief]:
    """Beliefs by place and series, of the last window."""
    names = [PoolId(name) for name in traffic.names]
    windows = [
        Window(id=WindowId("w"), unit="requests", limit=int(limit), duration_s=WINDOW_S, kind=kind)
        for limit in quota
    ]
    pools = tuple(Pool(id=n, billing="flat", windows=(w,)) for n, w in zip(names, windows, strict=True))
    state, found = State(), dict[tuple[int, int], WindowBelief]()
    opened = kind == "first_request"
    series: IntArray = np.array(
        [state.window_of(state.pool(n, 0), WindowId("w"), WINDOW_S * NS, first_request=opened) for n in names]
    )
    for bin_ in range(WINDOWS * 30):
        window, within = divmod(bin_, 30)
        if window in LAST and within in PLACES:
            beliefs = publish(state, bin_ * BIN_NS, Routing(pools=pools), (), names).pools
            for k, name in enumerate(names):
                found[PLACES.index(within), k] = beliefs[name].windows[0]
        units = traffic.units[:, window, within].astype(np.int64)
        busy = np.flatnonzero(units)
        at = np.full(busy.size, bin_ * BIN_NS + BIN_NS // 2)
        state.use.observe(series[busy], at, units[busy])
        start, overlap = window * WINDOW_S * NS, WINDOW_S * NS if opened else 0
        state.ledger.use(series[busy], np.full(busy.size, start), units[busy], np.full(busy.size, overlap))
    return found


def _asked(traffic: Traffic) -> tuple[FloatArray, Task]:
    quota = np.floor(np.median(traffic.units.sum(axis=2), axis=1))
    return quota, fixed(asked(traffic), quota, LAST)


@pytest.mark.parametrize("kind", ["fixed", "first_request"])
def test_what_is_scored_is_what_is_published(kind: Kind) -> None:
    traffic = _traffic()
    quota, task = _asked(traffic)
    ours = answers(traffic, LAST, fixed_clock=kind == "fixed")
    said, believed = ours.chance(task), _published(traffic, quota, kind)
    assert task.left.size > 30
    for p, place, series in zip(said, task.place, task.series, strict=True):
        belief = believed[int(place), int(series)]
        assert belief.p_exhaust == p
        assert belief.remaining_quantiles == tuple(ours.points(LAST.start, int(place))[:, series].tolist())
