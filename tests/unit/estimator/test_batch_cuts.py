"""Every model gives the same bits however a stream is cut into batches and whichever series share a call."""

from collections.abc import Callable

import numpy as np
import pytest

from tidegate.estimator import exhaustion
from tidegate.estimator.columns import IntArray, Table
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.health import Health
from tidegate.estimator.price_filter import PriceFilter
from tidegate.estimator.rate_filter import RateFilter, prompt_feature
from tidegate.estimator.shadow_price import ValueSketch, bid_price
from tidegate.estimator.windows import WindowLedger

SERIES = 37
EVENTS = 1500
MINUTE_NS = 60_000_000_000
FIVE_HOURS_NS = 300 * MINUTE_NS


class Stream:
    """Seeded events over SERIES subjects: who, when (not always in order), and four numbers."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.who = rng.integers(0, SERIES, EVENTS)
        gaps = rng.choice(
            [0, MINUTE_NS // 7, MINUTE_NS * 11, MINUTE_NS * 900], EVENTS, p=[0.2, 0.6, 0.19, 0.01]
        )
        late = rng.choice([0, -40 * MINUTE_NS], EVENTS, p=[0.95, 0.05])
        self.ts = 1_700_000_000 * 10**9 + np.cumsum(gaps) + late
        self.size = rng.lognormal(8, 2, EVENTS)
        self.coin = rng.random(EVENTS)


def _consume(model: Consumption, s: Stream, at: IntArray) -> None:
    model.observe(s.who[at], s.ts[at], s.size[at].astype(np.int64))


def _judge(model: Health, s: Stream, at: IntArray) -> None:
    model.observe(s.who[at], s.ts[at], s.coin[at] < 0.1, s.coin[at] > 0.95)


def _bill(model: PriceFilter, s: Stream, at: IntArray) -> None:
    tokens = s.size[at].astype(np.int64)
    listed, price = tokens * 3_000, np.where(s.coin[at] < 0.99, 3 * 10**9, 2 * 10**9)
    billed = listed * (s.coin[at] > 0.1) * (8 + (s.coin[at] > 0.6)) // 10
    model.observe(s.who[at], s.ts[at], billed, listed, tokens, price)


def _time(model: RateFilter, s: Stream, at: IntArray) -> None:
    prompt = (s.size[at] * 3).astype(np.int64)
    model.observe(s.who[at], s.ts[at], s.size[at], prompt_feature(prompt), s.coin[at] < 0.05)


def _time_exactly(model: RateFilter, s: Stream, at: IntArray) -> None:
    model.observe(s.who[at], s.ts[at], s.size[at], np.zeros(at.size))


def _value(model: ValueSketch, s: Stream, at: IntArray) -> None:
    units, life = np.ceil(s.coin[at] * 50), np.full(at.size, 1e8)
    model.observe(s.who[at], s.ts[at], s.size[at], units, units * 2, life)


def _use(model: WindowLedger, s: Stream, at: IntArray) -> None:
    start = s.ts[at] - s.ts[at] % FIVE_HOURS_NS
    model.use(s.who[at], start, s.size[at].astype(np.int64), np.zeros(at.size, dtype=np.int64))


def _consumption() -> Consumption:
    model = Consumption(SERIES)
    window = np.where(np.arange(SERIES) % 3 == 0, 7 * 24 * 60 * MINUTE_NS, FIVE_HOURS_NS)
    model.open_series(np.arange(SERIES), window)
    return model


CASES: list[tuple[Callable[[], Table], Callable[..., None]]] = [
    (_consumption, _consume),
    (lambda: Health(SERIES), _judge),
    (lambda: PriceFilter(SERIES), _bill),
    (lambda: RateFilter(SERIES), _time),
    (lambda: RateFilter(SERIES), _time_exactly),
    (lambda: ValueSketch(SERIES), _value),
    (lambda: WindowLedger(SERIES), _use),
]


@pytest.mark.parametrize(("build", "feed"), CASES)
def test_cutting_the_stream_anywhere_changes_no_bit(
    build: Callable[[], Table], feed: Callable[..., None]
) -> None:
    stream = Stream(5)
    whole, single, cut = build(), build(), build()
    feed(whole, stream, np.arange(EVENTS))
    for k in range(EVENTS):
        feed(single, stream, np.arange(k, k + 1))
    edges = np.sort(np.random.default_rng(6).choice(EVENTS, 60, replace=False))
    for part in np.split(np.arange(EVENTS), edges):
        feed(cut, stream, part)
    assert np.array_equal(whole.data, single.data)
    assert np.array_equal(whole.data, cut.data)
    assert not np.array_equal(whole.data, build().data)
    assert np.all(np.isfinite(whole.data))


@pytest.mark.parametrize(("build", "feed"), CASES)
def test_restoring_in_the_middle_changes_no_bit(
    build: Callable[[], Table], feed: Callable[..., None]
) -> None:
    stream = Stream(7)
    through, restored = build(), build()
    feed(through, stream, np.arange(EVENTS))
    half = build()
    feed(half, stream, np.arange(EVENTS // 2))
    for i in range(SERIES):
        restored.load(i, half.row(i))
    feed(restored, stream, np.arange(EVENTS // 2, EVENTS))
    assert np.array_equal(through.data, restored.data)


def test_a_belief_does_not_depend_on_which_series_are_asked_together() -> None:
    stream = Stream(8)
    model, sketch, everyone = _consumption(), ValueSketch(SERIES), np.arange(SERIES)
    _consume(model, stream, np.arange(EVENTS))
    _value(sketch, stream, np.arange(EVENTS))
    now = int(stream.ts.max()) + 3 * MINUTE_NS
    resets, quota = np.full(SERIES, now + 100 * MINUTE_NS), np.full(SERIES, 1e6)
    together = exhaustion.forecast(model, everyone, now, resets, quota)
    price = bid_price(sketch.take(everyone), quota, together.demand, np.zeros(SERIES))
    for size in (1, 2, 3, 5, 8, 13):
        some = everyone[-size:]
        apart = exhaustion.forecast(model, some, now, resets[some], quota[some])
        for one, other in zip(apart, together, strict=True):
            assert np.array_equal(one, other[..., some], equal_nan=True)
        alone = bid_price(sketch.take(some), quota[some], apart.demand, np.zeros(size))
        assert np.array_equal(alone, price[some])


def test_asking_changes_no_state() -> None:
    stream = Stream(9)
    model = _consumption()
    _consume(model, stream, np.arange(EVENTS))
    before = model.data.copy()
    now = int(stream.ts.max()) + 400 * MINUTE_NS
    exhaustion.forecast(model, np.arange(SERIES), now, np.full(SERIES, now + MINUTE_NS), np.ones(SERIES))
    assert np.array_equal(model.data, before)
