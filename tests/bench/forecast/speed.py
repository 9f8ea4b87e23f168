"""Speed of the models: a bin closed for ten thousand series, the bank alone, and forecasts in a batch. CPU time."""

import time
from collections.abc import Callable
from importlib import util
from types import ModuleType

import numpy as np

from tidegate.estimator import bank
from tidegate.estimator.columns import FloatArray
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.series_fields import BINS_PER_WINDOW

NS = 1_000_000_000
SERIES = 10_000
ASKED = 1_000
_BIN_NS = 600 * NS


def figures() -> dict[str, float]:
    """Least of several tries, in the unit of the name."""
    who = np.arange(SERIES)
    units = np.random.default_rng(3).integers(1, 100_000, SERIES)
    values = np.log(units.astype(np.float64))
    bank_s = _least_step_s(bank, values)
    six_s = _least_step_s(bank_of(3), values)
    series = Consumption(SERIES)
    series.open_series(who, np.full(SERIES, BINS_PER_WINDOW * _BIN_NS))
    steps = [_cpu_s(lambda k=k: series.observe(who, np.full(SERIES, k * _BIN_NS), units)) for k in range(60)]
    some, resets, rest = who[:ASKED], np.full(ASKED, 90 * _BIN_NS), np.full(ASKED, 1e6)
    ask_s = min(_cpu_s(lambda: forecast(series, some, 61 * _BIN_NS, resets, rest)) for _ in range(5))
    return {
        "bank_of_six_10000_ms": bank_s * 1e3,
        "six_states_10000_ms": six_s * 1e3,
        "close_bin_10000_ms": float(np.median(steps[30:])) * 1e3,
        "close_bin_with_record_10000_ms": float(np.mean(steps[30:])) * 1e3,
        "p_exhaust_ms": ask_s / ASKED * 1e3,
    }


def bank_of(members: int) -> ModuleType:
    """The bank's own code for its first members only, a level and a deviation each, beside the shared daily shape: a
    module of its own. Of the others nothing is read or written."""
    found = util.find_spec(bank.__name__)
    assert found is not None
    assert found.loader is not None
    narrow = util.module_from_spec(found)
    found.loader.exec_module(narrow)
    for group in ("SLOW", "FAST", "P00", "P01", "P11", "SCALE", "WEIGHT", "LOG_WEIGHT"):
        begin = getattr(bank, group).start
        setattr(narrow, group, slice(begin, begin + members))
    for table in ("REVERSION_BINS", "FAST_VAR"):
        setattr(narrow, table, getattr(bank, table)[:members])
    narrow.MEMBERS = members  # type: ignore[attr-defined]
    return narrow


def _least_step_s(filters: ModuleType, values: FloatArray) -> float:
    """CPU time of one step of all series: time passes, then each sees an active bin. Least of twelve."""
    state = np.repeat(np.array(bank.PRIOR)[:, None], values.size, axis=1)

    def step(k: int) -> None:
        filters.predict(state, np.ones(values.size), np.full(values.size, 600_000.0))
        filters.update(state, np.full(values.size, k * 600_000.0), values)

    return min(_cpu_s(lambda k=k: step(k)) for k in range(12))


def _cpu_s(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin
