"""A new series begins with what the others taught."""

import numpy as np
import pytest

from tidegate.estimator import activity, bank
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.pooling import pooled, shrunk
from tidegate.estimator.series_fields import CHAIN, LEVEL

NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30


def _short_lived(n: int = 60) -> Consumption:
    """Series that use about 1,000 units a bin for an hour and are never seen again."""
    rng = np.random.default_rng(9)
    series, who = Consumption(n), np.arange(n)
    series.open_series(who, np.full(n, WINDOW_NS))
    for bin_ in range(6):
        units = (1000 * rng.lognormal(0, 0.4, n)).astype(np.int64)
        series.observe(who, np.full(n, bin_ * BIN_NS), units)
    return series


def test_a_new_series_is_expected_to_live_as_briefly_as_the_others_did() -> None:
    column = pooled(_short_lived().closed_at(np.arange(60), 30 * BIN_NS))
    fresh = Consumption(2)
    fresh.open_series(np.arange(2), np.full(2, WINDOW_NS))
    columns = np.stack((column, np.full(column.size, np.nan)), axis=1)
    fresh.observe(np.arange(2), np.zeros(2, dtype=np.int64), np.full(2, 1000))
    asked = np.arange(2), 2 * BIN_NS, np.full(2, WINDOW_NS), np.full(2, 8_000.0)
    ask = forecast(fresh, *asked, taught=columns)
    assert ask.demand_mean[0] < 0.5 * ask.demand_mean[1]
    alone = forecast(fresh, *asked)
    assert ask.demand_mean[1] == alone.demand_mean[1], "whom nobody taught goes by the declared prior"


def test_the_pool_sets_the_level_and_the_doubt_about_it() -> None:
    column = pooled(_short_lived().closed_at(np.arange(60), 30 * BIN_NS))
    assert np.all(np.abs(column[LEVEL][bank.SLOW] - np.log(1000)) < 0.3)
    assert np.all(column[LEVEL][bank.P00] > 0)
    chain = column[CHAIN]
    assert chain[activity.STOP] / (chain[activity.STOP] + chain[activity.GO_ON]) < 0.4
    last = activity.START + 3
    assert chain[last] / (chain[last] + chain[activity.STAY_IDLE + 3]) < 0.03


def test_what_a_series_saw_itself_outweighs_what_others_taught_and_at_last_stands_alone() -> None:
    column = pooled(_short_lived().closed_at(np.arange(60), 30 * BIN_NS))
    busy = Consumption(1)
    busy.open_series(np.array([0]), np.array([WINDOW_NS]))
    apart: list[float] = []
    for bin_ in range(160):
        busy.observe(np.array([0]), np.array([bin_ * BIN_NS]), np.array([700]))
        block = busy.closed_at(np.array([0]), (bin_ + 1) * BIN_NS)
        read = shrunk(block, column[:, None])
        chain, own = read[CHAIN][:, 0], block[CHAIN][:, 0]
        apart.append(abs(_stop(chain) - _stop(own)))
        assert np.all(chain >= 0)
        assert np.array_equal(read[LEVEL], block[LEVEL]), "its level is its own from the first closed bin on"
    assert apart[0] > 2 * apart[60] > apart[-1] == 0.0


def _stop(chain: FloatArray) -> float:
    return float(chain[activity.STOP] / (chain[activity.STOP] + chain[activity.GO_ON]))


def test_a_pool_that_saw_nothing_teaches_nothing() -> None:
    with pytest.raises(ValueError, match="no series"):
        pooled(Consumption(3).take(np.arange(3)))
