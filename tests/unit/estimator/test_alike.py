"""Windows of one unit, kind and length teach a new one among them; others teach nothing, and nothing of it is stored."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.estimator.alike import LEAST
from tidegate.estimator.pooling import TAUGHT_BINS
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.snapshots import WindowBelief
from tidegate.events.types import PoolId, WindowId

NS = 10**9
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30
START_NS = 360_000 * WINDOW_NS
W, NEW = WindowId("5h"), PoolId("new")
BINS = int(TAUGHT_BINS) + 70
NOW_NS = START_NS + (BINS + 3) * BIN_NS


def window(**fields: object) -> Window:
    known = {"id": W, "unit": "requests", "limit": 40, "duration_s": 18_000.0, "kind": "first_request"}
    return Window(**(known | fields))  # type: ignore[arg-type]


def world(teachers: int) -> State:
    """Plans whose users work for an hour and are not seen again that day, and a new one that has begun to."""
    state, rng = State(), np.random.default_rng(4)
    names = [PoolId(f"p{k}") for k in range(teachers)]
    series = [
        state.window_of(state.pool(name, 0), W, WINDOW_NS, first_request=True) for name in (*names, NEW)
    ]
    for bin_ in range(BINS):
        busy = [s for s in series[:-1] if (bin_ + 7 * s) % 60 < 6]
        if busy:
            units = rng.integers(3, 6, size=len(busy))
            state.use.observe(np.array(busy), np.full(len(busy), START_NS + bin_ * BIN_NS), units)
    for bin_ in range(BINS, BINS + 3):
        state.use.observe(np.array(series[-1:]), np.array([START_NS + bin_ * BIN_NS]), np.array([4]))
        start = np.array([START_NS + BINS * BIN_NS])
        state.ledger.use(np.array(series[-1:]), start, np.array([4]), np.array([WINDOW_NS]))
    return state


def believed(state: State, others: Window, asked: PoolId = NEW, own: Window | None = None) -> WindowBelief:
    names = [name for name in state.pools if name != NEW]
    pools = tuple(Pool(id=name, billing="flat", windows=(others,)) for name in names)
    routing = Routing(pools=(*pools, Pool(id=NEW, billing="flat", windows=(own or window(),))))
    return publish(state, NOW_NS, routing, [], [asked]).pools[asked].windows[0]


def demand(belief: WindowBelief) -> float:
    assert belief.remaining_demand is not None
    return belief.remaining_demand.mean


def test_a_new_plan_is_expected_to_be_used_as_others_like_it_are() -> None:
    state = world(8)
    taught, alone = believed(state, window()), believed(world(LEAST - 1), window())
    assert taught.used == alone.used == 12
    assert demand(taught) < 0.6 * demand(alone), "the others stop after an hour"
    assert taught.p_exhaust is not None
    assert alone.p_exhaust is not None
    assert taught.p_exhaust < alone.p_exhaust


@pytest.mark.parametrize(
    "others", [window(unit="tokens"), window(kind="fixed"), window(duration_s=17_000.0)], ids=str
)
def test_windows_of_another_unit_kind_or_length_teach_nothing(others: Window) -> None:
    state = world(8)
    assert demand(believed(state, others)) == demand(believed(world(LEAST - 1), window()))


def test_a_plan_that_has_seen_enough_goes_by_itself() -> None:
    state = world(8)
    many, few = believed(state, window(), PoolId("p0")), believed(state, window(unit="tokens"), PoolId("p0"))
    assert demand(many) == demand(few)


def test_what_is_stored_of_a_series_stays_its_own() -> None:
    state = world(8)
    before = state.pool_row(NEW)
    believed(state, window())
    assert state.pool_row(NEW) == before
